"""Learning curves, what layers and attention do to text, and plans of runs."""
