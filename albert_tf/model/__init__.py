"""The network: embeddings, groups of shared layers, heads."""

from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.sharing import sharing_plan
from albert_tf.model.span_labeler import AlbertSpanLabeler
from albert_tf.model.tasks import (
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
