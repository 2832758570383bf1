"""Weights in and out of files: our run directory and the formats of other implementations."""
