"""Losses, metrics and the one training loop."""
