"""Parameters of models, and learning curves."""
