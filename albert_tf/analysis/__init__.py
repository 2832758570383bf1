"""Learning curves, hidden states and attention of a model, and plans of runs."""
