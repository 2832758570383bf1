"""Shards of examples with masks and pairs in them, for other trainers."""

from __future__ import annotations

import hashlib

import tensorflow as tf

from albert_tf.data.examples import ExampleMaker
from albert_tf.data.google_examples import encode_examples
from albert_tf.data.prepared import EVAL
from albert_tf.data.pretraining import example_batches
from albert_tf.data.sources import prepared_source
from albert_tf.features import SENTENCE_LABELS
from albert_tf.preprocessing.plan import Preparation
from albert_tf.recipes import ExampleSettings

_BATCH_SIZE = 64


def example_maker(plan: Preparation) -> ExampleMaker:
    """The maker of a plan's examples; InputError if its sizes are impossible."""
    settings = ExampleSettings(seq_length=plan.seq_length, max_predictions=plan.max_predictions)
    return ExampleMaker(plan.tokenizer.open().vocabulary, settings, _BATCH_SIZE)


def write_examples(path: str, shard: str, plan: Preparation) -> int:
    """Replaces the documents in a file by examples made of them, dupe_factor times; returns how many.

    Args:
      path: the file, TFRecords of documents.
      shard: its name, which decides about the seed.
      plan: what to prepare.
    """
    seed = int.from_bytes(hashlib.blake2b(f"{plan.seed}/{shard}".encode(), digest_size=4).digest(), "little")
    maker = example_maker(plan)
    batches = example_batches(
        prepared_source([path]),
        maker,
        tf.distribute.InputContext(),
        epochs=1 if shard.startswith(EVAL) else plan.dupe_factor,
        seed=seed,
    )
    label = SENTENCE_LABELS[maker.settings.sentence_objective]
    count = 0
    temporary = f"{path}.examples"
    with tf.io.TFRecordWriter(temporary) as file:
        for batch in batches.as_numpy_iterator():
            for record in encode_examples(batch, maker.vocabulary, label):
                file.write(record)
                count += 1
    tf.io.gfile.rename(temporary, path, overwrite=True)
    return count
