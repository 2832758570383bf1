"""The network: embeddings, groups of shared layers, heads."""

from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.sharing import sharing_plan
from albert_tf.model.tasks import AlbertPretrainer

__all__ = ["AlbertEncoder", "AlbertPretrainer", "sharing_plan"]
