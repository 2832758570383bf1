"""Byte offsets from normalised text to the original text, inside the graph.

A text is cut into units that normalise independently of each other: normalised one by one and joined, they
are the text normalised as a whole. The running sum of their lengths leads back. A unit is a character with
the marks after it, and with whatever else after it may vanish, compose or change places with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

# What belongs to the unit of the character before it, besides the marks (category M), as a class of a regular
# expression: what can compose with that character, change places with its marks, or vanish, so that what
# follows composes with it: vowels and finals of Hangul in their three widths, Thai and Lao AM, halfwidth
# voiced sound marks, what cannot be seen. U+FFFD stands for bytes that are not UTF-8: those on both sides of
# a mark may form a character.
# Source: Unicode's NFKC_Casefold and canonical compositions, which the test derives the table from.
ATTACHED = (
    "\u00ad\u061c\u0e33\u0eb3\u115f-\u1175\u11a8-\u11c2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3133\u3135-\u3136\u313a-\u313f\u314f-\u3164\ufeff\uff9e-\uffa0\uffa3\uffa5-\uffa6\uffaa-\uffaf"
    "\uffc2-\uffc7\uffca-\uffcf\uffd2-\uffd7\uffda-\uffdc\ufff0-\ufff8\ufffd\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)

# Ends each text while it is cut up, as a unit of its own: empty texts have a unit, too.
END = "\n"


class Parts(NamedTuple):
    """Parts of texts, those of one text after the other."""

    text: tf.Tensor  # string [U]
    rows: tf.Tensor  # int32 [U], the text that each belongs to
    codes: tf.Tensor  # int32 [U], its first code point
    starts: tf.Tensor  # int64 [U], its first byte in that text


class SourceMap(NamedTuple):
    """From byte positions in normalised texts to those in the originals."""

    # int64 [U], where each unit begins in all normalised texts one after the other, with a byte for each END
    positions: tf.Tensor
    starts: tf.Tensor  # int64 [U], where it begins in its original
    bases: tf.Tensor  # int64 [B], where each text begins in what `positions` counts

    def spans(
        self, tokens: tf.RaggedTensor, starts: tf.Tensor, limits: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """The first bytes of tokens, [B, (tokens)], in the originals, and those after their last ones.

        They are of whole units, so that a character that normalisation makes several of belongs to every
        token that has a part of it. Starts and limits are those in the normalised texts, int64 [T].
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
    """Text, string [B], as `normalize` makes it, and the way back; what is not UTF-8 becomes U+FFFD."""
    units = split_units(text)
    _, is_end = edges(units.rows)
    parts = tf.where(is_end, "", normalize(units.text))
    lengths = tf.cast(tf.strings.length(parts), tf.int64) + tf.cast(is_end, tf.int64)
    positions = tf.cumsum(lengths, exclusive=True)
    ends = tf.boolean_mask(positions + lengths, is_end)  # [B]
    bases = tf.concat([tf.zeros([1], tf.int64), ends], axis=0)[:-1]  # [B]
    joined = tf.strings.unsorted_segment_join(parts, units.rows, tf.size(text))
    return joined, SourceMap(positions, units.starts, bases)


def split_units(text: tf.Tensor) -> Parts:
    """Texts, string [B], cut into what normalises independently; the last unit of each is END."""
    attached = rf"\p{{M}}{ATTACHED}"
    return cut_where(text + END, lambda codes, rows: edges(rows)[0] | ~match_codes(codes, attached))


def cut_where(text: tf.Tensor, opens: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]) -> Parts:
    """Texts, string [B], cut into parts, without a copy of the text for each of them.

    Args:
      text: none is empty.
      opens: from the code points and the texts of all characters, int32 [C] both, to bool [C]: True for those
        that parts begin with, as the first of each text is.
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
    """The row of each value of a ragged tensor from its row splits, int64 [R + 1] to int32 [values].

    `value_rowids` needs rows times the longest row in memory.
    """
    return tf.searchsorted(splits, tf.range(splits[-1]), side="right") - 1


def edges(rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """True for the first value of each row, and for its last one, bool [values] both; of ascending rows."""
    changes = rows[1:] != rows[:-1]
    return (
        tf.concat([[True], changes], axis=0)[: tf.size(rows)],
        tf.concat([changes, [True]], axis=0)[: tf.size(rows)],
    )


def match_codes(codes: tf.Tensor, characters: str) -> tf.Tensor:
    """True for code points that a class of a regular expression has, int32 [C] to bool [C].

    The class is given without its brackets.
    """
    different, places = tf.unique(codes)
    encoded = tf.raw_ops.UnicodeEncode(
        input_values=different,
        input_splits=tf.range(tf.size(different, tf.int64) + 1),
        output_encoding="UTF-8",
        errors="replace",
    )
    return tf.gather(tf.strings.regex_full_match(encoded, f"[{characters}]"), places)
