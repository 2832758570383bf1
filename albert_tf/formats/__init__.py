"""Checkpoints of other implementations, in and out."""

from albert_tf.formats.conversion import Conversion, convert

__all__ = ["Conversion", "convert"]
