"""Where the weights of a new model begin."""

from albert_tf.origins.start import Start, opened, published_run, start_of_run

__all__ = ["Start", "opened", "published_run", "start_of_run"]
