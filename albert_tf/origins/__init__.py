"""Starts of the weights of a new model."""

from albert_tf.checkpoints.origin import HUB
from albert_tf.origins.start import Start, opened, published_run, run_at, start_of_run

__all__ = ["HUB", "Start", "opened", "published_run", "run_at", "start_of_run"]
