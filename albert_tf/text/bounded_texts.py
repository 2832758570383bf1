"""Texts cut by bytes to what their first or last tokens are made of, inside the graph."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

Squeeze = Callable[[tf.Tensor], tf.Tensor]  # string [B] to string [B]

LEAST_BYTES = 1 << 14  # texts of so many bytes are never cut
_PARTS_AT_ONCE = 4


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
