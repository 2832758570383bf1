"""From a span labeler's outputs to answers: candidate spans, those that count, the n best as text.

A document that is longer than a window is read in several that overlap. All functions are of tensors, so
that a serving model answers by the same ones as `predict`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

# In place of a logit where no answer may be. float16 does not hold it: all logits here are float32.
IMPOSSIBLE = -1e30

# What Python's str.strip takes away, as a class of RE2.
_SPACE = r"[\s\v\x{1c}-\x{1f}\x{85}\p{Z}]+"

# The log-probability of both ends where no span counts.
_NONE = -1e6

# In which contexts are cut to take answers out of them.
_BLOCK_BYTES = 256


class Candidates(NamedTuple):
    """C spans of each of W windows that may be the answer."""

    start: tf.Tensor  # position of the first token in the window, int32 [W, C]
    end: tf.Tensor  # position of the last token, int32 [W, C]
    start_log_prob: tf.Tensor  # float [W, C]; or a logit
    end_log_prob: tf.Tensor  # float [W, C]


class BestAnswers(NamedTuple):
    """At most n different answers to one question, A, the best first."""

    text: tf.Tensor  # string [A]
    start: tf.Tensor  # its first byte in the context, int32 [A]
    end: tf.Tensor  # the byte behind it, int32 [A]
    start_log_prob: tf.Tensor  # float64 [A]
    end_log_prob: tf.Tensor  # float64 [A]
    probability: tf.Tensor  # of each among these, float64 [A], summing to 1


def context_tokens(mask: tf.Tensor, type_ids: tf.Tensor) -> tf.Tensor:
    """True for tokens of the second segment without its [SEP], the last token of a row: bool [B, S]."""
    is_token = mask > 0
    positions = tf.range(tf.shape(mask)[1])  # [S]
    last = tf.reduce_max(tf.where(is_token, positions, -1), axis=1, keepdims=True)  # [B, 1]
    return is_token & (type_ids > 0) & (positions < last)


def best_context(in_context: tf.Tensor, first_tokens: tf.Tensor, questions: tf.Tensor) -> tf.Tensor:
    """True where no other window shows more context around a token: only there may an answer start.

    The context of a token in a window is the smaller number of tokens beside it, and a hundredth of the
    window's length; of equals the first window counts.

    Args:
      in_context: bool [W, S], as `context_tokens` has it.
      first_tokens: number of the document's tokens before those of each window, integer [W].
      questions: whose window each is, integer [W], from 0 on.
    Returns:
      bool [W, S].
    Source: `_check_is_max_context` of google-research/albert's squad_utils.py.
    """
    in_document = tf.cast(in_context, tf.int64)
    first_tokens = tf.cast(first_tokens, tf.int64)[:, tf.newaxis]  # [W, 1]
    lengths = tf.reduce_sum(in_document, axis=1, keepdims=True)  # [W, 1]
    before = tf.cumsum(in_document, axis=1, exclusive=True)  # tokens to the left in this window, [W, S]
    # In hundredths, so that it is exact; and equals differ by the window that they are in.
    windows = tf.shape(in_context, out_type=tf.int64)[0]
    contexts = 100 * tf.minimum(before, lengths - 1 - before) + lengths  # [W, S]
    contexts = (contexts + 1) * windows - tf.range(windows)[:, tf.newaxis]
    # The tokens of all documents, numbered on.
    number = tf.maximum(tf.reduce_max(questions, axis=0), -1) + 1  # of no windows: the lowest int
    document_lengths = tf.math.unsorted_segment_max((first_tokens + lengths)[:, 0], questions, number)
    begins = tf.gather(tf.cumsum(document_lengths, exclusive=True), questions)[:, tf.newaxis]  # [W, 1]
    tokens = tf.where(in_context, begins + first_tokens + before, -1)  # [W, S]; below 0 in no segment
    # One more than there are tokens: the gather below is not of an empty tensor.
    best = tf.math.unsorted_segment_max(contexts, tokens, tf.reduce_sum(document_lengths) + 1)
    return in_context & (contexts == tf.gather(best, tf.maximum(tokens, 0)))


def labeler_candidates(outputs: Mapping[str, tf.Tensor], mask: tf.Tensor, n_best: int) -> Candidates:
    """The spans that a span labeler's outputs speak for.

    Args:
      outputs: of `AlbertSpanLabeler` with or without answerability, where no starts were given.
      mask: integer [W, S]. Without answerability padding has logits like any token, and takes no part here:
        an answer does not depend on what else is in a batch.
      n_best: without answerability, the likeliest starts and ends of each window that are paired, n; all
        tokens where there are fewer.
    Returns:
      C = n · n candidates a window, or those that the model followed up.
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

    def flat(values: tf.Tensor) -> tf.Tensor:
        return tf.reshape(tf.broadcast_to(values, shape), [windows, -1])

    starts, start_values = starts[..., tf.newaxis], start_values[..., tf.newaxis]
    return Candidates(flat(starts), flat(ends), flat(start_values), flat(end_values))


def possible_positions(
    candidates: Candidates, in_context: tf.Tensor, is_best: tf.Tensor, max_answer_length: int
) -> tf.Tensor:
    """True for candidates that lie in the context, start where they have most of it, and are not too long.

    Args:
      candidates: of the windows.
      in_context: as `context_tokens` has it.
      is_best: as `best_context` has it.
      max_answer_length: in tokens.
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
    counts: tf.Tensor,
    token_starts: tf.Tensor,
    token_ends: tf.Tensor,
    context: tf.Tensor,
    n_best: int,
) -> BestAnswers:
    """The n best answers to one question.

    Args:
      candidates: of all windows of the question.
      counts: as `possible_positions` has it.
      token_starts: the first byte of each token in the context, integer [W, S]; of other tokens anything.
      token_ends: the byte behind each, integer [W, S].
      context: string [].
      n_best: answers at most, each text once, by the sum of both log-probabilities.
    Returns:
      Texts without space around them. Where no candidate counts, one that is empty.
    Source: `write_predictions_v1` and `_v2` of google-research/albert's squad_utils.py.
    """
    starts = tf.gather(token_starts, candidates.start, batch_dims=1)  # [W, C]
    ends = tf.gather(token_ends, candidates.end, batch_dims=1)
    starts, ends = (tf.cast(tf.boolean_mask(places, counts), tf.int32) for places in (starts, ends))  # [R]
    start_log_probs, end_log_probs = (
        tf.cast(tf.boolean_mask(values, counts), tf.float64)
        for values in (candidates.start_log_prob, candidates.end_log_prob)
    )
    scores, order = tf.math.top_k(start_log_probs + end_log_probs, tf.size(starts))  # of equals the first
    texts, starts = _texts(context, tf.gather(starts, order), tf.gather(ends, order))
    unique, numbers = tf.unique(texts)  # in the order in which they come up first
    ranks = tf.range(tf.size(texts))
    first = tf.math.unsorted_segment_min(ranks, numbers, tf.size(unique))[:n_best]  # [A]
    none = tf.cast(tf.size(first) == 0, tf.int32)[tf.newaxis]  # how many to add: one where there is none

    def column(values: tf.Tensor, places: tf.Tensor, otherwise: float | str) -> tf.Tensor:
        added = tf.fill(none, tf.constant(otherwise, values.dtype))
        return tf.concat([tf.gather(values, places), added], axis=0)

    return BestAnswers(
        text=column(texts, first, ""),
        start=column(starts, first, 0),
        end=column(starts + tf.strings.length(texts), first, 0),
        start_log_prob=column(start_log_probs, tf.gather(order, first), _NONE),
        end_log_prob=column(end_log_probs, tf.gather(order, first), _NONE),
        probability=tf.nn.softmax(column(scores, first, 2 * _NONE)),
    )


def _texts(context: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The texts of spans of bytes [R] without space around them, and where they start then."""
    # Of the blocks that a span lies in: a copy of the context for each would be the square of its length.
    first, after = starts // _BLOCK_BYTES, -(-ends // _BLOCK_BYTES)
    blocks = tf.gather(_blocks(context), tf.ragged.range(first, after))  # [R, (blocks)]
    texts = tf.strings.reduce_join(blocks, axis=1)
    texts = tf.strings.substr(texts, starts - first * _BLOCK_BYTES, ends - starts)
    texts = tf.strings.regex_replace(texts, f"^{_SPACE}", "")
    starts = ends - tf.strings.length(texts)
    return tf.strings.regex_replace(texts, f"{_SPACE}$", ""), starts


def _blocks(text: tf.Tensor) -> tf.Tensor:
    """A text, string [], cut after each `_BLOCK_BYTES`: string [blocks], the last one shorter."""
    size = tf.strings.length(text)
    padding = tf.fill([-size % _BLOCK_BYTES], "")
    characters = tf.concat([tf.strings.bytes_split(text), padding], axis=0)
    return tf.strings.reduce_join(tf.reshape(characters, [-1, _BLOCK_BYTES]), axis=1)
