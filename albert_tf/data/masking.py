"""Random tiling: n-gram masks without overlaps, without loops over tokens, with exact span lengths.

The words of each segment are tiled from left to right with spans of independent lengths; whole tiles are
masked in a random order until the budget is spent.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from albert_tf.constants import MLM_IDS, MLM_POSITIONS, MLM_WEIGHTS, WORD_IDS
from albert_tf.errors import check_range
from albert_tf.recipes import ExampleSettings
from albert_tf.text.tokenizer import Vocabulary

MASKED, KEPT = 0.8, 0.1  # of the chosen tokens become [MASK], stay as they are; the rest is replaced

_DRAWS = 96  # tiles drawn at a time; a budget of 77 tokens takes fewer
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
    """Sums of each row, int32 [B, N], up to each column: `tf.cumsum` at a third of its cost on a CPU.

    They must stay below 2**24, up to which float32 is exact.
    """
    rows, columns = tf.unstack(tf.shape(numbers))
    strips = -(-columns // _STRIP)
    padded = tf.pad(tf.cast(numbers, tf.float32), [[0, 0], [0, strips * _STRIP - columns]])
    # One small matrix product sums up within strips, so that the slow loop runs over strips alone.
    within = tf.reshape(tf.reshape(padded, [-1, _STRIP]) @ _TRIANGLE, [rows, strips, _STRIP])
    before = tf.cumsum(within[..., -1], axis=1, exclusive=True)  # [B, strips]
    sums = tf.reshape(within + before[..., tf.newaxis], [rows, strips * _STRIP])
    return tf.cast(sums[:, :columns], tf.int32)


def word_numbers(
    word_ids: tf.Tensor, segments: tf.Tensor, starts_word: tf.Tensor, whole_word: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """The number of the word of its row that each token belongs to, and the words of the first segment.

    Args:
      word_ids: int32 [B, S].
      segments: int32 [B, S], 1 and 2 in the two segments, 0 where nothing may be masked; 3, 4, … in further
        documents of a first one.
      starts_word: `Vocabulary.starts_word`.
      whole_word: False makes each token a word of its own.
    Returns:
      int32 [B, S], meaningless outside the segments, and int32 [B].
    """
    inside = segments > 0
    before = tf.pad(segments, [[0, 0], [1, 0]])[:, :-1]
    starts = inside & ((segments != before) | tf.gather(starts_word, word_ids)) if whole_word else inside
    starts = tf.cast(starts, tf.int32)
    first_segment = tf.reduce_sum(tf.where(segments == 1, starts, 0), axis=1)  # [B]
    return running_sums(starts) - 1, first_segment


def ngram_spans(
    words: tf.Tensor, words_before: tf.Tensor, segments: tf.Tensor, max_ngram: int, seed: tf.Tensor
) -> tf.Tensor:
    """The tile of its row that each token belongs to: spans of 1 … max_ngram words within segments.

    Returns:
      int32 [B, S], at least 0, meaningless outside the segments.
    """
    rows, columns = tf.unstack(tf.shape(words))
    cumulative = np.cumsum(ngram_length_probabilities(max_ngram))[:-1]
    uniform = tf.random.stateless_uniform([rows, columns + max_ngram], seed)
    lengths = tf.ones_like(uniform, tf.int32)
    for longer in cumulative:
        lengths += tf.cast(uniform >= longer, tf.int32)
    ends = running_sums(lengths)  # [B, S + max_ngram], in words
    # The second segment starts with a fresh tile: its words count on from the end of the first one's last.
    words_before = words_before[:, tf.newaxis]  # [B, 1]
    last = tf.gather(ends, tf.searchsorted(ends, words_before), batch_dims=1)  # [B, 1]
    words = tf.where(segments == 2, words + last - words_before, words)
    # Of what spans two documents each has its part.
    return tf.searchsorted(ends, words, side="right") + tf.maximum(segments - 2, 0)


def sample_spans(sizes: tf.Tensor, budget: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """A random choice of tiles whose sizes fit into a budget: bool [B, K].

    In a uniformly random order every tile is taken that still fits. The order comes from drawing tiles with
    replacement and passing over those that have been drawn before, _DRAWS at a time, until none is left that
    fits: mostly once or twice, since few tiles use a budget up. Sorting random keys would take longer.

    `sizes` are the tokens of each tile, int32 [B, K], 0 for one that is never chosen; `budget` is int32 [B].
    """
    rows, width = tf.unstack(tf.shape(sizes))
    # Draws are among the tiles up to the last that has tokens.
    counts = tf.reduce_max(tf.where(sizes > 0, tf.range(1, width + 1), 0), axis=1, keepdims=True)  # [B, 1]
    counts = tf.cast(counts, tf.float32)
    numbers = tf.broadcast_to(tf.range(_DRAWS), [rows, _DRAWS])
    first_tiles = width * tf.range(rows)[:, tf.newaxis]

    def draw(turn: tf.Tensor, left: tf.Tensor, taken: tf.Tensor, budget: tf.Tensor) -> tuple[tf.Tensor, ...]:
        uniform = tf.random.stateless_uniform([rows, _DRAWS], tf.random.fold_in(seed, turn))
        drawn = first_tiles + tf.cast(uniform * counts, tf.int32)  # [B, _DRAWS], in the flat tiles
        first = tf.math.unsorted_segment_min(numbers, drawn, rows * width)
        fresh = tf.gather(first, drawn) == numbers
        fits, budget = _first_that_fit(tf.where(fresh, tf.gather(left, drawn), 0), budget)
        taken |= tf.math.unsorted_segment_max(tf.cast(fits, tf.int32), drawn, rows * width) > 0
        limit = tf.reshape(tf.broadcast_to(budget, [rows, width]), [-1])
        return turn + 1, tf.where(taken | (left > limit), 0, left), taken, budget

    left = tf.reshape(sizes, [-1])  # of the tiles that may still be taken, 0 for the others
    _, _, taken, _ = tf.while_loop(
        lambda _, left, *rest: tf.reduce_any(left > 0),
        draw,
        [tf.constant(0), left, tf.zeros_like(left, tf.bool), budget[:, tf.newaxis]],
    )
    return tf.reshape(taken, [rows, width])


def _first_that_fit(sizes: tf.Tensor, budget: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """From left to right, everything that fits into what is left of a budget, and what is left of it.

    The loop runs once for each time that something does not fit and yet smaller things follow, a few times.
    """

    def take(left: tf.Tensor, taken: tf.Tensor, budget: tf.Tensor) -> tuple[tf.Tensor, ...]:
        fits = (left > 0) & (running_sums(left) <= budget)
        budget -= tf.reduce_sum(tf.where(fits, left, 0), axis=1, keepdims=True)
        return tf.where(fits | (left > budget), 0, left), taken | fits, budget

    _, taken, budget = tf.while_loop(
        lambda left, *_: tf.reduce_any(left > 0), take, [sizes, tf.zeros_like(sizes, tf.bool), budget]
    )
    return taken, budget


def mask_budget(tokens: tf.Tensor, masked_lm_prob: float, max_predictions: int) -> tf.Tensor:
    """The number of a row's ordinary tokens to mask, int32 [B]: the share, rounded, at least one; 0 of 0."""
    share = tf.round(masked_lm_prob * tf.cast(tokens, tf.float64))
    return tf.clip_by_value(tf.cast(share, tf.int32), 1 if masked_lm_prob else 0, max_predictions)


def masked_positions(chosen: tf.Tensor, max_predictions: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The columns of the chosen tokens, bool [B, S], at most P a row.

    Returns:
      int32 [B, P], ascending and padded with 0, and bool [B, P], where they are real.
    """
    counts = running_sums(tf.cast(chosen, tf.int32))  # [B, S]
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
) -> dict[str, tf.Tensor]:
    """Rows with masks: of the chosen tokens 80 % `[MASK]`, 10 % kept, 10 % replaced by ordinary pieces.

    Arguments are int32 [B, S] like those of `word_numbers`.

    Returns:
      input_word_ids int32 [B, S], masked_lm_positions and masked_lm_ids int32 [B, P], masked_lm_weights
      float32 [B, P].
    """
    tile_seed, choice_seed, kind_seed, replacement_seed = tf.unstack(tf.random.split(seed, 4))
    starts_word, ordinary_ids = tf.constant(vocabulary.starts_word), tf.constant(vocabulary.ordinary_ids)
    words, words_before = word_numbers(word_ids, segments, starts_word, settings.whole_word)
    tile = ngram_spans(words, words_before, segments, settings.max_ngram, tile_seed)  # [B, S]
    inside = segments > 0
    tile = tf.where(inside, tile, 0)
    width = tf.maximum(tf.reduce_max(tile), 0) + 1  # without rows there is no largest one
    sizes = _row_counts(tile, inside, width)  # [B, K]
    tokens = tf.reduce_sum(tf.cast(inside, tf.int32), axis=1)  # [B]
    budget = mask_budget(tokens, settings.masked_lm_prob, settings.predictions)
    taken = sample_spans(sizes, budget, choice_seed)
    chosen = inside & tf.gather(taken, tile, batch_dims=1)  # [B, S]
    positions, real = masked_positions(chosen, settings.predictions)  # [B, P]
    original = tf.gather(word_ids, positions, batch_dims=1)  # [B, P]

    kind = tf.random.stateless_uniform(tf.shape(positions), kind_seed)  # [B, P]
    draw = tf.random.stateless_uniform(
        tf.shape(positions), replacement_seed, 0, tf.size(ordinary_ids), tf.int32
    )
    shown = tf.where(kind < MASKED, vocabulary.special_ids.mask, tf.gather(ordinary_ids, draw))
    kept = (kind >= MASKED) & (kind < MASKED + KEPT)
    shown = tf.where(real & ~kept, shown, original)
    rows = tf.broadcast_to(tf.range(tf.shape(word_ids)[0])[:, tf.newaxis], tf.shape(positions))
    return {
        WORD_IDS: tf.tensor_scatter_nd_update(word_ids, tf.stack([rows, positions], axis=-1), shown),
        MLM_POSITIONS: positions,
        MLM_IDS: tf.where(real, original, 0),
        MLM_WEIGHTS: tf.cast(real, tf.float32),
    }


def _row_counts(values: tf.Tensor, counted: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Counts of each number below width among the counted values of a row, [B, N] → [B, width]."""
    rows = tf.shape(values)[0]
    flat = tf.reshape(values + width * tf.range(rows)[:, tf.newaxis], [-1])
    ones = tf.reshape(tf.cast(counted, tf.int32), [-1])
    return tf.reshape(tf.math.unsorted_segment_sum(ones, flat, rows * width), [rows, width])
