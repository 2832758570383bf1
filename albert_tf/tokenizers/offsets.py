"""Byte offsets from normalised text to the original text, inside the graph.

A text is cut into units that normalise independently of each other: normalised one by one and joined, they
are the text normalised as a whole. The running sum of their lengths leads back. A unit is a character with
the marks after it, and with whatever else after it may vanish, compose or change places with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

# What belongs to the unit of the character before it, besides the marks (category M): first and last code
# points of what can compose with that character, change places with its marks, or vanish, so that what
# follows composes with it: vowels and finals of Hangul in their three widths, Thai and Lao AM, halfwidth
# voiced sound marks, what cannot be seen.
# Source: Unicode's NFKC_Casefold and canonical compositions, which the test derives the table from.
ATTACHED = (
    (0x00AD, 0x00AD),
    (0x061C, 0x061C),
    (0x0E33, 0x0E33),
    (0x0EB3, 0x0EB3),
    (0x115F, 0x1175),
    (0x11A8, 0x11C2),
    (0x180E, 0x180E),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3133, 0x3133),
    (0x3135, 0x3136),
    (0x313A, 0x313F),
    (0x314F, 0x3164),
    (0xFEFF, 0xFEFF),
    (0xFF9E, 0xFFA0),
    (0xFFA3, 0xFFA3),
    (0xFFA5, 0xFFA6),
    (0xFFAA, 0xFFAF),
    (0xFFC2, 0xFFC7),
    (0xFFCA, 0xFFCF),
    (0xFFD2, 0xFFD7),
    (0xFFDA, 0xFFDC),
    (0xFFF0, 0xFFF8),
    # Stands for bytes that are not UTF-8: those on both sides of a mark may form a character.
    (0xFFFD, 0xFFFD),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)

# Ends each text while it is cut up, as a unit of its own: empty texts have a unit, too.
END = "\n"


class Units(NamedTuple):
    """The units of a batch of texts, one text after the other, each closed by END.

    Attributes:
      text: string [U].
      rows: the text that each belongs to, int32 [U].
      starts: its first byte in that text, int64 [U].
      is_end: True for the END of a text, bool [U].
    """

    text: tf.Tensor
    rows: tf.Tensor
    starts: tf.Tensor
    is_end: tf.Tensor


class SourceMap(NamedTuple):
    """From byte positions in normalised texts to those in the originals.

    Attributes:
      positions: where each unit begins in all normalised texts written one after the other, each with a byte
        for its END; int64 [U], ascending.
      starts: where it begins in its original, int64 [U].
      bases: where each text begins in what `positions` counts, int64 [B].
    """

    positions: tf.Tensor
    starts: tf.Tensor
    bases: tf.Tensor

    def spans(self, rows: tf.Tensor, starts: tf.Tensor, limits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The spans in the originals that spans in the normalised texts come from.

        Args:
          rows: the text of each span, integer [T].
          starts: first byte, int64 [T].
          limits: the byte after the last, int64 [T].
        Returns:
          Starts and limits in the originals, int64 [T] each: of whole units, so that a character that
          normalisation makes several of belongs to every token that has a part of it.
        """
        bases = tf.gather(self.bases, rows)
        first = tf.searchsorted(self.positions, bases + starts, side="right", out_type=tf.int64) - 1
        after = tf.searchsorted(self.positions, bases + limits, side="left", out_type=tf.int64)
        source_starts = tf.gather(self.starts, first)
        return source_starts, tf.maximum(source_starts, tf.gather(self.starts, after))


def normalize_with_offsets(
    text: tf.Tensor, normalize: Callable[[tf.Tensor], tf.Tensor]
) -> tuple[tf.Tensor, SourceMap]:
    """Normalised text, and the way back.

    Args:
      text: string [B]; what is not UTF-8 becomes U+FFFD.
      normalize: strings [U] to normalised ones.
    Returns:
      string [B], and the map from its bytes to those of `text`.
    """
    units = split_units(text)
    parts = tf.where(units.is_end, "", normalize(units.text))
    lengths = tf.cast(tf.strings.length(parts), tf.int64) + tf.cast(units.is_end, tf.int64)
    positions = tf.cumsum(lengths, exclusive=True)
    ends = tf.boolean_mask(positions + lengths, units.is_end)  # [B]
    bases = tf.concat([tf.zeros([1], tf.int64), ends], axis=0)[:-1]  # [B]
    joined = tf.strings.unsorted_segment_join(parts, units.rows, tf.size(text))
    return joined, SourceMap(positions, units.starts, bases)


def split_units(text: tf.Tensor) -> Units:
    """Texts cut into what normalises independently.

    Args:
      text: string [B].
    Returns:
      Their units.
    """
    text = text + END
    codes, starts = tf.strings.unicode_decode_with_offsets(text, "UTF-8")  # [B, (characters)]
    rows = rows_of(codes.row_splits)  # [C]
    codes, starts = codes.flat_values, starts.flat_values  # [C]
    other_row = rows[1:] != rows[:-1]
    opens = tf.concat([[True], other_row], axis=0)[: tf.size(rows)]
    closes = tf.concat([other_row, [True]], axis=0)[: tf.size(rows)]
    heads = tf.where(opens | ~_attached(codes))[:, 0]  # [U]
    rows, starts, is_end = (tf.gather(values, heads) for values in (rows, starts, closes))  # [U]
    return Units(cut(text, rows, starts), rows, starts, is_end)


def cut(text: tf.Tensor, rows: tf.Tensor, starts: tf.Tensor) -> tf.Tensor:
    """Texts cut into parts, without a copy of the text for each of them.

    Args:
      text: string [B], none empty.
      rows: the text of each part, int32 [U], ascending.
      starts: its first byte there, int64 [U], ascending; each text has a part that starts with it.
    Returns:
      string [U].
    """
    characters = tf.strings.bytes_split(text)  # [B, (bytes)]
    heads = tf.gather(characters.row_splits, rows) + starts  # [U]
    units = rows_of(tf.concat([heads, characters.row_splits[-1:]], axis=0))  # [bytes]
    return tf.strings.unsorted_segment_join(characters.flat_values, units, tf.size(heads))


def rows_of(splits: tf.Tensor) -> tf.Tensor:
    """The row of each value of a ragged tensor; `value_rowids` needs rows times the longest row in memory.

    Args:
      splits: where its rows begin and the last one ends, int64 [R + 1].
    Returns:
      int32 [values].
    """
    return tf.searchsorted(splits, tf.range(splits[-1]), side="right") - 1


def _attached(codes: tf.Tensor) -> tf.Tensor:
    """True for code points that belong to the unit of the one before, int32 [C] to bool [C]."""
    characters = tf.raw_ops.UnicodeEncode(
        input_values=codes,
        input_splits=tf.range(tf.size(codes, tf.int64) + 1),
        output_encoding="UTF-8",
        errors="replace",
    )
    return in_ranges(codes, ATTACHED) | tf.strings.regex_full_match(characters, r"\p{M}")


def in_ranges(codes: tf.Tensor, ranges: Sequence[tuple[int, int]]) -> tf.Tensor:
    """True for code points in one of ascending ranges, ends included: int32 [C] to bool [C]."""
    bounds = np.array([bound for first, last in ranges for bound in (first, last + 1)], np.int32)
    return tf.searchsorted(bounds, codes, side="right") % 2 == 1
