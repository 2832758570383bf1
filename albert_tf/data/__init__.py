"""Token ids to masked batches."""

from albert_tf.data.pretraining import pretraining_dataset

__all__ = ["pretraining_dataset"]
