"""Labelled text to batches: a reader a format, records to token ids, token ids to batches by length."""
