"""Texts that are longer than an input: cut, or read in windows whose logits are pooled."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.constants import HEAD_TAIL, INPUT_MASK, MEAN_WINDOW, WEIGHTS, WINDOWS, WORD_IDS
from albert_tf.recipes import LongTexts
from albert_tf.tasks.examples import TokenizedExamples, check_length
from albert_tf.text.offsets import rows_of
from albert_tf.text.packing import Windows, pack, pack_spans, sliding_windows
from albert_tf.text.text_tokenizer import InputFormat

HEAD_SHARE = 4  # a fourth of what stays is the head: 128 tokens of 510


def head_and_tail(tokens: tf.RaggedTensor, budget: int) -> tf.RaggedTensor:
    """Texts int32 [B, (tokens)] of at most `budget` tokens: of longer ones the first quarter and the end.

    Source: Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?", §5.3.1.
    """
    head, splits = -(-budget // HEAD_SHARE), tf.cast(tokens.row_splits, tf.int64)
    rows = rows_of(splits)  # [T]
    places = tf.range(splits[-1])
    is_head = places - tf.gather(splits, rows) < head
    is_kept = is_head | (tf.gather(splits, rows + 1) - places <= budget - head)
    lengths = tf.minimum(splits[1:] - splits[:-1], budget)
    splits = tf.concat([[0], tf.cumsum(lengths)], axis=0)
    return tf.RaggedTensor.from_row_splits(tf.boolean_mask(tokens.values, is_kept), splits, validate=False)


def in_windows(
    rows: TokenizedExamples, seq_length: int, settings: LongTexts
) -> tuple[TokenizedExamples, np.ndarray]:
    """Rows of texts as rows of their windows, and the text of each, int32 [W].

    Each has the label of its text, and a weight in the loss with which all windows of a text count as one.
    """
    with tf.device("CPU:0"):
        lengths = rows.lengths[:, 0]
        found = _windows(tf.constant(lengths), seq_length, rows.num_special_tokens, settings)
        numbers, _, starts, lengths = (values.numpy() for values in found)
    features = {name: values[numbers] for name, values in rows.features.items()}
    weights = (1 / np.bincount(numbers)[numbers]).astype(np.float32)
    changed = dataclasses.replace(
        rows,
        starts=rows.starts[numbers] + starts[:, np.newaxis],
        lengths=lengths[:, np.newaxis],
        features={**features, WEIGHTS: weights},
        records=numbers,
        dropped=0,
    )
    return changed, numbers


def window_inputs(
    inputs: Mapping[str, tf.Tensor], seq_length: int, input_format: InputFormat, settings: LongTexts
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """The encoder's inputs of windows, int32 [W, seq_length] each, and the text of each, int32 [W].

    The inputs are those of whole texts, of any length, int32 [B, S] each.
    """
    specials = input_format.num_special_tokens(1)
    lengths = tf.maximum(tf.reduce_sum(inputs[INPUT_MASK], axis=1) - specials, 0)  # [B]
    rows, _, starts, lengths = _windows(lengths, seq_length, specials, settings)
    starts += rows * tf.shape(inputs[INPUT_MASK])[1] + len(input_format.start)
    tokens = tf.reshape(inputs[WORD_IDS], [-1])
    return pack_spans(tokens, [starts], [lengths], seq_length, input_format), rows


def text_inputs(
    segments: Sequence[tf.RaggedTensor], seq_length: int, input_format: InputFormat, settings: LongTexts
) -> dict[str, tf.Tensor]:
    """The encoder's inputs of texts, int32 [B, S] each; whole texts where they are read in windows."""
    specials = input_format.num_special_tokens(len(segments))
    if settings.long == WINDOWS:
        longest = tf.reduce_max(tf.concat([[1], tf.cast(segments[0].row_lengths(), tf.int32)], axis=0))
        return pack(segments, longest + specials, input_format)
    if settings.long == HEAD_TAIL:
        segments = [head_and_tail(segment, seq_length - specials) for segment in segments]
    return pack(segments, seq_length, input_format)


def pool_windows(
    logits: tf.Tensor, rows: tf.Tensor, count: tf.Tensor | int, settings: LongTexts
) -> tf.Tensor:
    """Logits of windows [W, K], each of the text `rows` [W] says, as those of so many texts, [count, K]."""
    is_mean = settings.window_pooling == MEAN_WINDOW
    pool = tf.math.unsorted_segment_mean if is_mean else tf.math.unsorted_segment_max
    return pool(logits, rows, count)


def _windows(lengths: tf.Tensor, seq_length: int, specials: int, settings: LongTexts) -> Windows:
    """The windows of texts, whose lengths are int32 [B]."""
    check_length("seq_length", seq_length, specials + 1)
    budgets = tf.fill(tf.shape(lengths), seq_length - specials)
    return sliding_windows(lengths, budgets, settings.doc_stride)
