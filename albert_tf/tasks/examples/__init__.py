"""Labelled texts as token ids, and batches of them by length."""
