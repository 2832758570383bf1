"""Parts of a corpus, of whole documents or of each one's text."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from albert_tf.data.documents import Documents

BY_HASH, BY_POSITION = "documents", "each document"


class CorpusSplit(NamedTuple):
    """A part of a corpus that does not depend on its order: what lies in a part of the unit interval.

    Two shares that divide the interval divide the corpus.
    """

    of: str  # BY_HASH: of the hashes of whole documents; BY_POSITION: of the tokens' places in each document
    begin: float
    end: float

    @property
    def rest(self) -> CorpusSplit:
        """The rest of the corpus, for a share that begins or ends it."""
        begin, end = (self.end, 1.0) if self.begin == 0 else (0.0, self.begin)
        return self._replace(begin=begin, end=end)

    def at_most(self, size: float) -> CorpusSplit:
        """As much of a share that begins or ends the corpus, no larger than size."""
        if self.begin == 0:
            return self._replace(end=min(self.end, size))
        return self._replace(begin=max(self.begin, 1 - size))


def split_between(documents: Documents, begin: float, end: float) -> Documents:
    """The same documents, of each only what lies between two places.

    Documents are cut where a sentence ends, at the last such place before the one that is meant; in their
    first sentence, where they must. Begin and end are shares of a document's tokens.
    """
    borders = documents.borders  # [N + 1], in tokens
    limits = tf.concat([[0], tf.cumsum(documents.sentences)], axis=0)  # [D + 1], in sentences
    limits = tf.gather(borders, limits)  # [D + 1], in tokens
    starts, sizes = limits[:-1], limits[1:] - limits[:-1]  # [D]

    def cut(share: float) -> tf.Tensor:
        place = starts + tf.cast(tf.floor(share * tf.cast(sizes, tf.float64)), tf.int32)
        border = tf.gather(borders, tf.searchsorted(borders, place, side="right") - 1)
        return tf.where(border > starts, border, place)

    first, last = cut(begin), cut(end)
    document = tf.repeat(tf.range(tf.size(starts)), documents.sentences)  # [N]
    lengths = tf.minimum(borders[1:], tf.gather(last, document)) - tf.maximum(
        borders[:-1], tf.gather(first, document)
    )
    place, document_of = tf.range(tf.size(documents.tokens)), tf.repeat(tf.range(tf.size(starts)), sizes)
    inside = (place >= tf.gather(first, document_of)) & (place < tf.gather(last, document_of))  # [T]
    sentences = tf.math.unsorted_segment_sum(tf.cast(lengths > 0, tf.int32), document, tf.size(starts))
    return Documents(
        tf.boolean_mask(documents.tokens, inside), tf.boolean_mask(lengths, lengths > 0), sentences
    )
