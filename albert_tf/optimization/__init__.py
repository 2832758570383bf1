"""LAMB, AdamW and their learning-rate schedule, as google-research/albert computes them."""
