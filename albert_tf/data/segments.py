"""Segment pairs from chunks of documents, for sentence-order or next-sentence prediction.

A chunk is as many consecutive sentences of a document as reach a target length. This is a vectorised version
of the loop in BERT's create_pretraining_data.py: for every sentence we draw a target and search for the end
of a chunk that would start there. Following start → end from the first sentence of each document, in steps
that double, gives the chunks.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from albert_tf.data.documents import Documents
from albert_tf.text.packing import trim_lengths


class Segments(NamedTuple):
    """The segments of C examples, as spans of the tokens of `Documents`."""

    starts: tuple[tf.Tensor, ...]  # int32 [C] for each segment
    lengths: tuple[tf.Tensor, ...]  # int32 [C] for each segment, trimmed to fit
    labels: tf.Tensor  # int32 [C], of the sentence objective


def target_lengths(count: tf.Tensor, max_tokens: int, short_seq_prob: float, seed: tf.Tensor) -> tf.Tensor:
    """Draws target lengths of chunks, in tokens, int32 [count]: mostly max_tokens, sometimes a shorter one.

    Short targets have the probability short_seq_prob, and are uniform between 2 and max_tokens.
    Note: each chunk has a target of its own. google-research/albert draws one for each document, so that
    about 29 % of its inputs are short instead of 10 %.

    Source: Lan et al. 2020, §4.1; google-research/albert, create_pretraining_data.py.
    """
    coin_seed, length_seed = tf.unstack(tf.random.split(seed))
    short = tf.random.stateless_uniform([count], coin_seed) < short_seq_prob
    lengths = tf.random.stateless_uniform([count], length_seed, 2, max_tokens + 1, tf.int32)
    return tf.where(short, lengths, max_tokens)


def chunk_ends(documents: Documents, targets: tf.Tensor) -> tf.Tensor:
    """For each sentence, the sentence after a chunk that starts there, [N].

    A chunk ends when its target, int32 [N], is reached or its document ends.
    """
    ends = tf.cumsum(documents.sentence_lengths)  # [N], in tokens
    begins = ends - documents.sentence_lengths
    reached = tf.searchsorted(ends, begins + targets) + 1
    return tf.minimum(reached, documents.document_ends)


def chunk_starts(documents: Documents, ends: tf.Tensor) -> tf.Tensor:
    """The sentences at which chunks start, int32 [C], ascending, from the `chunk_ends`, [N].

    The first chunk of a document starts with it, and each other chunk where the one before ends.
    """
    count = tf.size(ends)
    first = tf.cumsum(documents.num_sentences, exclusive=True)  # [D]
    starts = tf.scatter_nd(first[:, tf.newaxis], tf.ones_like(first), [count + 1])
    starts = tf.minimum(starts, 1)  # a document without sentences has the same start as the next one
    following = tf.concat([ends, [count]], axis=0)  # [N + 1]; the end of all sentences is followed by itself

    def follow(starts: tf.Tensor, following: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, ...]:
        more_starts = tf.tensor_scatter_nd_max(starts, following[:, tf.newaxis], starts)
        return more_starts, tf.gather(following, following), tf.reduce_any(more_starts > starts)

    starts, _, _ = tf.while_loop(lambda *state: state[-1], follow, [starts, following, tf.constant(True)])
    return tf.cast(tf.where(starts[:-1])[:, 0], tf.int32)


def chunks(
    documents: Documents, max_tokens: int, short_seq_prob: float, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """The first sentence of each chunk, and the sentence after the chunk, int32 [C] each."""
    targets = target_lengths(tf.size(documents.sentence_lengths), max_tokens, short_seq_prob, seed)
    ends = chunk_ends(documents, targets)
    first = chunk_starts(documents, ends)
    return first, tf.gather(ends, first)


def segment_pairs(
    documents: Documents, starts_word: tf.Tensor, max_tokens: int, short_seq_prob: float, seed: tf.Tensor
) -> Segments:
    """Pairs of consecutive segments, half of them swapped: labels 0 in order, 1 swapped.

    A chunk is divided at a random end of a sentence. A chunk of one sentence is divided at a random start of
    a word; a chunk of one word is dropped. Both segments are trimmed to fit, each token at the front or back.
    Note: google-research/albert pairs a chunk of one sentence with a part of another document and labels it
    as swapped. Here both segments always come from the same document.

    Args:
      documents: the documents to make pairs of.
      starts_word: `Vocabulary.starts_word`, bool [V].
      max_tokens: tokens that fit into an example beside the special tokens.
      short_seq_prob: share of the chunks that get a shorter target.
      seed: int [2].
    Source: Lan et al. 2020, §3.1 and §4.1; google-research/albert, create_pretraining_data.py.
    """
    target_seed, divide_seed, swap_seed, trim_seed = tf.unstack(tf.random.split(seed, 4))
    first, after = chunks(documents, max_tokens, short_seq_prob, target_seed)  # [C] each
    begin, middle, end = _divide(documents, first, after, starts_word, divide_seed)
    swapped = tf.random.stateless_uniform(tf.shape(first), swap_seed) < 0.5
    pairs = swap_halves(begin, middle, end, swapped)
    return _select(trim_pair(pairs, max_tokens, trim_seed), middle > begin)


def swap_halves(begin: tf.Tensor, middle: tf.Tensor, end: tf.Tensor, swapped: tf.Tensor) -> Segments:
    """Pairs of the two halves of chunks. Where `swapped`, bool [C], is true, the second half comes first.

    A chunk goes from token `begin` to token `end`, its second half begins at token `middle`: int32 [C] each.
    """
    starts = (tf.where(swapped, middle, begin), tf.where(swapped, begin, middle))
    ends = (tf.where(swapped, end, middle), tf.where(swapped, middle, end))
    lengths = (ends[0] - starts[0], ends[1] - starts[1])
    return Segments(starts, lengths, tf.cast(swapped, tf.int32))


def random_next_pairs(
    documents: Documents, starts_word: tf.Tensor, max_tokens: int, short_seq_prob: float, seed: tf.Tensor
) -> Segments:
    """Pairs for next-sentence prediction: label 0 for the true next segment, 1 for a random one.

    In half of the chunks the second part is replaced by sentences from a random position of a random other
    document. The next chunk then starts after the first part, so that nothing is lost. If there is only one
    document, all labels are 0. See `segment_pairs` for the arguments, and for how it divides and trims.

    Source: Devlin et al. 2018, §3.1; google-research/albert, create_pretraining_data.py.
    Note: each part of a document of more than MAX_DOCUMENT_BYTES counts as a document.
    """
    target_seed, divide_seed, coin_seed, other_seed, trim_seed = tf.unstack(tf.random.split(seed, 5))
    count = tf.size(documents.sentence_lengths)  # N
    targets = target_lengths(count, max_tokens, short_seq_prob, target_seed)
    ends = chunk_ends(documents, targets)  # [N]
    sentences = tf.range(count)
    begin, middle, end = _divide(documents, sentences, ends, starts_word, divide_seed)  # [N] each
    random = (tf.random.stateless_uniform([count], coin_seed) < 0.5) & documents.has_several_documents
    one_sentence = ends - sentences == 1
    middle = tf.where(random & one_sentence, end, middle)  # a random segment follows whole sentences
    borders = documents.borders  # [N + 1], in tokens
    following = tf.where(random, tf.searchsorted(borders, middle), ends)

    first = chunk_starts(documents, following)  # [C]
    begin, middle, end, targets, random = (tf.gather(x, first) for x in (begin, middle, end, targets, random))
    other_begin, other_end = sample_other_sentences(documents, first, targets - (middle - begin), other_seed)
    starts = (begin, tf.where(random, other_begin, middle))
    lengths = (middle - begin, tf.where(random, other_end - other_begin, end - middle))
    pairs = Segments(starts, lengths, tf.cast(random, tf.int32))
    return _select(trim_pair(pairs, max_tokens, trim_seed), middle > begin)


def sample_other_sentences(
    documents: Documents, first: tf.Tensor, min_tokens: tf.Tensor, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Samples consecutive sentences from a random document that does not hold sentence `first`, int32 [C].

    They have at least `min_tokens` tokens, int32 [C], or end with their document.

    Returns:
      The first token of the sentences and the token after them, int32 [C] each.
    """
    document_seed, sentence_seed = tf.unstack(tf.random.split(seed))
    sizes = tf.boolean_mask(documents.num_sentences, documents.num_sentences > 0)  # [M], sentences
    limits = tf.cumsum(sizes)
    count = tf.maximum(tf.size(sizes), 1)
    current = tf.searchsorted(limits, first, side="right")  # [C]
    others = tf.fill(tf.shape(first), tf.size(sizes) - 1)
    other = (current + 1 + _uniform_below(others, document_seed)) % count
    start = tf.gather(limits - sizes, other) + _uniform_below(tf.gather(sizes, other), sentence_seed)
    borders = documents.borders  # [N + 1], in tokens
    begin = tf.gather(borders, start)
    reached = tf.searchsorted(borders, begin + tf.maximum(min_tokens, 1))
    return begin, tf.gather(borders, tf.minimum(reached, tf.gather(limits, other)))


def single_segments(
    documents: Documents, starts_word: tf.Tensor, max_tokens: int, short_seq_prob: float, seed: tf.Tensor
) -> Segments:
    """Chunks as single segments, for training without a sentence objective. All labels are 0.

    See `segment_pairs` for the arguments; `starts_word` is not used here.
    """
    target_seed, trim_seed = tf.unstack(tf.random.split(seed))
    first, last = chunks(documents, max_tokens, short_seq_prob, target_seed)  # [C] each
    begin, end = tf.gather(documents.borders, first), tf.gather(documents.borders, last)
    lengths = tf.minimum(end - begin, max_tokens)
    starts = trim_starts((begin,), (end - begin,), (lengths,), trim_seed)
    return Segments(starts, (lengths,), tf.zeros_like(first))


def trim_pair(pairs: Segments, max_tokens: int, seed: tf.Tensor) -> Segments:
    """Trims the longer segment of each pair, at a random end, token by token until the pair fits."""
    first, second = pairs.lengths
    lengths = trim_lengths(first, second, max_tokens)
    return pairs._replace(starts=trim_starts(pairs.starts, pairs.lengths, lengths, seed), lengths=lengths)


def trim_starts(
    starts: tuple[tf.Tensor, ...],
    lengths: tuple[tf.Tensor, ...],
    trimmed_lengths: tuple[tf.Tensor, ...],
    seed: tf.Tensor,
) -> tuple[tf.Tensor, ...]:
    """The starts of trimmed segments, int32 [C] each. Each token is trimmed at the front or back at random.

    Source: google-research/albert, `truncate_seq_pair`.
    """
    excess = tf.cast(tf.stack(lengths) - tf.stack(trimmed_lengths), tf.float32)
    at_front = tf.random.stateless_binomial(tf.shape(excess), seed, excess, 0.5, tf.int32)
    return tuple(tf.unstack(tf.stack(starts) + at_front, num=len(starts)))


def _divide(
    documents: Documents, first: tf.Tensor, after: tf.Tensor, starts_word: tf.Tensor, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Begin, middle and end of chunks, in tokens. If a chunk cannot be divided, its middle is its begin.

    `first` is the first sentence of each chunk, `after` the sentence after the chunk, int32 [C].
    """
    sentence_seed, word_seed = tf.unstack(tf.random.split(seed))
    borders = documents.borders  # [N + 1], in tokens
    begin, end = tf.gather(borders, first), tf.gather(borders, after)
    at_sentence = tf.gather(borders, first + 1 + _uniform_below(after - first - 1, sentence_seed))
    # words[t] is the number of words that start at token t or before.
    words = tf.cumsum(tf.cast(tf.gather(starts_word, documents.tokens), tf.int32))  # [T]
    before = tf.gather(words, begin)
    choices = tf.gather(words, end - 1) - before
    at_word = tf.searchsorted(words, before + 1 + _uniform_below(choices, word_seed))
    at_word = tf.where(choices > 0, at_word, begin)
    return begin, tf.where(after - first > 1, at_sentence, at_word), end


def _uniform_below(bounds: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Random integers from 0 to bound − 1, or 0 for a bound of 0: int32, of the shape of the bounds."""
    uniform = tf.random.stateless_uniform(tf.shape(bounds), seed, dtype=tf.float64)
    return tf.cast(uniform * tf.cast(bounds, tf.float64), tf.int32)


def _select(segments: Segments, keep: tf.Tensor) -> Segments:
    """Selects the examples for which keep, bool [C], is true."""
    return tf.nest.map_structure(lambda x: tf.boolean_mask(x, keep), segments)
