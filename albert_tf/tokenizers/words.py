"""Texts to their words, which are what stands between spaces, with core TensorFlow ops alone."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from albert_tf.tokenizers.offsets import END, cut, rows_of

# What Python's `str.isspace` calls a space, as a reader of columns does.
SPACES = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
    "\u200a\u2028\u2029\u202f\u205f\u3000"
)


class Words(NamedTuple):
    """The words of a batch of texts."""

    text: tf.RaggedTensor  # string [B, (words)]
    starts: tf.RaggedTensor  # int32 [B, (words)], the first byte of each in its text
    ends: tf.RaggedTensor  # int32 [B, (words)], the byte after its last


def words_of(text: tf.Tensor) -> Words:
    """The words of each text, string [B]; what is not UTF-8 belongs to a word."""
    closed = text + END
    codes, starts = tf.strings.unicode_decode_with_offsets(closed, "UTF-8")  # [B, (characters)]
    rows, codes, starts = rows_of(codes.row_splits), codes.flat_values, starts.flat_values  # [C]
    spaces = tf.reduce_any(codes[:, tf.newaxis] == [ord(space) for space in SPACES], axis=1)
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
