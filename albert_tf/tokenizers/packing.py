"""Segments of token ids to inputs: trimmed, framed by special tokens and padded, with core TensorFlow ops.

TF Serving lacks some of TF Text's trimming ops, and a TPU's host runs no Assert ops: none are in here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from albert_tf.features import MASK, TYPE_IDS, WORD_IDS
from albert_tf.tokenizers.input_format import ALBERT_FORMAT, InputFormat
from albert_tf.utils.errors import InputError, shown


def trimmed_lengths(a: tf.Tensor, b: tf.Tensor, budget: tf.Tensor | int) -> tuple[tf.Tensor, tf.Tensor]:
    """The lengths of two segments, int32 [B], after trimming them to a common budget in turn, token by token.

    They are unchanged where they fit; else their sum is the budget, and they are as equal as can be: the
    first gets the odd token. A negative budget counts as 0.
    """
    budget = tf.maximum(budget, 0)
    kept_a = tf.minimum(a, tf.maximum(budget - budget // 2, budget - b))
    return kept_a, tf.minimum(b, budget - kept_a)


def pack_spans(
    tokens: tf.Tensor,
    starts: Sequence[tf.Tensor],
    lengths: Sequence[tf.Tensor],
    seq_length: tf.Tensor | int,
    input_format: InputFormat = ALBERT_FORMAT,
) -> tf.Tensor:
    """The input_word_ids, int32 [B, S], of spans of one long run of tokens, int32 [T].

    Starts are the first position in `tokens` of each segment, int32 [B] each. Lengths are trimmed already:
    they fit with the special tokens.
    """
    columns, begins, ends = _columns(lengths, seq_length, input_format)
    # Whatever lies outside of segments reads this padding, which also keeps the gather off an empty tensor.
    tokens = tf.concat([tokens, [input_format.padding]], axis=0)  # [T + 1]
    source = tf.fill([tf.size(starts[0]), seq_length], tf.size(tokens) - 1)  # [B, S]
    for start, begin, end in zip(starts, begins, ends, strict=True):
        inside = (columns >= begin) & (columns < end)
        source = tf.where(inside, start[:, tf.newaxis] + columns - begin, source)
    word_ids = tf.gather(tokens, source)
    frame = [(0, input_format.start), (ends[-1], input_format.end)]
    frame += [(end, input_format.between) for end in ends[:-1]]
    for begin, special_ids in frame:
        for place, special in enumerate(special_ids):
            word_ids = tf.where(columns == begin + place, special, word_ids)
    return word_ids


def segment_numbers(
    lengths: Sequence[tf.Tensor], seq_length: tf.Tensor | int, input_format: InputFormat = ALBERT_FORMAT
) -> tf.Tensor:
    """The segment of each token of packed rows, from the segments' lengths, int32 [B] each: int32 [B, S].

    It is 1 in the first segment, 2 in the second, 0 for special tokens and padding.
    """
    columns, begins, ends = _columns(lengths, seq_length, input_format)
    inside = [(columns >= begin) & (columns < end) for begin, end in zip(begins, ends, strict=True)]
    return tf.add_n([tf.where(where, number, 0) for number, where in enumerate(inside, start=1)])


def mask_and_type_ids(
    lengths: Sequence[tf.Tensor], seq_length: tf.Tensor | int, input_format: InputFormat = ALBERT_FORMAT
) -> tuple[tf.Tensor, tf.Tensor]:
    """The input_mask and input_type_ids of packed rows, int32 [B, S] each, from the segments' lengths."""
    columns, begins, ends = _columns(lengths, seq_length, input_format)
    mask = tf.cast(columns < ends[-1] + len(input_format.end), tf.int32)
    if len(lengths) == 1 or not input_format.has_type_ids:
        return mask, tf.zeros_like(mask)
    return mask, tf.cast(columns >= begins[1], tf.int32) * mask


def _columns(
    lengths: Sequence[tf.Tensor], seq_length: tf.Tensor | int, input_format: InputFormat
) -> tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor]]:
    """The numbers of the columns, int32 [1, S], and `InputFormat.bounds` as int32 [B, 1] each."""
    bounds = input_format.bounds([length[:, tf.newaxis] for length in lengths])
    return tf.range(seq_length)[tf.newaxis], *bounds


def pack(
    segments: Sequence[tf.RaggedTensor],
    seq_length: tf.Tensor | int,
    input_format: Any = ALBERT_FORMAT,
) -> dict[str, tf.Tensor]:
    """The inputs of the encoder from one or two tokenised segments, trimmed to fit.

    Args:
      segments: one or two of int32 [B, (tokens)] or [B, (words), (tokens)], without special tokens.
      seq_length: S, the special tokens included; a Python int or an int32 scalar.
      input_format: the special tokens, an InputFormat or the tokenizer whose they are; else those at ALBERT's
        ids, which published BERT's and RoBERTa's vocabularies have elsewhere.
    Returns:
      input_word_ids, input_mask, input_type_ids, int32 [B, S]. Segments that are too long are cut to prefixes
      of about equal length that fill seq_length exactly.
    Raises:
      InputError: segments are something else, or seq_length leaves no room for the special tokens.
      tf.errors.InvalidArgumentError: batch sizes differ that are known only when it runs.
    Source: TF Hub's common text API, `bert_pack_inputs`.
    """
    input_format = getattr(input_format, "input_format", input_format)
    _check_segments(segments, seq_length, input_format)
    splits = [_token_splits(segment) for segment in segments]  # [B + 1] each
    flat = [segment.flat_values for segment in segments]
    starts = [split[:-1] for split in splits]
    # Stacked, since that raises where the batch sizes differ: what follows would broadcast.
    first, *second = tf.unstack(tf.stack([split[1:] - split[:-1] for split in splits]))
    budget = seq_length - input_format.num_special_tokens(len(segments))
    lengths = trimmed_lengths(first, second[0] if second else 0, budget)[: len(segments)]
    if second:
        starts[1] += tf.size(flat[0])
    mask, type_ids = mask_and_type_ids(lengths, seq_length, input_format)
    word_ids = pack_spans(tf.concat(flat, axis=0), starts, lengths, seq_length, input_format)
    return {WORD_IDS: word_ids, MASK: mask, TYPE_IDS: type_ids}


def _check_segments(segments: Any, seq_length: Any, input_format: InputFormat) -> None:
    is_list = isinstance(segments, list | tuple) and len(segments) in (1, 2)
    # By its attributes, which a symbolic one of Keras has as well.
    if not (is_list and all(hasattr(x, "row_splits") and x.dtype.is_integer for x in segments)):
        needed = (
            "a list of one or two RaggedTensors of token ids, as a Tokenizer or tf.ragged.constant makes them"
        )
        raise InputError(f"segments={shown(segments)} must be {needed}")
    specials = input_format.num_special_tokens(len(segments))
    if not (tf.is_tensor(seq_length) or (isinstance(seq_length, int) and seq_length >= specials)):
        raise InputError(f"seq_length={seq_length!r} must be a whole number of at least {specials}")


def _token_splits(segment: tf.RaggedTensor) -> tf.Tensor:
    """Row splits of the flat tokens, for any ragged rank: int32 [B + 1]."""
    splits = segment.row_splits
    while isinstance(segment.values, tf.RaggedTensor):
        segment = segment.values
        splits = tf.gather(segment.row_splits, splits)
    return tf.cast(splits, tf.int32)
