"""The network: embeddings, groups of shared layers, heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from albert_tf.utils.lazy import lazy_names

if TYPE_CHECKING:
    from albert_tf.models.encoder import AlbertEncoder
    from albert_tf.models.sharing import sharing_plan
    from albert_tf.models.span_labeler import AlbertSpanLabeler
    from albert_tf.models.task_models import (
        AlbertClassifier,
        AlbertMultipleChoice,
        AlbertPretrainer,
        AlbertTokenClassifier,
    )

__all__ = [
    "AlbertClassifier",
    "AlbertEncoder",
    "AlbertMultipleChoice",
    "AlbertPretrainer",
    "AlbertSpanLabeler",
    "AlbertTokenClassifier",
    "sharing_plan",
]

_MODULES = dict.fromkeys(__all__, "albert_tf.models.task_models")
_MODULES |= {
    "AlbertEncoder": "albert_tf.models.encoder",
    "AlbertSpanLabeler": "albert_tf.models.span_labeler",
    "sharing_plan": "albert_tf.models.sharing",
}
__getattr__ = lazy_names(__name__, _MODULES)
