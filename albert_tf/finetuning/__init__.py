"""Training on labelled examples."""
