"""The further input formats that RoBERTa was compared with: pairs of sentences, sentences packed.

Source: Liu et al. 2019, §4.2.
"""

from __future__ import annotations

import tensorflow as tf

from albert_tf.data.documents import Documents
from albert_tf.data.segments import Segments, chunk_starts, random_elsewhere, trimmed

SENTENCE_TOKENS = 32  # at most, of a line that is one sentence


def sentence_pairs(
    documents: Documents,
    starts_word: tf.Tensor,
    max_tokens: int,
    short_seq_prob: float,
    seed: tf.Tensor,
    *,
    objective: str,
) -> Segments:
    """Pairs of single sentences, which are mostly much shorter than an input.

    Arguments are those of `segment_pairs`; short_seq_prob has no use. The objective "sop" swaps half of the
    pairs of consecutive sentences, "none" swaps none of them; of "nsp" half of the second sentences are from
    random other documents, and the next pair begins after the first sentence, so that little is lost. A
    sentence that ends its document begins no pair.
    """
    coin_seed, other_seed, trim_seed = tf.unstack(tf.random.split(seed, 3))
    count = tf.size(documents.sentence_lengths)  # N
    document_ends = documents.document_ends  # [N]
    coin = tf.random.stateless_uniform([count], coin_seed) < 0.5
    changed = coin & ((objective == "sop") | ((objective == "nsp") & documents.are_several))
    following = tf.range(count) + (tf.where(changed, 1, 2) if objective == "nsp" else 2)
    first = chunk_starts(documents, tf.minimum(following, document_ends))
    first = tf.boolean_mask(first, first + 1 < tf.gather(document_ends, first))  # [C]
    changed = tf.gather(changed, first)
    begin, middle, end = (tf.gather(documents.borders, first + i) for i in range(3))
    if objective == "nsp":
        other_begin, other_end = random_elsewhere(documents, first, tf.ones_like(first), other_seed)
        starts = (begin, tf.where(changed, other_begin, middle))
        ends = (middle, tf.where(changed, other_end, end))
    else:
        starts = (tf.where(changed, middle, begin), tf.where(changed, begin, middle))
        ends = (tf.where(changed, end, middle), tf.where(changed, middle, end))
    lengths = (ends[0] - starts[0], ends[1] - starts[1])
    return trimmed(Segments(starts, lengths, tf.cast(changed, tf.int32)), max_tokens, trim_seed)


def separated(
    documents: Documents,
    separator: int,
    max_tokens: int,
    ends_sentence: tf.Tensor,
    starts_word: tf.Tensor,
) -> Documents:
    """Documents that each begin with a separator token, which belongs to the first sentence.

    A line of more than SENTENCE_TOKENS is a paragraph, and its sentences end after `ends_sentence` before
    `starts_word`, bool [V]. A sentence of more than max_tokens becomes several, so that none is lost.
    """
    lengths, tokens = documents.sentence_lengths, documents.tokens  # [N], [T]
    ends = tf.gather(ends_sentence, tokens) & tf.gather(starts_word, tf.roll(tokens, -1, 0))
    documents = _divided(documents, ends & tf.repeat(lengths > SENTENCE_TOKENS, lengths))
    places = tf.range(1, tf.size(tokens) + 1) - tf.repeat(documents.borders[:-1], documents.sentence_lengths)
    documents = _divided(documents, places % max_tokens == 0)
    sentences = tf.boolean_mask(documents.sentences, documents.sentences > 0)  # [M]
    first = tf.cumsum(sentences, exclusive=True)  # [M]
    begins = tf.gather(documents.borders, first)  # [M], in tokens
    before = tf.cumsum(tf.scatter_nd(begins[:, tf.newaxis], tf.ones_like(begins), tf.shape(tokens)))  # [T]
    places = (tf.range(tf.size(tokens)) + before)[:, tf.newaxis]
    separators = tf.fill([tf.size(tokens) + tf.size(begins)], separator)
    return Documents(
        tf.tensor_scatter_nd_update(separators, places, tokens),
        tf.tensor_scatter_nd_add(documents.sentence_lengths, first[:, tf.newaxis], tf.ones_like(first)),
        sentences,
    )


def _divided(documents: Documents, after: tf.Tensor) -> Documents:
    """Documents whose sentences also end after some tokens, bool [T]."""
    borders = documents.borders  # [N + 1], in tokens
    ends = tf.tensor_scatter_nd_update(
        after, borders[1:, tf.newaxis] - 1, tf.ones_like(documents.sentence_lengths, tf.bool)
    )
    ends = tf.cast(tf.where(ends)[:, 0], tf.int32) + 1
    document_borders = tf.gather(borders, tf.concat([[0], tf.cumsum(documents.sentences)], axis=0))  # [D + 1]
    counts = tf.searchsorted(ends, document_borders, side="right")
    lengths = ends - tf.concat([[0], ends], axis=0)[:-1]
    return Documents(documents.tokens, lengths, counts[1:] - counts[:-1])


def _packed(documents: Documents, separator: int, max_tokens: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Sentences that fit from each one on: where these begin, in tokens, and the sentence after them, [N].

    Last comes the first sentence of each input, int32 [C]. A separator at an input's begin is left out.
    """
    ends = tf.cumsum(documents.sentence_lengths)  # [N], in tokens
    begins = ends - documents.sentence_lengths
    begins += tf.cast(tf.gather(documents.tokens, begins) == separator, tf.int32)
    following = tf.minimum(tf.searchsorted(ends, begins + max_tokens, side="right"), documents.document_ends)
    return begins, following, chunk_starts(documents, following)


def packed_sentences(documents: Documents, separator: int, max_tokens: int) -> Segments:
    """As many whole sentences an input as fit, none left out; the labels are 0.

    The documents are `separated`. Each is packed alone (`doc_sentences`), or all are, where they have been
    `joined`, over the ends of documents (`full_sentences`).
    Note: Liu et al. enlarge batches where doc_sentences are short; here their size is fixed.
    """
    begins, following, first = _packed(documents, separator, max_tokens)
    begin, end = tf.gather(begins, first), tf.gather(documents.borders, tf.gather(following, first))
    return Segments((begin,), (end - begin,), tf.zeros_like(first))


def joined(documents: Documents) -> Documents:
    """The documents as one, in which separators are all that tells them apart."""
    return documents._replace(sentences=tf.size(documents.sentence_lengths)[tf.newaxis])


def carried_on(blocks: tf.data.Dataset, separator: int, max_tokens: int) -> tf.data.Dataset:
    """Blocks of `joined` documents, each without its last input, with which the next block begins.

    So none but the last input of all ends before it is full.
    """

    def carry(carried: Documents, element: tuple[Documents, tf.Tensor]) -> tuple[Documents, Documents]:
        block, is_last = element
        tokens = tf.concat([carried.tokens, block.tokens], axis=0)
        lengths = tf.concat([carried.sentence_lengths, block.sentence_lengths], axis=0)
        both = joined(Documents(tokens, lengths, carried.sentences))
        count = tf.size(lengths)
        *_, first = _packed(both, separator, max_tokens)
        kept = tf.where(is_last, count, tf.reduce_max(tf.concat([[0], first], axis=0)))
        border = tf.gather(both.borders, kept)
        rest = Documents(tokens[border:], lengths[kept:], (count - kept)[tf.newaxis])
        return rest, Documents(tokens[:border], lengths[:kept], kept[tf.newaxis])

    empty = tf.zeros([0], tf.int32)
    nothing = Documents(empty, empty, tf.zeros([1], tf.int32))
    ended = tf.data.Dataset.from_tensors((nothing, True))
    return blocks.map(lambda block: (block, False)).concatenate(ended).scan(nothing, carry)


def document_numbers(word_ids: tf.Tensor, segments: tf.Tensor, separator: int) -> tf.Tensor:
    """Segment numbers, int32 [B, S], of rows of one segment in which separators end documents.

    They are 0 where nothing may be masked, 1 in the first document and 3, 4, … in those that follow: 2 is a
    second segment.
    """
    is_border = (segments > 0) & (word_ids == separator)
    before = tf.cumsum(tf.cast(is_border, tf.int32), axis=1)
    return tf.where((segments > 0) & ~is_border, 1 + before + tf.cast(before > 0, tf.int32), 0)
