"""Long texts cut to the bytes that their first or last tokens need, inside the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from albert_tf.text.offsets import rows_of

Squeeze = Callable[[tf.Tensor], tf.Tensor]  # string [B] to string [B]

LEAST_BYTES = 1 << 14  # texts of at most this size are never cut
_PARTS_AT_ONCE = 4
_RUN_MARGIN = 512  # characters of a run that stay at each of its ends
_NUM_CODES = 1 << 21  # more than there are code points
_TEXT_STRIDE = 1 << 40  # more bytes than a text has


def make_squeeze_patterns(dropped: str, spaces: str) -> tuple[tuple[str, str], ...]:
    """The `TextTokenizer.squeeze_patterns` of a normaliser, from two classes of a regular expression.

    The normaliser drops characters of the class `dropped`, and makes one space of a row of `spaces`. Both
    classes are written without brackets and have no character in common.
    """
    # In this order a mixed row of both is one match: each match takes time.
    return (f"[{dropped}]*[{spaces}][{dropped}{spaces}]*", " "), (f"[{dropped}]+", "")


def keep_ends(
    text: tf.Tensor, num_bytes: int, squeeze: Squeeze, has_head: bool = True, has_tail: bool = False
) -> tf.Tensor:
    """Cuts long texts to their first or last num_bytes, string [B].

    A text of at most num_bytes is unchanged. A longer one is cut at a space or, if the outer half of the part
    that stays has none, between two characters. The function stops reading a text when it has enough bytes.

    Args:
      text: the texts, string [B].
      num_bytes: the most bytes that stay at each end of a longer text.
      squeeze: removes characters that make no token; it is called with parts of texts.
      has_head: True if the beginning of a text stays.
      has_tail: True if its end stays; beginning and end are joined.
    """
    is_long = tf.strings.length(text) > num_bytes

    def cut() -> tf.Tensor:
        long = tf.boolean_mask(text, is_long)
        ends = [
            _read_end(long, num_bytes, squeeze, is_tail)
            for is_tail in (False, True)[not has_head : 1 + has_tail]
        ]
        (whole, is_whole, _), parts = ends[0], [part for *_, part in ends]
        shortened = tf.where(is_whole, whole, tf.strings.join(parts))
        return tf.tensor_scatter_nd_update(text, tf.where(is_long), shortened)

    result = tf.cond(tf.reduce_any(is_long), cut, lambda: text)
    return tf.reshape(result, tf.shape(text))  # a condition loses a static B


def _read_end(
    text: tf.Tensor, num_bytes: int, squeeze: Squeeze, is_tail: bool
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Reads one end of texts, string [B], until it has num_bytes.

    Returns the squeezed text that was read; bool [B], True where it is the whole text; and num_bytes of it.
    """
    lengths = tf.strings.length(text)

    def is_unfinished(squeezed: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
        return (tf.strings.length(squeezed) <= num_bytes) & (position < lengths)

    def read_part(squeezed: tf.Tensor, position: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        sizes = tf.minimum(lengths - position, _PARTS_AT_ONCE * num_bytes)
        sizes = tf.where(is_unfinished(squeezed, position), sizes, 0)
        part = tf.strings.substr(text, lengths - position - sizes if is_tail else position, sizes)
        # Squeezed together, since a match may lie on both sides of the border.
        return squeeze(part + squeezed if is_tail else squeezed + part), position + sizes

    squeezed, position = tf.while_loop(
        lambda squeezed, position: tf.reduce_any(is_unfinished(squeezed, position)),
        read_part,
        (tf.fill(tf.shape(text), ""), tf.zeros_like(lengths)),
    )
    is_whole = (position == lengths) & (tf.strings.length(squeezed) <= num_bytes)
    sizes = tf.minimum(tf.strings.length(squeezed), num_bytes)
    zeros = tf.zeros_like(sizes)
    # If no space is near, the outermost character is dropped, since it may be cut in two.
    if is_tail:
        part = tf.strings.substr(squeezed, tf.strings.length(squeezed) - sizes, sizes)
        at_space = tf.strings.regex_replace(part, r"\A\S* ", " ", replace_global=False)
        characters = tf.strings.substr(part, tf.minimum(sizes, 1), sizes, unit="UTF8_CHAR")
    else:
        part = tf.strings.substr(squeezed, zeros, sizes)
        at_space = tf.strings.regex_replace(part, r" \S*\z", "", replace_global=False)
        count = tf.strings.length(part, unit="UTF8_CHAR") - 1
        characters = tf.strings.substr(part, zeros, tf.maximum(count, 0), unit="UTF8_CHAR")
    without_space = tf.where(characters == "", part, characters)  # bytes that are not UTF-8 stay
    lost = sizes - tf.strings.length(at_space)  # more than half of Chinese with one space at its beginning
    return squeezed, is_whole, tf.where((lost == 0) | (2 * lost > sizes), without_space, at_space)


class Gaps(NamedTuple):
    """The positions where bytes of texts were removed, ascending."""

    places: tf.Tensor  # int64 [G], in the text without those bytes, plus _TEXT_STRIDE times the text's number
    removed: tf.Tensor  # int64 [G + 1], the bytes removed before each gap, summed over all texts

    @classmethod
    def none(cls) -> Gaps:
        """The gaps of unchanged texts."""
        return cls(tf.zeros([0], tf.int64), tf.zeros([1], tf.int64))

    def original_positions(self, rows: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        """Turns byte positions in the shorter texts `rows` into those in the originals, int64 [T] each."""
        first = tf.cast(rows, tf.int64) * _TEXT_STRIDE
        until_place, until_text = (
            tf.gather(self.removed, tf.searchsorted(self.places, key)) for key in (first + places, first)
        )
        return places + until_place - until_text


def squeeze_runs(text: tf.Tensor, tokenize: Callable[[tf.Tensor], tf.RaggedTensor]) -> tuple[tf.Tensor, Gaps]:
    """Replaces the middle of each long run of unknown characters by one NUL, in texts, string [B].

    A run is one token, and the time that SentencePiece takes for it grows with the square of its length.
    Characters form a run if any two neighbours, alone and between NULs, have the tokens of one NUL. Texts of
    at most LEAST_BYTES are unchanged.

    Args:
      text: the normalised texts, string [B].
      tokenize: gives the tokens of normalised texts.
    Note: text after a run is split as after a shorter run. SentencePiece adds up float32, and after a very
    long run its sums no longer tell likely pieces from unlikely ones.
    """

    def squeeze() -> tuple[tf.Tensor, Gaps]:
        words = tf.strings.length(tf.strings.split(text, " "))  # a run holds no space
        rows = tf.where(tf.reduce_max(words, axis=1) > 2 * _RUN_MARGIN)  # [L, 1]
        shortened, gaps = _replace_middles(tf.gather_nd(text, rows), rows[:, 0], tokenize)
        return tf.tensor_scatter_nd_update(text, rows, shortened), gaps

    is_long = tf.reduce_any(tf.strings.length(text) > LEAST_BYTES)
    squeezed, gaps = tf.cond(is_long, squeeze, lambda: (text, Gaps.none()))
    return tf.reshape(squeezed, tf.shape(text)), gaps  # a condition loses a static B


def _replace_middles(
    text: tf.Tensor, numbers: tf.Tensor, tokenize: Callable[[tf.Tensor], tf.RaggedTensor]
) -> tuple[tf.Tensor, Gaps]:
    """Replaces the middle of each run by a NUL, in the texts with these numbers, [L] both."""
    # Bytes that are not UTF-8 are unknown, like a NUL.
    decoded, starts = tf.strings.unicode_decode_with_offsets(text, "UTF-8", replacement_char=0)
    rows = rows_of(decoded.row_splits)  # [C]
    is_inner = _is_inside_run(decoded.flat_values, rows, tokenize)
    is_after = tf.concat([[False], is_inner], axis=0)[:-1]

    encoded = tf.strings.bytes_split(text)  # [L, (bytes)]
    places = tf.gather(encoded.row_splits, rows) + starts.flat_values  # [C], among all bytes
    begins = tf.boolean_mask(places, is_inner & ~is_after)  # [G]
    ends = tf.boolean_mask(places, ~is_inner & is_after)  # [G]
    steps = tf.concat([tf.ones_like(begins), -tf.ones_like(ends)], axis=0)
    edges = tf.concat([begins + 1, ends], axis=0)[:, tf.newaxis]
    stays = tf.cumsum(tf.scatter_nd(edges, steps, tf.shape(encoded.flat_values, tf.int64))) == 0  # [bytes]
    nuls = tf.fill(tf.shape(begins), "\0")
    characters = tf.tensor_scatter_nd_update(encoded.flat_values, begins[:, tf.newaxis], nuls)
    shortened = tf.ragged.boolean_mask(encoded.with_values(characters), encoded.with_values(stays))

    removed = tf.concat([[0], tf.cumsum(ends - begins - 1)], axis=0)  # [G + 1]
    gap_rows = tf.boolean_mask(rows, is_inner & ~is_after)  # [G]
    in_text = begins - removed[:-1] - tf.gather(shortened.row_splits, gap_rows)
    gaps = Gaps(tf.gather(numbers, gap_rows) * _TEXT_STRIDE + in_text, removed)
    return tf.strings.reduce_join(shortened, axis=1), gaps


def _is_inside_run(
    codes: tf.Tensor, rows: tf.Tensor, tokenize: Callable[[tf.Tensor], tf.RaggedTensor]
) -> tf.Tensor:
    """True for code points with at least _RUN_MARGIN of their run on each side, [C] to bool [C].

    `rows` has the text of each code point, [C].
    """
    numbers = tf.cast(codes, tf.int64)
    pairs, pair_index = tf.unique(numbers[:-1] * _NUM_CODES + numbers[1:])
    characters = tf.cast(tf.stack([pairs // _NUM_CODES, pairs % _NUM_CODES], axis=1), tf.int32)  # [P, 2]
    alone, between = (
        tf.strings.unicode_encode(x, "UTF-8") for x in (characters, tf.pad(characters, [[0, 0], [1, 1]]))
    )
    # A NUL is one token or, with the space that begins a text, two. The pair is tried alone, too: between
    # NULs, two characters that vanish would look like unknown ones.
    tokens, tokens_between, nul_tokens = (
        tokenize(texts).to_tensor(-1, shape=[None, 3]) for texts in (alone, between, tf.constant(["\0"]))
    )
    is_one = tf.reduce_all((tokens == nul_tokens) & (tokens_between == nul_tokens), axis=1)  # [P]
    is_joined = tf.gather(is_one, pair_index) & (rows[1:] == rows[:-1])  # [C - 1]
    breaks = tf.concat([[0], tf.cumsum(tf.cast(~is_joined, tf.int32))], axis=0)[: tf.size(codes)]  # [C]
    is_inner = breaks[2 * _RUN_MARGIN :] == breaks[: -2 * _RUN_MARGIN]
    return tf.pad(is_inner, [[_RUN_MARGIN, _RUN_MARGIN]])[: tf.size(codes)]
