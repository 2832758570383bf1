"""Checkpoints of other implementations, in and out."""

from albert_tf.conversion.convert import Conversion, convert

__all__ = ["Conversion", "convert"]
