"""From blocks of documents to packed and masked rows, and from rows to batches."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import tensorflow as tf

from albert_tf.constants import (
    FULL_SENTENCES,
    INPUT_MASK,
    MLM_IDS,
    MLM_POSITIONS,
    MLM_WEIGHTS,
    SEGMENT_PAIR,
    SENTENCE_LABELS,
    SENTENCE_PAIR,
    TYPE_IDS,
    WORD_IDS,
    pretraining_spec,
)
from albert_tf.data.documents import Documents
from albert_tf.data.masking import mask_tokens
from albert_tf.data.roberta_inputs import (
    add_separators,
    concat_ragged,
    document_numbers,
    pack_across_documents,
    pack_sentences,
    sentence_pairs,
    split_long,
    whole_sentence_inputs,
)
from albert_tf.data.segments import Segments, random_next_pairs, segment_pairs, single_segments
from albert_tf.errors import check_range
from albert_tf.recipes import ExampleSettings
from albert_tf.text.packing import mask_and_type_ids, pack_spans, segment_numbers
from albert_tf.text.tokenizer import Vocabulary

# Pairs and single segments, by input format and sentence objective. All take the same arguments.
SEGMENTS: dict[tuple[str, str], Callable[..., Segments]] = {
    (SEGMENT_PAIR, "sop"): segment_pairs,
    (SEGMENT_PAIR, "nsp"): random_next_pairs,
    (SEGMENT_PAIR, "none"): single_segments,
    **{
        (SENTENCE_PAIR, objective): functools.partial(sentence_pairs, objective=objective)
        for objective in ("sop", "nsp", "none")
    },
}


@dataclasses.dataclass(frozen=True)
class ExampleBuilder:
    """Makes examples of documents, and batches of examples."""

    vocabulary: Vocabulary
    settings: ExampleSettings
    batch_size: int

    def __post_init__(self) -> None:
        check_range("batch_size", self.batch_size, at_least=1, below=2**31)

    def blocks(self, documents: tf.data.Dataset) -> tf.data.Dataset:
        """Blocks of documents as `rows` takes them, from such as the corpus has them."""
        if not self.settings.is_packed:
            return documents
        over_ends = self.settings.input_format == FULL_SENTENCES
        tables = self.vocabulary.ends_sentence, self.vocabulary.starts_word

        def prepare(block: Documents) -> Documents:
            found = split_long(block, self._max_tokens, *tables)
            if over_ends:
                return concat_ragged(add_separators(found, self._separator))
            return pack_sentences(found, self._separator, self._max_tokens)

        blocks = documents.map(prepare, tf.data.AUTOTUNE)
        return pack_across_documents(blocks, self._separator, self._max_tokens) if over_ends else blocks

    def rows(self, documents: Documents, seed: tf.Tensor) -> tf.Tensor:
        """All examples of one of the `blocks`, packed and masked.

        They get their masks here and not in their batches, so that these do not depend on the batch size.

        Returns:
          int32 [C, S + 2 P + segments + 1]: masked token ids, masked positions, what stood there, the length
          of each segment, the label. Moving several tensors through the shuffle costs as much as making them.
        """
        settings, frame = self.settings, self.vocabulary.input_format
        pair_seed, mask_seed = tf.unstack(tf.random.split(seed))
        if settings.is_packed:
            segments = whole_sentence_inputs(documents, self._separator)
        else:
            segments = SEGMENTS[settings.input_format, settings.sentence_objective](
                documents,
                tf.constant(self.vocabulary.starts_word),
                self._max_tokens,
                settings.short_seq_prob,
                pair_seed,
            )
        word_ids = pack_spans(documents.tokens, segments.starts, segments.lengths, settings.seq_length, frame)
        numbers = segment_numbers(segments.lengths, settings.seq_length, frame)
        if settings.input_format == FULL_SENTENCES:
            numbers = document_numbers(word_ids, numbers, self._separator)
        masked = mask_tokens(word_ids, numbers, mask_seed, self.vocabulary, settings)
        columns = tf.stack([*segments.lengths, segments.labels], axis=1)
        rows = [masked[WORD_IDS], masked[MLM_POSITIONS], masked[MLM_IDS], columns]
        return tf.ensure_shape(tf.concat(rows, axis=1), [None, sum(self._column_counts)])

    def batch(self, rows: tf.Tensor) -> dict[str, tf.Tensor]:
        """At most batch_size of the rows by name; what is missing are rows of nothing."""
        word_ids, positions, ids, columns = tf.split(rows, self._column_counts, axis=1)
        *lengths, labels = tf.unstack(columns, self.settings.segments + 1, axis=1)
        mask, type_ids = mask_and_type_ids(lengths, self.settings.seq_length, self.vocabulary.input_format)
        features = {
            WORD_IDS: word_ids,
            INPUT_MASK: mask,
            TYPE_IDS: type_ids,
            MLM_POSITIONS: positions,
            MLM_IDS: ids,
            MLM_WEIGHTS: tf.cast(positions > 0, tf.float32),  # at 0 stands [CLS], which is never masked
        }
        if name := SENTENCE_LABELS.get(self.settings.sentence_objective):
            features[name] = labels
        return fill_batch(features, self.batch_size, self.settings)

    @property
    def _max_tokens(self) -> int:
        """Tokens of an example without the special ones around its segments."""
        frame = self.vocabulary.input_format
        return self.settings.seq_length - frame.num_special_tokens(self.settings.segments)

    @property
    def _separator(self) -> int:
        return self.vocabulary.special_ids.separator

    @property
    def _column_counts(self) -> tuple[int, ...]:
        """Columns of a row: token ids, masked positions, what stood there, the rest."""
        predictions = self.settings.predictions
        return self.settings.seq_length, predictions, predictions, self.settings.segments + 1


def fill_batch(
    features: dict[str, tf.Tensor], batch_size: int, settings: ExampleSettings
) -> dict[str, tf.Tensor]:
    """A batch of static shape: what is missing are rows of zero mask and weights, and label -1."""
    spec = pretraining_spec(
        batch_size, settings.seq_length, settings.predictions, settings.sentence_objective
    )
    batch = {}
    for name in spec:
        tensor = features[name]
        missing = [[0, batch_size - tf.shape(tensor)[0]]] + [[0, 0]] * (tensor.shape.rank - 1)
        filler = -1 if name in SENTENCE_LABELS.values() else 0
        batch[name] = tf.ensure_shape(tf.pad(tensor, missing, constant_values=filler), spec[name].shape)
    return batch
