"""n-gram masks by random tiling: no overlaps, no loops over tokens, and span lengths of exactly p(n) ∝ 1/n.

Spans of independent lengths tile the words of each segment from left to right. Whole spans are masked in a
random order until the budget is spent.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from albert_tf.errors import check_range
from albert_tf.recipes import ExampleSettings
from albert_tf.text.tokenizer import Vocabulary

# Shares of the selected tokens that become [MASK] and that stay unchanged. The others become random tokens.
_MASK_SHARE, _UNCHANGED_SHARE = 0.8, 0.1

_DRAWS = 96  # spans drawn at a time; 512 tokens, of which 77 are masked, mostly need fewer
_STRIP = 32
_TRIANGLE = np.triu(np.ones([_STRIP, _STRIP], np.float32))


def ngram_length_probabilities(max_ngram: int) -> np.ndarray:
    """Probability of masking a span of n words, p(n) ∝ 1/n: float32 [max_ngram], summing to 1.

    Source: Lan et al. 2020, §4.1.
    """
    check_range("max_ngram", max_ngram, at_least=1)
    weights = 1 / np.arange(1, max_ngram + 1)
    return (weights / weights.sum()).astype(np.float32)


def running_sums(numbers: tf.Tensor) -> tf.Tensor:
    """Cumulative sums of each row, int32 [B, N]: `tf.cumsum` at a third of its cost on a CPU.

    The sums must stay below 2**24, up to which float32 is exact.
    """
    rows, columns = tf.unstack(tf.shape(numbers))
    strips = -(-columns // _STRIP)
    padded = tf.pad(tf.cast(numbers, tf.float32), [[0, 0], [0, strips * _STRIP - columns]])
    # One small matrix product sums within strips, so that the slow loop runs over strips only.
    within = tf.reshape(tf.reshape(padded, [-1, _STRIP]) @ _TRIANGLE, [rows, strips, _STRIP])
    before = tf.cumsum(within[..., -1], axis=1, exclusive=True)  # [B, strips]
    sums = tf.reshape(within + before[..., tf.newaxis], [rows, strips * _STRIP])
    return tf.cast(sums[:, :columns], tf.int32)


def word_numbers(
    word_ids: tf.Tensor, segments: tf.Tensor, starts_word: tf.Tensor, whole_word: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """Numbers the words of each row, and counts the words of the first segment.

    Args:
      word_ids: int32 [B, S].
      segments: int32 [B, S], 1 and 2 in the two segments, 0 where nothing may be masked; 3, 4, … in the
        further documents of the first segment.
      starts_word: `Vocabulary.starts_word`, bool [V].
      whole_word: False makes each token a word.
    Returns:
      The word of each token, int32 [B, S], meaningless outside the segments; and the number of words in
      the first segment, int32 [B].
    """
    inside = segments > 0
    before = tf.pad(segments, [[0, 0], [1, 0]])[:, :-1]
    starts = inside & ((segments != before) | tf.gather(starts_word, word_ids)) if whole_word else inside
    starts = tf.cast(starts, tf.int32)
    words_before = tf.reduce_sum(tf.where(segments == 1, starts, 0), axis=1)  # [B]
    return running_sums(starts) - 1, words_before


def ngram_spans(
    words: tf.Tensor, words_before: tf.Tensor, segments: tf.Tensor, max_ngram: int, seed: tf.Tensor
) -> tf.Tensor:
    """Divides the segments of each row into spans of 1 … max_ngram words.

    See `word_numbers` for `words`, its first result, `words_before`, its second, and `segments`.

    Returns:
      The span number of each token, int32 [B, S], at least 0, meaningless outside the segments.
    """
    rows, columns = tf.unstack(tf.shape(words))
    cumulative = np.cumsum(ngram_length_probabilities(max_ngram))[:-1]
    uniform = tf.random.stateless_uniform([rows, columns + max_ngram], seed)
    lengths = tf.ones_like(uniform, tf.int32)
    for bound in cumulative:
        lengths += tf.cast(uniform >= bound, tf.int32)
    ends = running_sums(lengths)  # [B, S + max_ngram], in words
    # The second segment starts with a new span: its words count on from the end of the first segment's spans.
    words_before = words_before[:, tf.newaxis]  # [B, 1]
    last = tf.gather(ends, tf.searchsorted(ends, words_before), batch_dims=1)  # [B, 1]
    words = tf.where(segments == 2, words + last - words_before, words)
    # A span that crosses the end of a document is divided there.
    return tf.searchsorted(ends, words, side="right") + tf.maximum(segments - 2, 0)


def sample_spans(sizes: tf.Tensor, budget: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Selects random spans whose sizes fit into a budget: bool [B, K].

    In a uniformly random order, every span that still fits is selected. For the order, spans are drawn with
    replacement, _DRAWS at a time, and repeated draws are ignored, until no other span fits: mostly once or
    twice, since a few spans use a budget up. Sorting random keys would take longer.

    Args:
      sizes: tokens of each span, int32 [B, K], 0 for a span that is never selected.
      budget: tokens to select in each row, int32 [B].
      seed: int [2].
    """
    rows, width = tf.unstack(tf.shape(sizes))
    # Draws are among the spans up to the last that has tokens.
    counts = tf.reduce_max(tf.where(sizes > 0, tf.range(1, width + 1), 0), axis=1, keepdims=True)  # [B, 1]
    counts = tf.cast(counts, tf.float32)
    numbers = tf.broadcast_to(tf.range(_DRAWS), [rows, _DRAWS])
    first_spans = width * tf.range(rows)[:, tf.newaxis]

    def draw(
        turn: tf.Tensor, sizes: tf.Tensor, selected: tf.Tensor, budget: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        uniform = tf.random.stateless_uniform([rows, _DRAWS], tf.random.fold_in(seed, turn))
        spans = first_spans + tf.cast(uniform * counts, tf.int32)  # [B, _DRAWS], in the flat sizes
        first = tf.math.unsorted_segment_min(numbers, spans, rows * width)
        is_first = tf.gather(first, spans) == numbers
        fits, budget = _select_in_order(tf.where(is_first, tf.gather(sizes, spans), 0), budget)
        selected |= tf.math.unsorted_segment_max(tf.cast(fits, tf.int32), spans, rows * width) > 0
        limit = tf.reshape(tf.broadcast_to(budget, [rows, width]), [-1])
        return turn + 1, tf.where(selected | (sizes > limit), 0, sizes), selected, budget

    flat_sizes = tf.reshape(sizes, [-1])  # the loop sets those of spans that are selected or too large to 0
    _, _, selected, _ = tf.while_loop(
        lambda _, sizes, *others: tf.reduce_any(sizes > 0),
        draw,
        [tf.constant(0), flat_sizes, tf.zeros_like(flat_sizes, tf.bool), budget[:, tf.newaxis]],
    )
    return tf.reshape(selected, [rows, width])


def _select_in_order(sizes: tf.Tensor, budget: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Selects from left to right every span that still fits, and returns the rest of the budget, too.

    The loop runs once more each time that a span does not fit but smaller ones follow: a few times.
    """

    def select(sizes: tf.Tensor, selected: tf.Tensor, budget: tf.Tensor) -> tuple[tf.Tensor, ...]:
        fits = (sizes > 0) & (running_sums(sizes) <= budget)
        budget -= tf.reduce_sum(tf.where(fits, sizes, 0), axis=1, keepdims=True)
        return tf.where(fits | (sizes > budget), 0, sizes), selected | fits, budget

    _, selected, budget = tf.while_loop(
        lambda sizes, *_: tf.reduce_any(sizes > 0), select, [sizes, tf.zeros_like(sizes, tf.bool), budget]
    )
    return selected, budget


def mask_budget(tokens: tf.Tensor, masked_lm_prob: float, max_predictions: int) -> tf.Tensor:
    """The number of tokens to mask in each row, int32 [B]: masked_lm_prob times `tokens`, rounded.

    At least 1, or 0 if masked_lm_prob is 0; at most max_predictions.
    """
    share = tf.round(masked_lm_prob * tf.cast(tokens, tf.float64))
    return tf.clip_by_value(tf.cast(share, tf.int32), 1 if masked_lm_prob else 0, max_predictions)


def masked_positions(selected: tf.Tensor, max_predictions: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The positions of the selected tokens, bool [B, S], at most P per row.

    Returns:
      The positions, int32 [B, P], ascending and padded with 0; and bool [B, P], False for the padding.
    """
    counts = running_sums(tf.cast(selected, tf.int32))  # [B, S]
    numbers = tf.range(1, max_predictions + 1)[tf.newaxis]
    real = numbers <= counts[:, -1:]  # [B, P]
    positions = tf.searchsorted(counts, tf.broadcast_to(numbers, tf.shape(real)))
    return tf.where(real, positions, 0), real


def mask_tokens(
    word_ids: tf.Tensor,
    segments: tf.Tensor,
    seed: tf.Tensor,
    vocabulary: Vocabulary,
    settings: ExampleSettings,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Masks spans: 80 % of the selected tokens become `[MASK]`, 10 % random ordinary tokens, 10 % stay.

    See `word_numbers` for `word_ids` and `segments`, int32 [B, S].

    Returns:
      The masked token ids, int32 [B, S]; the masked positions, int32 [B, P], ascending and padded with 0; and
      the original ids there, int32 [B, P], 0 for the padding.
    """
    span_seed, selection_seed, action_seed, replacement_seed = tf.unstack(tf.random.split(seed, 4))
    starts_word, ordinary_ids = tf.constant(vocabulary.starts_word), tf.constant(vocabulary.ordinary_ids)
    words, words_before = word_numbers(word_ids, segments, starts_word, settings.whole_word)
    span = ngram_spans(words, words_before, segments, settings.max_ngram, span_seed)  # [B, S]
    inside = segments > 0
    span = tf.where(inside, span, 0)
    width = tf.maximum(tf.reduce_max(span), 0) + 1  # the maximum over no rows is below 0
    sizes = _row_counts(span, inside, width)  # [B, K]
    tokens = tf.reduce_sum(tf.cast(inside, tf.int32), axis=1)  # [B]
    budget = mask_budget(tokens, settings.masked_lm_prob, settings.predictions)
    selected_spans = sample_spans(sizes, budget, selection_seed)  # [B, K]
    selected = inside & tf.gather(selected_spans, span, batch_dims=1)  # [B, S]
    positions, real = masked_positions(selected, settings.predictions)  # [B, P]
    original = tf.gather(word_ids, positions, batch_dims=1)  # [B, P]

    action = tf.random.stateless_uniform(tf.shape(positions), action_seed)  # [B, P]
    draw = tf.random.stateless_uniform(
        tf.shape(positions), replacement_seed, 0, tf.size(ordinary_ids), tf.int32
    )
    replaced = tf.where(action < _MASK_SHARE, vocabulary.special_ids.mask, tf.gather(ordinary_ids, draw))
    unchanged = (action >= _MASK_SHARE) & (action < _MASK_SHARE + _UNCHANGED_SHARE)
    new_ids = tf.where(real & ~unchanged, replaced, original)
    rows = tf.broadcast_to(tf.range(tf.shape(word_ids)[0])[:, tf.newaxis], tf.shape(positions))
    masked_ids = tf.tensor_scatter_nd_update(word_ids, tf.stack([rows, positions], axis=-1), new_ids)
    return masked_ids, positions, tf.where(real, original, 0)


def _row_counts(values: tf.Tensor, counted: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Counts how often each number below `width` is among a row's counted values: [B, N] → [B, width]."""
    rows = tf.shape(values)[0]
    flat = tf.reshape(values + width * tf.range(rows)[:, tf.newaxis], [-1])
    ones = tf.reshape(tf.cast(counted, tf.int32), [-1])
    return tf.reshape(tf.math.unsorted_segment_sum(ones, flat, rows * width), [rows, width])
