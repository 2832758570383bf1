"""Texts to their words, which are what stands between spaces, with core TensorFlow ops alone."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from albert_tf.tokenizers.offsets import END, cut, in_ranges, rows_of

# First and last code points of what Python's `str.isspace` calls a space, as a reader of columns does.
SPACES = (
    (0x0009, 0x000D),
    (0x001C, 0x0020),
    (0x0085, 0x0085),
    (0x00A0, 0x00A0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
)


class Words(NamedTuple):
    """The words of a batch of texts.

    Attributes:
      text: string [B, (words)].
      starts: the first byte of each in its text, int32 [B, (words)].
      ends: the byte after its last, int32 [B, (words)].
    """

    text: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


def words_of(text: tf.Tensor) -> Words:
    """The words of each text, string [B]; what is not UTF-8 belongs to a word."""
    closed = text + END
    codes, starts = tf.strings.unicode_decode_with_offsets(closed, "UTF-8")  # [B, (characters)]
    rows, codes, starts = rows_of(codes.row_splits), codes.flat_values, starts.flat_values  # [C]
    spaces = in_ranges(codes, SPACES)
    # Each text ends with a space: where one begins is a change or a space, and never inside a word.
    changes = tf.concat([[True], (spaces[1:] != spaces[:-1]) | (rows[1:] != rows[:-1])], axis=0)
    heads = tf.where(changes[: tf.size(rows)])[:, 0]  # of words and of the spaces between, [P]
    rows, starts, spaces = (tf.gather(values, heads) for values in (rows, starts, spaces))  # [P]
    is_word = ~spaces
    parts = cut(closed, rows, starts)
    ends = tf.concat([starts[1:], starts[:1]], axis=0)  # a space follows every word
    found = tf.RaggedTensor.from_value_rowids(
        tf.boolean_mask(parts, is_word),
        tf.cast(tf.boolean_mask(rows, is_word), tf.int64),
        nrows=tf.size(text, tf.int64),
        validate=False,
    )
    places = (tf.cast(tf.boolean_mask(values, is_word), tf.int32) for values in (starts, ends))
    return Words(found, *(found.with_values(values) for values in places))
