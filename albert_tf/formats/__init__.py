"""Checkpoints of other implementations, in and out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from albert_tf.lazy import lazy_names

if TYPE_CHECKING:
    from albert_tf.formats.conversion import Conversion, convert

__all__ = ["Conversion", "convert"]

_CONVERSION = "albert_tf.formats.conversion"
__getattr__ = lazy_names(__name__, {"Conversion": _CONVERSION, "convert": _CONVERSION})
