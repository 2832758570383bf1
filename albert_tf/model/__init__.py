"""The network: embeddings, groups of shared layers, heads."""

from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.sharing import sharing_plan
from albert_tf.model.tasks import AlbertClassifier, AlbertMultipleChoice, AlbertPretrainer, AlbertSpanLabeler

__all__ = [
    "AlbertClassifier",
    "AlbertEncoder",
    "AlbertMultipleChoice",
    "AlbertPretrainer",
    "AlbertSpanLabeler",
    "sharing_plan",
]
