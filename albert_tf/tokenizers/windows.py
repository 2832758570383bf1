"""Texts to words, and windows on texts that are too long for one input, with core TensorFlow ops alone."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from albert_tf.tokenizers.offsets import END, cut_where, edges, match_codes, rows_of
from albert_tf.utils.choices import PUNCTUATION_WORDS, SPACE_WORDS

# What Python's `str.isspace` calls a space, as a reader of columns does.
SPACES = [code for code in range(0x3001) if chr(code).isspace()]  # as code points

# Punctuation marks as BERT has them, ASCII's and Unicode's (category P), as a class of a regular expression.
PUNCTUATION = r"!-/:-@\[-`{-~\p{P}"


class Words(NamedTuple):
    """The words of a batch of texts."""

    text: tf.RaggedTensor  # string [B, (words)]
    starts: tf.RaggedTensor  # int32 [B, (words)], the first byte of each in its text
    ends: tf.RaggedTensor  # int32 [B, (words)], the byte after its last


def words_of(text: tf.Tensor, words: str = SPACE_WORDS) -> Words:
    """The words of each text, string [B]; what is not UTF-8 belongs to a word.

    Words end at spaces; with "punctuation" each punctuation mark is a word by itself, too.
    Source: google-research/bert, `_run_split_on_punc` in tokenization.py.
    """

    def opens_word(codes: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        opens = edges(2 * rows + _is_space(codes))[0]
        if words != PUNCTUATION_WORDS:
            return opens
        is_mark = match_codes(codes, PUNCTUATION)
        is_after = tf.concat([[False], is_mark], axis=0)[:-1]
        return opens | is_mark | is_after

    # Each text ends with a space: where one begins is a change or a space, and never inside a word.
    parts = cut_where(text + END, opens_word)
    is_word = _is_space(parts.codes) == 0  # [P]
    ends = tf.concat([parts.starts[1:], parts.starts[:1]], axis=0)  # a part follows every word
    found = tf.RaggedTensor.from_value_rowids(
        tf.boolean_mask(parts.text, is_word),
        tf.cast(tf.boolean_mask(parts.rows, is_word), tf.int64),
        nrows=tf.size(text, tf.int64),
        validate=False,
    )
    places = (tf.cast(tf.boolean_mask(values, is_word), tf.int32) for values in (parts.starts, ends))
    return Words(found, *(found.with_values(values) for values in places))


def _is_space(codes: tf.Tensor) -> tf.Tensor:
    """1 for code points of spaces, 0 for others, int32."""
    return tf.cast(tf.reduce_any(codes[:, tf.newaxis] == SPACES, axis=1), tf.int32)


class Windows(NamedTuple):
    """The windows of a batch of documents, those of one document after the other."""

    rows: tf.Tensor  # int32 [W], the document of each
    numbers: tf.Tensor  # int32 [W], which of that document's windows it is, from 0
    starts: tf.Tensor  # int32 [W], its first token in the document
    lengths: tf.Tensor  # int32 [W], its tokens; 0 of an empty document's only window


def sliding_windows(lengths: tf.Tensor, budgets: tf.Tensor, stride: tf.Tensor | int) -> Windows:
    """The windows that together show all of each document, whose lengths are int32 [N].

    All but the last of a document are full, and an empty document has an empty one. Budgets are the tokens
    that a window of each may have, at least 1, int32 [N]; the stride is from one window to the next, at least
    1, and never more than the budget. Source: google-research/albert, `convert_examples_to_features` in
    squad_utils.py.
    """
    steps = tf.minimum(budgets, stride)  # [N]
    further = tf.maximum(lengths - budgets + steps - 1, 0) // steps  # [N]
    splits = tf.concat([[0], tf.cumsum(further + 1)], axis=0)  # [N + 1]
    rows = rows_of(tf.cast(splits, tf.int64))  # [W]
    numbers = tf.range(tf.size(rows)) - tf.gather(splits, rows)  # [W]
    starts = numbers * tf.gather(steps, rows)
    sizes = tf.minimum(tf.gather(budgets, rows), tf.gather(lengths, rows) - starts)
    return Windows(rows, numbers, starts, sizes)


def word_windows(words: tf.Tensor, texts: tf.Tensor, budget: int) -> Windows:
    """Texts in windows that do not overlap, each as long as fits and cut before a word.

    `words` is where each word begins among the tokens of all texts, and where the last one ends, ascending,
    int64 [words + 1]; `texts` the same of the texts, int64 [N + 1]. A window may have so many tokens as the
    budget, at least 1. A longer word is cut.
    """
    words, texts = tf.convert_to_tensor(words), tf.convert_to_tensor(texts)
    begins, ends = texts[:-1], texts[1:]  # [N] each

    found = tf.TensorArray(tf.int32, 1, dynamic_size=True, element_shape=begins.shape)
    found = found.write(0, tf.zeros_like(begins, tf.int32))
    starts, number = _window_ends(words, begins, ends, budget), 1
    while tf.reduce_any(starts < ends):
        found = found.write(number, tf.cast(starts - begins, tf.int32))
        starts = _window_ends(words, starts, ends, budget)
        number += 1
    starts = tf.transpose(found.stack())  # in their texts, [N, most windows]
    lengths = tf.cast(ends - begins, tf.int32)[:, tf.newaxis]  # of texts, [N, 1]
    is_window = (starts < lengths) | (tf.range(tf.shape(starts)[1]) == 0)
    rows, numbers = tf.unstack(tf.cast(tf.where(is_window), tf.int32), axis=1)  # [W] each
    starts = tf.boolean_mask(starts, is_window)  # [W]
    window_starts = tf.gather(begins, rows) + tf.cast(starts, begins.dtype)  # among all tokens, [W]
    window_ends = _window_ends(words, window_starts, tf.gather(ends, rows), budget)
    return Windows(rows, numbers, starts, tf.cast(window_ends - window_starts, tf.int32))


def _window_ends(words: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor, budget: int) -> tf.Tensor:
    """The ends of windows that start at `starts` in texts that end at `ends`, int64 [W] each."""
    word = tf.gather(words, tf.searchsorted(words, starts + budget, side="right") - 1)
    return tf.where(ends - starts <= budget, ends, tf.where(word > starts, word, starts + budget))
