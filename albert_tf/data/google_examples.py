"""Pre-training examples in the TFRecord schema of google-research/albert, with their masks in them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from albert_tf.data.tfrecords import serialised_example
from albert_tf.features import (
    MASK,
    MLM_IDS,
    MLM_POSITIONS,
    MLM_WEIGHTS,
    SENTENCE_LABELS,
    TYPE_IDS,
    WORD_IDS,
)
from albert_tf.recipes import ExampleSettings
from albert_tf.tokenizers.kinds import TokenIds
from albert_tf.utils.errors import InputError

# Google's names of our features. Its sentence labels are called so whatever the objective.
GOOGLE_NAMES = {
    WORD_IDS: "input_ids",
    MASK: "input_mask",
    TYPE_IDS: "segment_ids",
    MLM_POSITIONS: "masked_lm_positions",
    MLM_IDS: "masked_lm_ids",
    MLM_WEIGHTS: "masked_lm_weights",
}
LABELS = "next_sentence_labels"
TOKEN_BOUNDARY = "token_boundary"  # 1 where a word starts and at special tokens


def encode_examples(
    batch: Mapping[str, np.ndarray], vocabulary: TokenIds, label_name: str | None
) -> list[bytes]:
    """The rows of a batch of `pretraining_dataset`, without those that fill it up, as tf.train.Examples.

    `label_name` is the sentence labels' name in the batch; None writes zeros.
    """
    original = np.array(batch[WORD_IDS])
    rows, columns = np.nonzero(batch[MLM_WEIGHTS])
    original[rows, batch[MLM_POSITIONS][rows, columns]] = batch[MLM_IDS][rows, columns]
    special = np.isin(original, vocabulary.input_format.framing_ids)
    boundary = (special | vocabulary.starts_word[original]) & (batch[MASK] == 1)
    labels = batch[label_name] if label_name else np.zeros(len(original), np.int32)
    columns_by_name = {google: batch[name] for name, google in GOOGLE_NAMES.items()}
    columns_by_name |= {TOKEN_BOUNDARY: boundary.astype(np.int32), LABELS: labels[:, np.newaxis]}
    real = np.flatnonzero(batch[MASK].any(axis=1))
    return [
        serialised_example({name: column[row] for name, column in columns_by_name.items()}) for row in real
    ]


def check_example(
    example: tf.train.Example, file: str, seq_length: int, max_predictions: int | None, vocab_size: int
) -> int:
    """The number of predictions an example stores, P; InputError if it is not one of these sizes and ids."""
    features = example.features.feature
    if missing := {*GOOGLE_NAMES.values(), LABELS} - features.keys():
        raise InputError(f"{file}: its records have no {min(missing)}: they are not pre-training examples")
    ids = features[GOOGLE_NAMES[WORD_IDS]].int64_list.value
    predictions = len(features[GOOGLE_NAMES[MLM_IDS]].int64_list.value)
    asked = {"seq_length": seq_length, "max_predictions": max_predictions or predictions}
    stored = {"seq_length": len(ids), "max_predictions": predictions}
    if asked != stored or max(ids) >= vocab_size:
        raise InputError(
            f"{file}: its examples have {stored} and ids up to {max(ids)}; asked for are {asked} and a "
            f"vocabulary of {vocab_size} pieces"
        )
    return predictions


def decode_examples(records: tf.Tensor, settings: ExampleSettings) -> dict[str, tf.Tensor]:
    """A batch of stored examples, string [B], under our names; the settings say which labels they have."""
    sizes = dict.fromkeys((WORD_IDS, MASK, TYPE_IDS), settings.seq_length)
    sizes |= dict.fromkeys((MLM_POSITIONS, MLM_IDS, MLM_WEIGHTS), settings.predictions)
    specs = {
        GOOGLE_NAMES[name]: tf.io.FixedLenFeature([size], tf.float32 if name == MLM_WEIGHTS else tf.int64)
        for name, size in sizes.items()
    }
    parsed = tf.io.parse_example(records, specs | {LABELS: tf.io.FixedLenFeature([], tf.int64)})
    batch = {name: parsed[google] for name, google in GOOGLE_NAMES.items()}
    if settings.sentence_objective != "none":
        batch[SENTENCE_LABELS[settings.sentence_objective]] = parsed[LABELS]
    return {name: x if x.dtype == tf.float32 else tf.cast(x, tf.int32) for name, x in batch.items()}
