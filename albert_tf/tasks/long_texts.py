"""Texts that are longer than the model's input: they are cut, or read in windows whose logits are pooled."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.constants import HEAD_TAIL, INPUT_MASK, MEAN_WINDOW, WEIGHTS, WINDOWS, WORD_IDS
from albert_tf.errors import check_whole
from albert_tf.recipes import LongTexts
from albert_tf.tasks.examples import TokenizedExamples
from albert_tf.text.offsets import rows_of
from albert_tf.text.packing import Windows, pack, pack_spans, sliding_windows
from albert_tf.text.text_tokenizer import InputFormat

HEAD_SHARE = 4  # a fourth of the kept tokens is the head: 128 tokens of 510


def head_and_tail(tokens: tf.RaggedTensor, budget: int) -> tf.RaggedTensor:
    """Cuts texts, int32 [B, (tokens)], to `budget` tokens: the first quarter of them, and the end.

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


def split_into_windows(rows: TokenizedExamples, seq_length: int, settings: LongTexts) -> TokenizedExamples:
    """Splits texts into windows; returns these as examples, whose `records` are the texts.

    A window has the label of its text. The weights in the loss of all windows of a text add up to 1.
    """
    with tf.device("CPU:0"):
        text_lengths = tf.constant(rows.lengths[:, 0])
        windows = _create_windows(text_lengths, seq_length, rows.num_special_tokens, settings)
        text_of, _, starts, lengths = (values.numpy() for values in windows)
    features = {name: values[text_of] for name, values in rows.features.items()}
    weights = (1 / np.bincount(text_of)[text_of]).astype(np.float32)
    return dataclasses.replace(
        rows,
        starts=rows.starts[text_of] + starts[:, np.newaxis],
        lengths=lengths[:, np.newaxis],
        features={**features, WEIGHTS: weights},
        records=text_of,
        dropped=0,
    )


def window_inputs(
    inputs: Mapping[str, tf.Tensor], seq_length: int, input_format: InputFormat, settings: LongTexts
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Splits the encoder's inputs of whole texts, int32 [B, S] each, with any S, into windows.

    Returns the encoder's inputs of the windows, int32 [W, seq_length] each, and the text of each, int32 [W].
    """
    specials = input_format.num_special_tokens(1)
    lengths = tf.maximum(tf.reduce_sum(inputs[INPUT_MASK], axis=1) - specials, 0)  # [B]
    rows, _, starts, lengths = _create_windows(lengths, seq_length, specials, settings)
    starts += rows * tf.shape(inputs[INPUT_MASK])[1] + len(input_format.start)
    tokens = tf.reshape(inputs[WORD_IDS], [-1])
    return pack_spans(tokens, [starts], [lengths], seq_length, input_format), rows


def text_inputs(
    segments: Sequence[tf.RaggedTensor], seq_length: int, input_format: InputFormat, settings: LongTexts
) -> dict[str, tf.Tensor]:
    """The encoder's inputs of texts, int32 [B, S] each: uncut if the settings say to read windows."""
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
    """Pools the logits of windows, [W, K], to logits of texts, [count, K]; `rows` [W] is the text of each."""
    is_mean = settings.window_pooling == MEAN_WINDOW
    pool = tf.math.unsorted_segment_mean if is_mean else tf.math.unsorted_segment_max
    return pool(logits, rows, count)


def _create_windows(lengths: tf.Tensor, seq_length: int, specials: int, settings: LongTexts) -> Windows:
    """The windows of texts of these lengths, int32 [B]."""
    check_whole("seq_length", seq_length, specials + 1)
    budgets = tf.fill(tf.shape(lengths), seq_length - specials)
    return sliding_windows(lengths, budgets, settings.doc_stride)
