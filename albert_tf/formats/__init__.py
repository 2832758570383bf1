"""Checkpoints of other implementations, in and out."""

from albert_tf.formats.conversion import Conversion, convert
from albert_tf.formats.published_runs import published_run

__all__ = ["Conversion", "convert", "published_run"]
