"""Files of predictions."""
