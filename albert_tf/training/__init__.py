"""Losses, metrics and the one training loop."""

from albert_tf.training import metrics

__all__ = ["metrics"]
