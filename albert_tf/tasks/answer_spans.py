"""Turns a span labeler's outputs into answers: candidate spans, a check of each, and the n best as text.

A long document is read in several windows that overlap. All functions compute with tensors, so that serving
models and `predict` share them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from albert_tf.models.heads import IMPOSSIBLE

# The characters that Python's str.strip removes, as a regular expression of RE2.
_SPACE = r"[\s\v\x{1c}-\x{1f}\x{85}\p{Z}]+"

# The log-probability of the start and of the end of the empty answer.
_NO_ANSWER_LOG_PROB = -1e6

# Contexts are cut into blocks of this size to take answers out of them.
_BLOCK_BYTES = 256


class Candidates(NamedTuple):
    """Spans that may be the answer, C in each of W windows."""

    start: tf.Tensor  # position of the first token in the window, int32 [W, C]
    end: tf.Tensor  # position of the last token, int32 [W, C]
    start_log_prob: tf.Tensor  # log-probability or logit, float [W, C]
    end_log_prob: tf.Tensor  # log-probability or logit, float [W, C]


class BestAnswers(NamedTuple):
    """The A best different answers to one question, the best first."""

    text: tf.Tensor  # string [A]
    start: tf.Tensor  # first byte of the answer in the context, int32 [A]
    end: tf.Tensor  # byte after the answer, int32 [A]
    start_log_prob: tf.Tensor  # float64 [A]
    end_log_prob: tf.Tensor  # float64 [A]
    probability: tf.Tensor  # softmax over these answers, float64 [A]


def has_most_context(in_context: tf.Tensor, first_tokens: tf.Tensor) -> tf.Tensor:
    """True for tokens that have more context in this window than in any other of a document.

    An answer may start only there. The context of a token in a window is the number of tokens on its left or
    right, the smaller one, plus a hundredth of the window's length. If windows are equal, the first one
    counts.

    Args:
      in_context: True for tokens of the document, bool [W, S].
      first_tokens: number of tokens of the document before each window, integer [W].
    Returns:
      bool [W, S].
    Source: `_check_is_max_context` of google-research/albert's squad_utils.py.
    """
    in_document = tf.cast(in_context, tf.int64)
    first_tokens = tf.cast(first_tokens, tf.int64)[:, tf.newaxis]  # [W, 1]
    lengths = tf.reduce_sum(in_document, axis=1, keepdims=True)  # [W, 1]
    before = tf.cumsum(in_document, axis=1, exclusive=True)  # tokens to the left in this window, [W, S]
    # In hundredths, so that it is exact. Equal contexts then differ by the number of the window.
    windows = tf.shape(in_context, out_type=tf.int64)[0]
    contexts = 100 * tf.minimum(before, lengths - 1 - before) + lengths  # [W, S]
    contexts = (contexts + 1) * windows - tf.range(windows)[:, tf.newaxis]
    tokens = tf.where(in_context, first_tokens + before, -1)  # [W, S]; -1 is ignored below
    # One more than the number of tokens, so that the gather below never reads an empty tensor.
    best = tf.math.unsorted_segment_max(contexts, tokens, tf.reduce_max(first_tokens + lengths) + 1)
    return in_context & (contexts == tf.gather(best, tf.maximum(tokens, 0)))


def candidate_spans(outputs: Mapping[str, tf.Tensor], mask: tf.Tensor, n_best: int) -> Candidates:
    """The likeliest spans by a span labeler's outputs.

    Args:
      outputs: outputs of `AlbertSpanLabeler`, with or without answerability, without `start_positions`.
      mask: integer [W, S]. Without answerability padding has logits, too. They are ignored, so that an answer
        does not depend on other examples in the batch.
      n_best: without answerability, number n of the likeliest starts, and of the likeliest ends, that are
        paired in each window. If a window has fewer tokens, all of them.
    Returns:
      C = n · n candidates per window; with answerability the spans that the model followed up.
    """
    if "start_top_index" in outputs:
        start_values, starts = outputs["start_top_log_probs"], outputs["start_top_index"]  # [W, I]
        end_values, ends = outputs["end_top_log_probs"], outputs["end_top_index"]  # [W, I, J]
    else:
        number = tf.minimum(n_best, tf.shape(mask)[1])
        (start_values, starts), (end_values, ends) = (
            tf.math.top_k(tf.where(mask > 0, outputs[name], IMPOSSIBLE), number)  # [W, n] each
            for name in ("start_logits", "end_logits")
        )
        end_values, ends = end_values[:, tf.newaxis], ends[:, tf.newaxis]  # [W, 1, n]
    windows = tf.shape(starts)[0]
    shape = tf.stack([windows, tf.shape(starts)[1], tf.shape(ends)[2]])

    def flatten(values: tf.Tensor) -> tf.Tensor:
        return tf.reshape(tf.broadcast_to(values, shape), [windows, -1])

    starts, start_values = starts[..., tf.newaxis], start_values[..., tf.newaxis]
    return Candidates(flatten(starts), flatten(ends), flatten(start_values), flatten(end_values))


def possible_candidates(
    candidates: Candidates, in_context: tf.Tensor, is_best: tf.Tensor, max_answer_length: int
) -> tf.Tensor:
    """True for candidates in the context that start in their best window and are not too long.

    Args:
      candidates: candidates in all windows.
      in_context: True for tokens of the context, bool [W, S].
      is_best: bool [W, S], from `has_most_context`.
      max_answer_length: longest answer, in tokens.
    Returns:
      bool [W, C].
    """
    lengths = candidates.end - candidates.start + 1
    return (
        tf.gather(is_best, candidates.start, batch_dims=1)
        & tf.gather(in_context, candidates.end, batch_dims=1)
        & (lengths >= 1)
        & (lengths <= max_answer_length)
    )


def best_answers(
    candidates: Candidates,
    is_possible: tf.Tensor,
    token_starts: tf.Tensor,
    token_ends: tf.Tensor,
    context: tf.Tensor,
    n_best: int,
) -> BestAnswers:
    """The n best answers to one question.

    Args:
      candidates: candidates in all windows of the question.
      is_possible: bool [W, C], from `possible_candidates`. Other candidates are ignored.
      token_starts: first byte of each token in the context, integer [W, S]. Any number for other tokens.
      token_ends: byte after each token, integer [W, S].
      context: text of the context, string [].
      n_best: largest number of answers. Each text is returned once, in the order of the sum of both
        log-probabilities.
    Returns:
      Answers without space at their ends. If no candidate is possible, one empty answer.
    Source: `write_predictions_v1` and `_v2` of google-research/albert's squad_utils.py.
    """
    starts = tf.gather(token_starts, candidates.start, batch_dims=1)  # [W, C]
    ends = tf.gather(token_ends, candidates.end, batch_dims=1)
    starts, ends = (tf.cast(tf.boolean_mask(offsets, is_possible), tf.int32) for offsets in (starts, ends))
    starts, ends = _widen_to_characters(context, starts, ends)  # [R]
    start_log_probs, end_log_probs = (
        tf.cast(tf.boolean_mask(values, is_possible), tf.float64)
        for values in (candidates.start_log_prob, candidates.end_log_prob)
    )
    # If scores are equal, the first one wins.
    scores, order = tf.math.top_k(start_log_probs + end_log_probs, tf.size(starts))
    texts, starts = _cut_texts(context, tf.gather(starts, order), tf.gather(ends, order))
    unique, numbers = tf.unique(texts)  # in the order of their first occurrence
    ranks = tf.range(tf.size(texts))
    first = tf.math.unsorted_segment_min(ranks, numbers, tf.size(unique))[:n_best]  # [A]
    # One empty answer is added if there is no other.
    num_empty = tf.cast(tf.size(first) == 0, tf.int32)[tf.newaxis]

    def gather_answers(values: tf.Tensor, indices: tf.Tensor, default: float | str) -> tf.Tensor:
        empty = tf.fill(num_empty, tf.constant(default, values.dtype))
        return tf.concat([tf.gather(values, indices), empty], axis=0)

    return BestAnswers(
        text=gather_answers(texts, first, ""),
        start=gather_answers(starts, first, 0),
        end=gather_answers(starts + tf.strings.length(texts), first, 0),
        start_log_prob=gather_answers(start_log_probs, tf.gather(order, first), _NO_ANSWER_LOG_PROB),
        end_log_prob=gather_answers(end_log_probs, tf.gather(order, first), _NO_ANSWER_LOG_PROB),
        probability=tf.nn.softmax(gather_answers(scores, first, 2 * _NO_ANSWER_LOG_PROB)),
    )


def _widen_to_characters(
    context: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Spans of bytes, int32 [R], as spans of whole characters. Byte-level BPE may cut one in two."""
    values = tf.io.decode_raw(context, tf.uint8)  # [bytes]
    continues = tf.bitwise.bitwise_and(values, tf.constant(0xC0, tf.uint8)) == 0x80
    bounds = tf.where(tf.concat([[True], ~continues[1:], [True]], axis=0))[:, 0]
    bounds = tf.cast(bounds, tf.int32)  # the first byte of each character, and the length of the text
    return (
        tf.gather(bounds, tf.searchsorted(bounds, starts, side="right") - 1),
        tf.gather(bounds, tf.searchsorted(bounds, ends, side="left")),
    )


def _cut_texts(context: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The texts of spans of bytes [R], without space at their ends, and their starts."""
    # Cut from the blocks around a span: one copy of the context per span would take quadratic memory.
    first, after = starts // _BLOCK_BYTES, -(-ends // _BLOCK_BYTES)
    blocks = tf.gather(_split_into_blocks(context), tf.ragged.range(first, after))  # [R, (blocks)]
    texts = tf.strings.reduce_join(blocks, axis=1)
    texts = tf.strings.substr(texts, starts - first * _BLOCK_BYTES, ends - starts)
    texts = tf.strings.regex_replace(texts, f"^{_SPACE}", "")
    starts = ends - tf.strings.length(texts)
    return tf.strings.regex_replace(texts, f"{_SPACE}$", ""), starts


def _split_into_blocks(text: tf.Tensor) -> tf.Tensor:
    """Cuts a text, string [], into blocks of `_BLOCK_BYTES`: string [blocks]. The last one may be shorter."""
    size = tf.strings.length(text)
    padding = tf.fill([-size % _BLOCK_BYTES], "")
    characters = tf.concat([tf.strings.bytes_split(text), padding], axis=0)
    return tf.strings.reduce_join(tf.reshape(characters, [-1, _BLOCK_BYTES]), axis=1)
