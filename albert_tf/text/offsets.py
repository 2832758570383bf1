"""Byte offsets from normalised text to the original text, inside the graph.

A text is cut into units that normalise independently: the normalised units, joined, are the normalised text.
The running sum of their lengths leads back to the original. A unit is a character with the marks after it,
and with all other characters after it that may vanish, compose or change places with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

# Characters that belong to the unit of the character before them, besides the marks (category M), as a class
# of a regular expression. They can compose with that character, change places with its marks, or vanish so
# that the next character composes with it: vowels and finals of Hangul in their three widths, Thai and Lao
# AM, halfwidth voiced sound marks, invisible characters. U+FFFD stands for bytes that are not UTF-8: bytes
# before and after a mark may form a character.
# Source: Unicode's NFKC_Casefold and canonical compositions; the test derives the table from them.
ATTACHED = (
    "\u00ad\u061c\u0e33\u0eb3\u115f-\u1175\u11a8-\u11c2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3133\u3135-\u3136\u313a-\u313f\u314f-\u3164\ufeff\uff9e-\uffa0\uffa3\uffa5-\uffa6\uffaa-\uffaf"
    "\uffc2-\uffc7\uffca-\uffcf\uffd2-\uffd7\uffda-\uffdc\ufff0-\ufff8\ufffd\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)

# A last unit that is added to each text, so that empty texts have a unit, too.
END = "\n"


class Parts(NamedTuple):
    """Parts of texts, in the order of the texts."""

    text: tf.Tensor  # string [U]
    rows: tf.Tensor  # int32 [U], the text that each part belongs to
    codes: tf.Tensor  # int32 [U], the first code point of the part
    starts: tf.Tensor  # int64 [U], the first byte of the part in its text


class SourceMap(NamedTuple):
    """Maps byte positions in normalised texts to positions in the original texts."""

    # int64 [U], the begin of each unit in the concatenated normalised texts, with one byte for each END
    positions: tf.Tensor
    starts: tf.Tensor  # int64 [U], the begin of each unit in its original text
    bases: tf.Tensor  # int64 [B], the begin of each text in the same concatenation

    def spans(
        self, tokens: tf.RaggedTensor, starts: tf.Tensor, limits: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """The bytes of tokens, [B, (tokens)], in the original texts: starts and limits, int64.

        If normalisation turns one character into several, every token with one of these gets the bytes of the
        whole original character.

        Args:
          tokens: the tokens of the normalised texts, [B, (tokens)].
          starts: the first byte of each token in its normalised text, int64 [T].
          limits: the byte after the last one of each token in its normalised text, int64 [T].
        """
        bases = tf.gather(self.bases, rows_of(tokens.row_splits))
        first = tf.searchsorted(self.positions, bases + starts, side="right", out_type=tf.int64) - 1
        after = tf.searchsorted(self.positions, bases + limits, side="left", out_type=tf.int64)
        source_starts = tf.gather(self.starts, first)
        source_limits = tf.maximum(source_starts, tf.gather(self.starts, after))
        return tokens.with_values(source_starts), tokens.with_values(source_limits)


def normalize_with_offsets(
    text: tf.Tensor, normalize: Callable[[tf.Tensor], tf.Tensor]
) -> tuple[tf.Tensor, SourceMap]:
    """Normalised texts, string [B], and the way back to `text`. Bytes that are not UTF-8 become U+FFFD."""
    units = split_units(text)
    _, is_end = row_edges(units.rows)
    normalized = tf.where(is_end, "", normalize(units.text))
    lengths = tf.cast(tf.strings.length(normalized), tf.int64) + tf.cast(is_end, tf.int64)
    positions = tf.cumsum(lengths, exclusive=True)
    ends = tf.boolean_mask(positions + lengths, is_end)  # [B]
    bases = tf.concat([tf.zeros([1], tf.int64), ends], axis=0)[:-1]  # [B]
    texts = tf.strings.unsorted_segment_join(normalized, units.rows, tf.size(text))
    return texts, SourceMap(positions, units.starts, bases)


def split_units(text: tf.Tensor) -> Parts:
    """Cuts texts, string [B], into units that normalise independently; the last unit of each text is END."""
    attached = rf"\p{{M}}{ATTACHED}"
    return cut_where(text + END, lambda codes, rows: row_edges(rows)[0] | ~match_codes(codes, attached))


def cut_where(text: tf.Tensor, opens: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]) -> Parts:
    """Cuts texts, string [B], into parts, without a copy of the text for each part.

    Args:
      text: the texts, string [B]; none is empty.
      opens: takes the code points of all characters and the rows of their texts, int32 [C] both, and returns
        bool [C]: True for a character that begins a part. It must be True for the first one of each text.
    """
    decoded, offsets = tf.strings.unicode_decode_with_offsets(text, "UTF-8")  # [B, (characters)]
    rows = rows_of(decoded.row_splits)  # [C]
    heads = tf.where(opens(decoded.flat_values, rows))[:, 0]  # [U]
    places = rows, decoded.flat_values, offsets.flat_values
    rows, codes, starts = (tf.gather(values, heads) for values in places)  # [U] each
    characters = tf.strings.bytes_split(text)  # [B, (bytes)]
    firsts = tf.gather(characters.row_splits, rows) + starts  # [U], among all bytes
    units = rows_of(tf.concat([firsts, characters.row_splits[-1:]], axis=0))  # [bytes]
    parts = tf.strings.unsorted_segment_join(characters.flat_values, units, tf.size(heads))
    return Parts(parts, rows, codes, starts)


def rows_of(splits: tf.Tensor) -> tf.Tensor:
    """The row of each value of a ragged tensor, from its row splits: int64 [R + 1] to int32 [values].

    TensorFlow's `value_rowids` would need memory for rows times the longest row.
    """
    return tf.searchsorted(splits, tf.range(splits[-1]), side="right") - 1


def row_edges(rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Marks the first value of each row, and the last one, bool [values] both.

    `rows` has the row of each value, int32 [values], ascending.
    """
    changes = rows[1:] != rows[:-1]
    return (
        tf.concat([[True], changes], axis=0)[: tf.size(rows)],
        tf.concat([changes, [True]], axis=0)[: tf.size(rows)],
    )


def match_codes(codes: tf.Tensor, characters: str) -> tf.Tensor:
    """True for code points in a class of a regular expression, int32 [C] to bool [C].

    `characters` is the class without its brackets.
    """
    distinct, places = tf.unique(codes)
    encoded = tf.raw_ops.UnicodeEncode(
        input_values=distinct,
        input_splits=tf.range(tf.size(distinct, tf.int64) + 1),
        output_encoding="UTF-8",
        errors="replace",
    )
    return tf.gather(tf.strings.regex_full_match(encoded, f"[{characters}]"), places)
