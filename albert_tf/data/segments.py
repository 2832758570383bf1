"""Chunks of documents as pairs of segments, for sentence-order or next-sentence prediction.

A chunk is as many consecutive sentences of a document as reach a target length. Where the next one starts
depends on all the targets before it, and yet no loop runs over chunks: every sentence draws the target of a
chunk that would start there, and a search finds where each of these ends. Following them from the documents'
first sentences, in steps that double, finds the chunks that are used.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from albert_tf.data.documents import Documents
from albert_tf.text.packing import trim_lengths


class Segments(NamedTuple):
    """C examples as spans of the tokens that they were made of."""

    starts: tuple[tf.Tensor, ...]  # int32 [C] for each segment
    lengths: tuple[tf.Tensor, ...]  # int32 [C] for each segment, trimmed to fit
    labels: tf.Tensor  # int32 [C], the sentence objective's


def target_lengths(count: tf.Tensor, max_tokens: int, short_seq_prob: float, seed: tf.Tensor) -> tf.Tensor:
    """The target lengths of chunks in tokens, int32 [count]: mostly max_tokens, sometimes any shorter length.

    Short targets have the probability short_seq_prob, and are uniform between 2 and max_tokens.
    Note: one for each chunk; google-research/albert draws one for each document, so that about 29 % of its
    inputs are short instead of 10 %.

    Source: Lan et al. 2020, §4.1; google-research/albert, create_pretraining_data.py.
    """
    coin_seed, length_seed = tf.unstack(tf.random.split(seed))
    short = tf.random.stateless_uniform([count], coin_seed) < short_seq_prob
    lengths = tf.random.stateless_uniform([count], length_seed, 2, max_tokens + 1, tf.int32)
    return tf.where(short, lengths, max_tokens)


def chunk_ends(documents: Documents, targets: tf.Tensor) -> tf.Tensor:
    """The sentence after a chunk that starts at each one, [N]: its target is reached or the document ends."""
    ends = tf.cumsum(documents.sentence_lengths)  # [N], in tokens
    begins = ends - documents.sentence_lengths
    reached = tf.searchsorted(ends, begins + targets) + 1
    return tf.minimum(reached, documents.document_ends)


def chunk_starts(documents: Documents, ends: tf.Tensor) -> tf.Tensor:
    """The sentences at which chunks start, int32 [C], ascending, from the `chunk_ends`.

    The first is a document's first, and each follows the last.
    """
    count = tf.size(ends)
    first = tf.cumsum(documents.sentences, exclusive=True)  # [D]
    starts = tf.scatter_nd(first[:, tf.newaxis], tf.ones_like(first), [count + 1])
    starts = tf.minimum(starts, 1)  # documents without sentences share theirs with the next
    following = tf.concat([ends, [count]], axis=0)  # [N + 1]; what follows the last sentence stays there

    def follow(starts: tf.Tensor, following: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, ...]:
        more = tf.tensor_scatter_nd_max(starts, following[:, tf.newaxis], starts)
        return more, tf.gather(following, following), tf.reduce_any(more > starts)

    starts, _, _ = tf.while_loop(lambda *state: state[-1], follow, [starts, following, tf.constant(True)])
    return tf.cast(tf.where(starts[:-1])[:, 0], tf.int32)


def chunks(
    documents: Documents, max_tokens: int, short_seq_prob: float, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """The first sentence of each chunk and the one after its last, int32 [C]."""
    targets = target_lengths(tf.size(documents.sentence_lengths), max_tokens, short_seq_prob, seed)
    ends = chunk_ends(documents, targets)
    first = chunk_starts(documents, ends)
    return first, tf.gather(ends, first)


def segment_pairs(
    documents: Documents, starts_word: tf.Tensor, max_tokens: int, short_seq_prob: float, seed: tf.Tensor
) -> Segments:
    """Pairs of consecutive segments, half of them swapped: labels 0 in order, 1 swapped.

    A chunk is divided at a random sentence end, one of a single sentence at a random start of a word; one of
    a single word is dropped. Both segments are trimmed to fit, each token at the front or at the back.
    Note: google-research/albert pairs a chunk of one sentence with a part of another document and labels it
    as swapped; here both segments are always of one document.

    Args:
      documents: what to make pairs of.
      starts_word: `Vocabulary.starts_word`.
      max_tokens: tokens that fit beside the special ones.
      short_seq_prob: share of the chunks whose target is drawn shorter.
      seed: int [2].
    Source: Lan et al. 2020, §3.1 and §4.1; google-research/albert, create_pretraining_data.py.
    """
    target_seed, divide_seed, swap_seed, trim_seed = tf.unstack(tf.random.split(seed, 4))
    first, last = chunks(documents, max_tokens, short_seq_prob, target_seed)  # [C] each
    begin, middle, end = _divide(documents, first, last, starts_word, divide_seed)
    swapped = tf.random.stateless_uniform(tf.shape(first), swap_seed) < 0.5
    starts = (tf.where(swapped, middle, begin), tf.where(swapped, begin, middle))
    lengths = (
        tf.where(swapped, end - middle, middle - begin),
        tf.where(swapped, middle - begin, end - middle),
    )
    pairs = Segments(starts, lengths, tf.cast(swapped, tf.int32))
    return _select(trim_pair(pairs, max_tokens, trim_seed), middle > begin)


def random_next_pairs(
    documents: Documents, starts_word: tf.Tensor, max_tokens: int, short_seq_prob: float, seed: tf.Tensor
) -> Segments:
    """Pairs for next-sentence prediction: label 0 for the true next segment, 1 for one of another document.

    Half of the chunks keep their first part alone, followed by sentences from a random place of a random
    other of these documents; the next chunk starts after that part, so that nothing is lost. Where there is
    but one document, every pair is a true one. Arguments, division and trimming are those of `segment_pairs`.

    Source: Devlin et al. 2018, §3.1; google-research/albert, create_pretraining_data.py.
    Note: A document of more than MAX_DOCUMENT_BYTES comes in parts, each of which counts as a document.
    """
    target_seed, divide_seed, coin_seed, other_seed, trim_seed = tf.unstack(tf.random.split(seed, 5))
    count = tf.size(documents.sentence_lengths)  # N
    targets = target_lengths(count, max_tokens, short_seq_prob, target_seed)
    ends = chunk_ends(documents, targets)  # [N]
    sentences = tf.range(count)
    begin, middle, end = _divide(documents, sentences, ends, starts_word, divide_seed)  # [N] each
    random = (tf.random.stateless_uniform([count], coin_seed) < 0.5) & documents.are_several
    one_sentence = ends - sentences == 1
    middle = tf.where(random & one_sentence, end, middle)  # whole sentences before a random segment
    borders = documents.borders  # [N + 1], in tokens
    following = tf.where(random, tf.searchsorted(borders, middle), ends)

    first = chunk_starts(documents, following)  # [C]
    begin, middle, end, targets, random = (tf.gather(x, first) for x in (begin, middle, end, targets, random))
    other_begin, other_end = random_elsewhere(documents, first, targets - (middle - begin), other_seed)
    starts = (begin, tf.where(random, other_begin, middle))
    lengths = (middle - begin, tf.where(random, other_end - other_begin, end - middle))
    pairs = Segments(starts, lengths, tf.cast(random, tf.int32))
    return _select(trim_pair(pairs, max_tokens, trim_seed), middle > begin)


def random_elsewhere(
    documents: Documents, first: tf.Tensor, wanted: tf.Tensor, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Whole sentences from a random place of a random other document, as tokens' begin and end, int32 [C].

    The documents that are not meant are those of the sentences `first`; `wanted` are the tokens to reach.
    """
    document_seed, sentence_seed = tf.unstack(tf.random.split(seed))
    sizes = tf.boolean_mask(documents.sentences, documents.sentences > 0)  # [M], sentences
    limits = tf.cumsum(sizes)
    count = tf.maximum(tf.size(sizes), 1)
    own = tf.searchsorted(limits, first, side="right")  # [C]
    others = tf.fill(tf.shape(first), tf.size(sizes) - 1)
    other = (own + 1 + _uniform_below(others, document_seed)) % count
    start = tf.gather(limits - sizes, other) + _uniform_below(tf.gather(sizes, other), sentence_seed)
    borders = documents.borders  # [N + 1], in tokens
    begin = tf.gather(borders, start)
    reached = tf.searchsorted(borders, begin + tf.maximum(wanted, 1))
    return begin, tf.gather(borders, tf.minimum(reached, tf.gather(limits, other)))


def single_segments(
    documents: Documents, starts_word: tf.Tensor, max_tokens: int, short_seq_prob: float, seed: tf.Tensor
) -> Segments:
    """Chunks as they are, for training without a sentence objective: labels are 0, `starts_word` unused."""
    target_seed, trim_seed = tf.unstack(tf.random.split(seed))
    first, last = chunks(documents, max_tokens, short_seq_prob, target_seed)  # [C] each
    begin, end = tf.gather(documents.borders, first), tf.gather(documents.borders, last)
    kept = tf.minimum(end - begin, max_tokens)
    starts = trim_starts((begin,), (end - begin,), (kept,), trim_seed)
    return Segments(starts, (kept,), tf.zeros_like(first))


def trim_pair(pairs: Segments, max_tokens: int, seed: tf.Tensor) -> Segments:
    """Pairs that fit together, trimmed in turn, each token at the front or at the back of its segment."""
    first, second = pairs.lengths
    kept = trim_lengths(first, second, max_tokens)
    return pairs._replace(starts=trim_starts(pairs.starts, pairs.lengths, kept, seed), lengths=kept)


def trim_starts(
    starts: tuple[tf.Tensor, ...],
    lengths: tuple[tf.Tensor, ...],
    kept: tuple[tf.Tensor, ...],
    seed: tf.Tensor,
) -> tuple[tf.Tensor, ...]:
    """The starts of segments, int32 [C] each, after trimming: a coin decides for each token, front or back.

    Source: google-research/albert, `truncate_seq_pair`.
    """
    excess = tf.cast(tf.stack(lengths) - tf.stack(kept), tf.float32)
    shape = tf.shape(excess)
    at_front = tf.random.stateless_binomial(shape, seed, excess, 0.5, tf.int32)
    return tuple(tf.unstack(tf.stack(starts) + at_front, num=len(starts)))


def _divide(
    documents: Documents, first: tf.Tensor, last: tf.Tensor, starts_word: tf.Tensor, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Begin, middle and end of chunks, in tokens; where a chunk cannot be divided the middle is the begin.

    The chunks are given by their first sentences and those after their last, int32 [C].
    """
    sentence_seed, word_seed = tf.unstack(tf.random.split(seed))
    borders = documents.borders  # [N + 1], in tokens
    begin, end = tf.gather(borders, first), tf.gather(borders, last)
    at_sentence = tf.gather(borders, first + 1 + _uniform_below(last - first - 1, sentence_seed))
    # words[t] is the number of words that start up to and with token t.
    words = tf.cumsum(tf.cast(tf.gather(starts_word, documents.tokens), tf.int32))  # [T]
    before = tf.gather(words, begin)
    choices = tf.gather(words, end - 1) - before
    at_word = tf.searchsorted(words, before + 1 + _uniform_below(choices, word_seed))
    at_word = tf.where(choices > 0, at_word, begin)
    return begin, tf.where(last - first > 1, at_sentence, at_word), end


def _uniform_below(bounds: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """A random integer of 0 … bound − 1 for each bound, 0 where there is none; int32, of the same shape."""
    uniform = tf.random.stateless_uniform(tf.shape(bounds), seed, dtype=tf.float64)
    return tf.cast(uniform * tf.cast(bounds, tf.float64), tf.int32)


def _select(segments: Segments, keep: tf.Tensor) -> Segments:
    """The examples where keep, bool [C], is true."""
    return tf.nest.map_structure(lambda x: tf.boolean_mask(x, keep), segments)
