"""Sliding windows over documents that are too long for one input, with core TensorFlow ops alone."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from albert_tf.text.offsets import rows_of


class Windows(NamedTuple):
    """The windows of a batch of documents, those of one document after the other.

    Attributes:
      rows: the document of each, int32 [W].
      numbers: which of that document's windows it is, from 0; int32 [W].
      starts: its first token in the document, int32 [W].
      lengths: its tokens, int32 [W].
    """

    rows: tf.Tensor
    numbers: tf.Tensor
    starts: tf.Tensor
    lengths: tf.Tensor


def sliding_windows(lengths: tf.Tensor, budgets: tf.Tensor, stride: tf.Tensor | int) -> Windows:
    """The windows that together show all of each document.

    Args:
      lengths: tokens of the documents, int32 [N].
      budgets: tokens that a window of each may have, at least 1; int32 [N].
      stride: tokens from one window to the next, at least 1; never more than the budget.
    Returns:
      The windows; all but the last of a document are full, and an empty document has an empty one.
    Source: google-research/albert, `convert_examples_to_features` in squad_utils.py.
    """
    steps = tf.minimum(budgets, stride)  # [N]
    further = tf.maximum(lengths - budgets + steps - 1, 0) // steps  # [N]
    splits = tf.concat([[0], tf.cumsum(further + 1)], axis=0)  # [N + 1]
    rows = rows_of(tf.cast(splits, tf.int64))  # [W]
    numbers = tf.range(tf.size(rows)) - tf.gather(splits, rows)  # [W]
    starts = numbers * tf.gather(steps, rows)
    return Windows(
        rows, numbers, starts, tf.minimum(tf.gather(budgets, rows), tf.gather(lengths, rows) - starts)
    )
