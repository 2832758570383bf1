"""Checkpoints of other implementations, in and out."""
