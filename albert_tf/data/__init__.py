"""Token ids to masked batches."""

from albert_tf.data.pretraining import pretraining_dataset
from albert_tf.data.sources import held_out_shards, to_evaluate_on
from albert_tf.data.tfrecords import naming_damaged_files

__all__ = ["held_out_shards", "naming_damaged_files", "pretraining_dataset", "to_evaluate_on"]
