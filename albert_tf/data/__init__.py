"""Token ids to masked batches."""

from albert_tf.data.held_out import evaluated_share, held_out_shares
from albert_tf.data.pretraining import NothingFound, pretraining_dataset
from albert_tf.data.shares import Share
from albert_tf.data.sources import document_tokens, held_out_shards, to_evaluate_on
from albert_tf.data.tfrecords import naming_damaged_files

__all__ = [
    "NothingFound",
    "Share",
    "document_tokens",
    "evaluated_share",
    "held_out_shards",
    "held_out_shares",
    "naming_damaged_files",
    "pretraining_dataset",
    "to_evaluate_on",
]
