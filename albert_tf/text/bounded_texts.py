"""Texts cut by bytes to what their first or last tokens are made of, inside the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from albert_tf.text.offsets import rows_of

Squeeze = Callable[[tf.Tensor], tf.Tensor]  # string [B] to string [B]

LEAST_BYTES = 1 << 14  # texts of so many bytes are never cut
_PARTS_AT_ONCE = 4
_RUN = 512  # characters of a run that stay at each of its ends
_CODES = 1 << 21  # more than there are code points
_TEXT = 1 << 40  # more bytes than a text has


def squeezed_classes(dropped: str, spaces: str) -> tuple[tuple[str, str], ...]:
    """`TextTokenizer.squeezed` of characters that are dropped, and those of which a row is one space.

    Both are classes of a regular expression, without brackets, that have no character in common.
    """
    # In this order a row of both is one match: each match takes time.
    return (f"[{dropped}]*[{spaces}][{dropped}{spaces}]*", " "), (f"[{dropped}]+", "")


def keep_ends(
    text: tf.Tensor, num_bytes: int, squeeze: Squeeze, has_head: bool = True, has_tail: bool = False
) -> tf.Tensor:
    """Texts, string [B], of which longer ones lose what is not among their first, or last, num_bytes.

    They are cut at a space, and between two characters where none is in the outer half of what stays. A text
    of at most num_bytes stays as it is. A text is read up to where enough is left of it.

    Args:
      text: the texts.
      num_bytes: the bytes that stay of each end of a longer text, at most.
      squeeze: removes from texts what no token is made of; it is called with parts of texts.
      has_head: True if the beginning of a text stays.
      has_tail: True if its end stays; beginning and end are joined.
    """
    is_long = tf.strings.length(text) > num_bytes

    def cut() -> tf.Tensor:
        long = tf.boolean_mask(text, is_long)
        ends = [
            _end(long, num_bytes, squeeze, is_tail) for is_tail in (False, True)[not has_head : 1 + has_tail]
        ]
        (whole, is_whole, _), parts = ends[0], [part for *_, part in ends]
        kept = tf.where(is_whole, whole, tf.strings.join(parts))
        return tf.tensor_scatter_nd_update(text, tf.where(is_long), kept)

    kept = tf.cond(tf.reduce_any(is_long), cut, lambda: text)
    return tf.reshape(kept, tf.shape(text))  # a static B stays one, which a condition loses


def _end(
    text: tf.Tensor, num_bytes: int, squeeze: Squeeze, is_tail: bool
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The part that was read of texts, string [B]; bool [B], True where it is all; and num_bytes of it."""
    lengths = tf.strings.length(text)

    def is_unfinished(read: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
        return (tf.strings.length(read) <= num_bytes) & (position < lengths)

    def read_on(read: tf.Tensor, position: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        sizes = tf.minimum(lengths - position, _PARTS_AT_ONCE * num_bytes)
        sizes = tf.where(is_unfinished(read, position), sizes, 0)
        part = tf.strings.substr(text, lengths - position - sizes if is_tail else position, sizes)
        # Squeezed together: what is removed may lie on both sides of the border.
        return squeeze(part + read if is_tail else read + part), position + sizes

    read, position = tf.while_loop(
        lambda read, position: tf.reduce_any(is_unfinished(read, position)),
        read_on,
        (tf.fill(tf.shape(text), ""), tf.zeros_like(lengths)),
    )
    is_whole = (position == lengths) & (tf.strings.length(read) <= num_bytes)
    sizes = tf.minimum(tf.strings.length(read), num_bytes)
    none = tf.zeros_like(sizes)
    # Without a near space the outermost character, which may be cut in two, is left out.
    if is_tail:
        part = tf.strings.substr(read, tf.strings.length(read) - sizes, sizes)
        at_space = tf.strings.regex_replace(part, r"\A\S* ", " ", replace_global=False)
        characters = tf.strings.substr(part, tf.minimum(sizes, 1), sizes, unit="UTF8_CHAR")
    else:
        part = tf.strings.substr(read, none, sizes)
        at_space = tf.strings.regex_replace(part, r" \S*\z", "", replace_global=False)
        count = tf.strings.length(part, unit="UTF8_CHAR") - 1
        characters = tf.strings.substr(part, none, tf.maximum(count, 0), unit="UTF8_CHAR")
    without_space = tf.where(characters == "", part, characters)  # of bytes that are not UTF-8
    lost = sizes - tf.strings.length(at_space)  # more than half of Chinese with one space at its beginning
    return read, is_whole, tf.where((lost == 0) | (2 * lost > sizes), without_space, at_space)


class Gaps(NamedTuple):
    """Where bytes of texts were left out, ascending."""

    places: tf.Tensor  # int64 [G], in what is left of its text, plus _TEXT times the text's number
    removed: tf.Tensor  # int64 [G + 1], the bytes of all texts that are left out before each

    @classmethod
    def none(cls) -> Gaps:
        """Those of whole texts."""
        return cls(tf.zeros([0], tf.int64), tf.zeros([1], tf.int64))

    def source(self, rows: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        """Places in the original texts of those in what is left of texts `rows`, int64 [T] each."""
        first = tf.cast(rows, tf.int64) * _TEXT
        here, before = (
            tf.gather(self.removed, tf.searchsorted(self.places, key)) for key in (first + places, first)
        )
        return places + here - before


def squeeze_runs(text: tf.Tensor, tokenize: Callable[[tf.Tensor], tf.RaggedTensor]) -> tuple[tf.Tensor, Gaps]:
    """Texts, string [B], in which a NUL stands for the middle of each long run of unknown characters.

    A run is one token, for which SentencePiece takes time that grows with its square. Characters belong to
    one if any two neighbours, alone and between NULs, are the tokens of one NUL. Only texts of more than
    LEAST_BYTES are looked at.

    Args:
      text: the texts, normalised.
      tokenize: the tokens of such texts.
    Note: what follows a run is split as after a shorter one. SentencePiece adds up float32, and after a very
    long run its sums no longer tell likely pieces from unlikely ones.
    """

    def squeeze() -> tuple[tf.Tensor, Gaps]:
        words = tf.strings.length(tf.strings.split(text, " "))  # a run holds no space
        rows = tf.where(tf.reduce_max(words, axis=1) > 2 * _RUN)  # [L, 1]
        left, gaps = _without_middles(tf.gather_nd(text, rows), rows[:, 0], tokenize)
        return tf.tensor_scatter_nd_update(text, rows, left), gaps

    is_long = tf.reduce_any(tf.strings.length(text) > LEAST_BYTES)
    squeezed, gaps = tf.cond(is_long, squeeze, lambda: (text, Gaps.none()))
    return tf.reshape(squeezed, tf.shape(text)), gaps  # a static B stays one


def _without_middles(
    text: tf.Tensor, numbers: tf.Tensor, tokenize: Callable[[tf.Tensor], tf.RaggedTensor]
) -> tuple[tf.Tensor, Gaps]:
    """Texts with these numbers, [L] both, with a NUL for the middle of each run."""
    # Bytes that are not UTF-8 are unknown as a NUL is.
    decoded, starts = tf.strings.unicode_decode_with_offsets(text, "UTF-8", replacement_char=0)
    rows = rows_of(decoded.row_splits)  # [C]
    is_inner = _inside_runs(decoded.flat_values, rows, tokenize)
    is_after = tf.concat([[False], is_inner], axis=0)[:-1]

    encoded = tf.strings.bytes_split(text)  # [L, (bytes)]
    places = tf.gather(encoded.row_splits, rows) + starts.flat_values  # [C], among all bytes
    begins = tf.boolean_mask(places, is_inner & ~is_after)  # [G]
    ends = tf.boolean_mask(places, ~is_inner & is_after)  # [G]
    steps = tf.concat([tf.ones_like(begins), -tf.ones_like(ends)], axis=0)
    edges = tf.concat([begins + 1, ends], axis=0)[:, tf.newaxis]
    is_left = tf.cumsum(tf.scatter_nd(edges, steps, tf.shape(encoded.flat_values, tf.int64))) == 0  # [bytes]
    nuls = tf.fill(tf.shape(begins), "\0")
    characters = tf.tensor_scatter_nd_update(encoded.flat_values, begins[:, tf.newaxis], nuls)
    left = tf.ragged.boolean_mask(encoded.with_values(characters), encoded.with_values(is_left))

    removed = tf.concat([[0], tf.cumsum(ends - begins - 1)], axis=0)  # [G + 1]
    of = tf.boolean_mask(rows, is_inner & ~is_after)  # [G]
    in_text = begins - removed[:-1] - tf.gather(left.row_splits, of)
    return tf.strings.reduce_join(left, axis=1), Gaps(tf.gather(numbers, of) * _TEXT + in_text, removed)


def _inside_runs(
    codes: tf.Tensor, rows: tf.Tensor, tokenize: Callable[[tf.Tensor], tf.RaggedTensor]
) -> tf.Tensor:
    """True for code points of texts `rows` that have _RUN of their run on each side, [C] to bool [C]."""
    numbers = tf.cast(codes, tf.int64)
    pairs, which = tf.unique(numbers[:-1] * _CODES + numbers[1:])
    characters = tf.cast(tf.stack([pairs // _CODES, pairs % _CODES], axis=1), tf.int32)  # [P, 2]
    alone, between = (
        tf.strings.unicode_encode(of, "UTF-8") for of in (characters, tf.pad(characters, [[0, 0], [1, 1]]))
    )
    # A NUL is one token or, with the space that begins a text, two. Alone, since two that vanish are none.
    tokens, tokens_between, of_nul = (
        tokenize(of).to_tensor(-1, shape=[None, 3]) for of in (alone, between, tf.constant(["\0"]))
    )
    is_one = tf.reduce_all((tokens == of_nul) & (tokens_between == of_nul), axis=1)  # [P]
    is_joined = tf.gather(is_one, which) & (rows[1:] == rows[:-1])  # [C - 1]
    breaks = tf.concat([[0], tf.cumsum(tf.cast(~is_joined, tf.int32))], axis=0)[: tf.size(codes)]  # [C]
    is_inner = breaks[2 * _RUN :] == breaks[: -2 * _RUN]
    return tf.pad(is_inner, [[_RUN, _RUN]])[: tf.size(codes)]
