"""The engine: updates, the one loop, evaluation, resuming; callers say what is trained, and on what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from albert_tf.lazy import lazy_names

if TYPE_CHECKING:
    from albert_tf.training import metrics

__all__ = ["metrics"]

__getattr__ = lazy_names(__name__, {"metrics": "albert_tf.training.metrics"})
