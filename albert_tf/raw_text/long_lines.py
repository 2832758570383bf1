"""The lines of text files, and lines that are too long for a sentence, cut at spaces inside the graph."""

from __future__ import annotations

import tensorflow as tf

MAX_SENTENCE_BYTES = 4192  # bytes; SentencePiece, when it is trained, skips what is longer
PART_BYTES = 1024  # bytes of a longer one that become a sentence: half of what fills an example of 512 tokens


def text_lines(file: tf.Tensor | str) -> tf.data.Dataset:
    """The lines of a text file, string scalars; one that ends in `.gz` is decompressed."""
    # What is cut off would be read to where it breaks: see check_text_files.
    is_compressed = tf.strings.regex_full_match(file, r"(?s).*\.gz")
    return tf.data.TextLineDataset(file, tf.where(is_compressed, "GZIP", ""))


# A function of TensorFlow's: it is traced once, not in every pipeline.
@tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
def bounded_lines(lines: tf.Tensor) -> tf.Tensor:
    """Lines, string [n], of at most MAX_SENTENCE_BYTES, so that none holds its pipeline up for minutes.

    A longer one comes in parts of at most PART_BYTES, each up to the last space that fits or, where there is
    none, to the end of a character. Neither lines nor parts have whitespace around them; blank lines stay.
    """
    too_long = tf.strings.length(lines) > MAX_SENTENCE_BYTES
    return tf.cond(tf.reduce_any(too_long), lambda: _with_parts(lines, too_long), lambda: lines)


def _with_parts(lines: tf.Tensor, too_long: tf.Tensor) -> tf.Tensor:
    """Lines, those that are too long replaced by their parts."""
    parts = _parts(tf.boolean_mask(lines, too_long))  # [K, l]
    real = tf.where(parts != "")  # [parts, 2]
    numbers = tf.gather(tf.where(too_long)[:, 0], real[:, 1])  # [parts], the line of each
    numbers = tf.concat([tf.where(~too_long)[:, 0], numbers], axis=0)  # [m]
    texts = tf.concat([tf.boolean_mask(lines, ~too_long), tf.gather_nd(parts, real)], axis=0)
    return tf.gather(texts, tf.argsort(numbers, stable=True))


def _parts(lines: tf.Tensor) -> tf.Tensor:
    """The parts of lines, string [l] to [K, l], filled up with ""."""
    lengths = tf.strings.length(lines)
    begins = tf.zeros_like(lengths)
    sizes = tf.fill(tf.shape(lines), PART_BYTES + 1)
    parts = tf.TensorArray(tf.string, 0, dynamic_size=True, element_shape=[None])
    number = 0
    while tf.reduce_any(begins < lengths):
        heads = _heads(tf.strings.substr(lines, begins, sizes))
        begins += tf.strings.length(heads)
        parts = parts.write(number, tf.strings.strip(heads))
        number += 1
    return parts.stack()


def _heads(texts: tf.Tensor) -> tf.Tensor:
    """The beginnings of texts, of at most PART_BYTES, up to the last space that fits."""
    before_space = tf.strings.regex_replace(texts, r"^(\C+) \C*$", r"\1")
    whole_characters = tf.strings.length(texts, unit="UTF8_CHAR") - 1  # the last one may be cut in two
    first = tf.zeros_like(whole_characters)
    characters = tf.strings.substr(texts, first, tf.maximum(whole_characters, 0), unit="UTF8_CHAR")
    fits = (characters != "") & (tf.strings.length(characters) <= PART_BYTES)
    bytes_ = tf.strings.substr(texts, 0, PART_BYTES)  # of what is not UTF-8
    heads = tf.where(before_space != texts, before_space, tf.where(fits, characters, bytes_))
    return tf.where(tf.strings.length(texts) <= PART_BYTES, texts, heads)
