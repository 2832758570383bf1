"""Token ids to masked batches."""
