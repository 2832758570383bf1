"""Trained models as SavedModels for TF Hub: text to tensors, and tensors to hidden states."""
