"""Pre-training: settings, batches, losses, training and evaluation."""
