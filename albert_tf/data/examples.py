"""From blocks of documents to packed rows, and from rows to masked batches."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import tensorflow as tf

from albert_tf.data.documents import Documents
from albert_tf.data.masking import mask_tokens, ngram_length_probabilities
from albert_tf.data.segments import segment_pairs, single_segments
from albert_tf.features import MASK, SENTENCE_LABELS, TYPE_IDS, check_sentence_objective, pretraining_spec
from albert_tf.text.packing import mask_and_type_ids, pack_spans, segment_numbers
from albert_tf.text.vocabulary import Vocabulary


class Rows(NamedTuple):
    """Packed examples that have no masks yet."""

    word_ids: tf.Tensor  # int32 [C, S]
    lengths: tuple[tf.Tensor, ...]  # int32 [C] for each segment, tokens
    labels: tf.Tensor  # int32 [C], 0 without a sentence objective


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleMaker:
    """How examples are made; the arguments are those of `pretraining_dataset`.

    Raises:
      ValueError: a value is impossible; the message names it.
    """

    vocabulary: Vocabulary
    batch_size: int
    seq_length: int
    max_predictions: int
    sentence_objective: str
    short_seq_prob: float
    masked_lm_prob: float
    max_ngram: int
    whole_word: bool

    def __post_init__(self) -> None:
        check_sentence_objective(self.sentence_objective)
        if self.sentence_objective == "nsp":
            raise ValueError(
                'sentence_objective="nsp" cannot be made from documents yet: use "sop" or "none"'
            )
        specials = 2 if self.sentence_objective == "none" else 3
        if self.seq_length < specials + 2:
            raise ValueError(
                f"seq_length={self.seq_length} is too short: {specials} special tokens and at least 2 of text"
            )
        for name in ("batch_size", "max_predictions"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if not 0 <= self.short_seq_prob <= 1:
            raise ValueError(f"short_seq_prob={self.short_seq_prob} must be between 0 and 1")
        if not 0 < self.masked_lm_prob < 1:
            raise ValueError(f"masked_lm_prob={self.masked_lm_prob} must be above 0 and below 1")
        ngram_length_probabilities(self.max_ngram)

    def rows(self, documents: Documents, seed: tf.Tensor) -> Rows:
        """All examples of a block of documents; seed is int [2]."""
        if self.sentence_objective == "none":
            segments = single_segments(documents, self.seq_length, self.short_seq_prob, seed)
        else:
            starts_word = tf.constant(self.vocabulary.starts_word)
            segments = segment_pairs(documents, starts_word, self.seq_length, self.short_seq_prob, seed)
        word_ids = pack_spans(documents.tokens, segments.starts, segments.lengths, self.seq_length)
        word_ids = tf.ensure_shape(word_ids, [None, self.seq_length])
        return Rows(word_ids, segments.lengths, segments.labels)

    def batch(self, rows: Rows, seed: tf.Tensor) -> dict[str, tf.Tensor]:
        """Rows with masks, by name; what is missing of batch_size are rows of nothing; seed is int [2]."""
        missing = self.batch_size - tf.size(rows.labels)
        word_ids, *lengths = (_filled(tensor, missing) for tensor in (rows.word_ids, *rows.lengths))
        mask, type_ids = mask_and_type_ids(lengths, self.seq_length)
        real = tf.cast(tf.range(self.batch_size) < self.batch_size - missing, tf.int32)[:, tf.newaxis]
        features = mask_tokens(
            word_ids,
            segment_numbers(lengths, self.seq_length),
            seed,
            starts_word=tf.constant(self.vocabulary.starts_word),
            ordinary_ids=tf.constant(self.vocabulary.ordinary_ids),
            max_predictions=self.max_predictions,
            masked_lm_prob=self.masked_lm_prob,
            max_ngram=self.max_ngram,
            whole_word=self.whole_word,
        )
        features |= {MASK: mask * real, TYPE_IDS: type_ids * real}
        if labels := SENTENCE_LABELS.get(self.sentence_objective):
            features[labels] = _filled(rows.labels, missing, -1)
        spec = pretraining_spec(
            self.batch_size, self.seq_length, self.max_predictions, self.sentence_objective
        )
        return {name: tf.ensure_shape(features[name], spec[name].shape) for name in spec}


def _filled(tensor: tf.Tensor, missing: tf.Tensor, value: int = 0) -> tf.Tensor:
    """A tensor with so many more rows of one value at its end."""
    return tf.pad(tensor, [[0, missing]] + [[0, 0]] * (tensor.shape.rank - 1), constant_values=value)
