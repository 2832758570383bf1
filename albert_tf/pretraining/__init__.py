"""Pre-training: its settings, its batches, its losses, a run and its evaluation."""
