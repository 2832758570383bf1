"""Pre-training examples from documents: masked segment pairs, and the input formats of RoBERTa."""

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
from albert_tf.data.masking import mask_tokens, running_sums
from albert_tf.data.segments import (
    Segments,
    chunk_starts,
    random_next_pairs,
    sample_other_sentences,
    segment_pairs,
    single_segments,
    swap_halves,
    trim_pair,
)
from albert_tf.errors import check_range
from albert_tf.recipes import ExampleSettings
from albert_tf.text.packing import mask_and_type_ids, pack_spans, segment_numbers
from albert_tf.text.tokenizer import Vocabulary

PARAGRAPH_TOKENS = 32  # a line of more tokens is a paragraph


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

    The objective "sop" swaps half of the pairs of consecutive sentences, "none" swaps none. "nsp" takes half
    of the second sentences from random other documents; the next pair then begins after the first sentence,
    so that little text is lost. The last sentence of a document begins no pair.

    See `segment_pairs` for the arguments; starts_word and short_seq_prob are not used here.
    """
    coin_seed, other_seed, trim_seed = tf.unstack(tf.random.split(seed, 3))
    count = tf.size(documents.sentence_lengths)  # N
    document_ends = documents.document_ends  # [N]
    coin = tf.random.stateless_uniform([count], coin_seed) < 0.5
    changed = coin & ((objective == "sop") | ((objective == "nsp") & documents.has_several_documents))
    next_pair = tf.range(count) + (tf.where(changed, 1, 2) if objective == "nsp" else 2)
    first = chunk_starts(documents, tf.minimum(next_pair, document_ends))
    first = tf.boolean_mask(first, first + 1 < tf.gather(document_ends, first))  # [C]
    changed = tf.gather(changed, first)
    begin, middle, end = (tf.gather(documents.borders, first + i) for i in range(3))
    if objective == "nsp":
        other_begin, other_end = sample_other_sentences(documents, first, tf.ones_like(first), other_seed)
        starts = (begin, tf.where(changed, other_begin, middle))
        lengths = (middle - begin, tf.where(changed, other_end - other_begin, end - middle))
        pairs = Segments(starts, lengths, tf.cast(changed, tf.int32))
    else:
        pairs = swap_halves(begin, middle, end, changed)
    return trim_pair(pairs, max_tokens, trim_seed)


def split_long(
    documents: Documents, max_tokens: int, ends_sentence: tf.Tensor, starts_word: tf.Tensor
) -> Documents:
    """Splits paragraphs into sentences, and sentences into parts of at most max_tokens.

    A line of more than PARAGRAPH_TOKENS is a paragraph. One of its sentences ends where a token that
    `ends_sentence` is followed by a token that `starts_word`; both are bool [V].
    """
    tokens, borders = documents.tokens, documents.borders  # [T], [N + 1]
    after_marks = tf.cast(tf.where(tf.gather(ends_sentence, tokens))[:, 0], tf.int32) + 1  # [M]
    line = tf.searchsorted(borders, after_marks) - 1  # [M]
    next_tokens = tf.gather(tokens, tf.minimum(after_marks, tf.size(tokens) - 1))
    is_paragraph = tf.gather(documents.sentence_lengths, line) > PARAGRAPH_TOKENS
    is_inside = after_marks < tf.gather(borders, line + 1)
    is_end = is_paragraph & is_inside & tf.gather(starts_word, next_tokens)
    ends = tf.sort(tf.concat([borders[1:], tf.boolean_mask(after_marks, is_end)], axis=0))

    begins = tf.concat([[0], ends], axis=0)[:-1]
    parts = -(-(ends - begins) // max_tokens)  # parts of each sentence
    limits = tf.cumsum(parts)
    numbers = tf.range(tf.reduce_sum(parts))
    sentence = tf.searchsorted(limits, numbers, side="right")
    after = tf.gather(begins, sentence) + (numbers + 1 - tf.gather(limits - parts, sentence)) * max_tokens
    ends = tf.minimum(after, tf.gather(ends, sentence))
    sentence_counts = tf.concat([[0], tf.cumsum(documents.num_sentences)], axis=0)  # before each document
    document_borders = tf.gather(borders, sentence_counts)  # [D + 1]
    counts = tf.searchsorted(ends, document_borders, side="right")
    return Documents(tokens, ends - tf.concat([[0], ends], axis=0)[:-1], counts[1:] - counts[:-1])


def add_separators(documents: Documents, separator: int) -> Documents:
    """Puts a separator token before each document, into its first sentence. Empty documents are dropped."""
    sentences = tf.boolean_mask(documents.num_sentences, documents.num_sentences > 0)  # [M]
    first, ends = tf.cumsum(sentences, exclusive=True), tf.cumsum(sentences)
    lengths = tf.gather(documents.borders, ends) - tf.gather(documents.borders, first)
    count = tf.size(sentences)
    # The last row is the separator; `order` puts it before each of the others.
    rows = tf.RaggedTensor.from_row_lengths(
        tf.concat([documents.tokens, [separator]], axis=0), tf.concat([lengths, [1]], axis=0), validate=False
    )
    order = tf.stack([tf.fill([count], count), tf.range(count)], axis=1)  # [M, 2]
    return Documents(
        tf.gather(rows, tf.reshape(order, [-1])).flat_values,
        tf.tensor_scatter_nd_add(documents.sentence_lengths, first[:, tf.newaxis], tf.ones_like(first)),
        sentences,
    )


def _starts_without_separator(documents: Documents, separator: int) -> tf.Tensor:
    """The first token of each sentence after its separator, int32 [N]: no input begins with a separator."""
    begins = documents.borders[:-1]
    return begins + tf.cast(tf.gather(documents.tokens, begins) == separator, tf.int32)


def _input_starts(documents: Documents, separator: int, max_tokens: int) -> tf.Tensor:
    """The first sentence of each input, int32 [C]. An input is as many whole sentences as fit."""
    limits = _starts_without_separator(documents, separator) + max_tokens
    after_input = tf.searchsorted(documents.borders[1:], limits, side="right")
    return chunk_starts(documents, tf.minimum(after_input, documents.document_ends))


def pack_sentences(documents: Documents, separator: int, max_tokens: int) -> Documents:
    """Joins as many whole sentences as fit into each input, within documents (`doc_sentences`).

    The documents come from `split_long`. The result is one document whose sentences are the inputs.
    Note: Liu et al. enlarge batches where doc_sentences are short; here the batch size is fixed.
    """
    first = _input_starts(documents, separator, max_tokens)
    borders = tf.concat([tf.gather(documents.borders, first), [tf.size(documents.tokens)]], axis=0)  # [C + 1]
    return merge_documents(Documents(documents.tokens, borders[1:] - borders[:-1], documents.num_sentences))


def whole_sentence_inputs(documents: Documents, separator: int) -> Segments:
    """The inputs that `pack_sentences` or `pack_across_documents` made. The labels are 0."""
    starts = _starts_without_separator(documents, separator)
    return Segments((starts,), (documents.borders[1:] - starts,), tf.zeros_like(starts))


def merge_documents(documents: Documents) -> Documents:
    """Merges all documents into one. Only their separators still tell them apart."""
    return documents._replace(num_sentences=tf.size(documents.sentence_lengths)[tf.newaxis])


def pack_across_documents(blocks: tf.data.Dataset, separator: int, max_tokens: int) -> tf.data.Dataset:
    """Joins sentences into inputs across the ends of documents (`full_sentences`).

    Each block is one document from `merge_documents`. The sentences of its last input move to the next block,
    so that only the very last input can end before it is full.
    """

    def carry(carried: Documents, element: tuple[Documents, tf.Tensor]) -> tuple[Documents, Documents]:
        block, is_last = element
        tokens = tf.concat([carried.tokens, block.tokens], axis=0)
        lengths = tf.concat([carried.sentence_lengths, block.sentence_lengths], axis=0)
        both = merge_documents(Documents(tokens, lengths, carried.num_sentences))
        first = tf.concat([_input_starts(both, separator, max_tokens), [tf.size(lengths)]], axis=0)  # [C + 1]
        borders = tf.gather(both.borders, first)
        count = tf.where(is_last, tf.size(first) - 1, tf.maximum(tf.size(first) - 2, 0))
        unfinished = Documents(tokens[borders[count] :], lengths[first[count] :], carried.num_sentences)
        input_lengths = (borders[1:] - borders[:-1])[:count]
        inputs = Documents(tokens[: borders[count]], input_lengths, carried.num_sentences)
        return merge_documents(unfinished), merge_documents(inputs)

    empty = tf.zeros([0], tf.int32)
    nothing = Documents(empty, empty, tf.zeros([1], tf.int32))
    end = tf.data.Dataset.from_tensors((nothing, True))
    return blocks.map(lambda block: (block, False)).concatenate(end).scan(nothing, carry)


def document_numbers(word_ids: tf.Tensor, segments: tf.Tensor, separator: int) -> tf.Tensor:
    """Numbers the documents in rows of one segment, with a separator between two documents: int32 [B, S].

    0: nothing may be masked; 1: the first document; 3, 4, …: the following ones. 2 is a second segment.
    """
    is_border = (segments > 0) & (word_ids == separator)
    before = running_sums(tf.cast(is_border, tf.int32))
    return tf.where((segments > 0) & ~is_border, 1 + before + tf.cast(before > 0, tf.int32), 0)


# The function that makes the segments, by input format and sentence objective.
SEGMENT_FUNCTIONS: dict[tuple[str, str], Callable[..., Segments]] = {
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
    """Makes examples from documents, and batches from examples."""

    vocabulary: Vocabulary
    settings: ExampleSettings
    batch_size: int

    def __post_init__(self) -> None:
        check_range("batch_size", self.batch_size, at_least=1, below=2**31)
        least = self.settings.seq_length - self._max_tokens + 2
        remedy = f"{least - 2} special tokens and at least 2 of text"
        check_range("seq_length", self.settings.seq_length, at_least=least, remedy=remedy)

    def blocks(self, documents: tf.data.Dataset) -> tf.data.Dataset:
        """The blocks that `rows` takes, from a dataset of `Documents`.

        For a packed input format, sentences are joined into inputs here.
        """
        if not self.settings.is_packed:
            return documents
        across_documents = self.settings.input_format == FULL_SENTENCES
        tables = self.vocabulary.ends_sentence, self.vocabulary.starts_word

        def pack_block(block: Documents) -> Documents:
            sentences = split_long(block, self._max_tokens, *tables)
            if across_documents:
                return merge_documents(add_separators(sentences, self._separator))
            return pack_sentences(sentences, self._separator, self._max_tokens)

        blocks = documents.map(pack_block, tf.data.AUTOTUNE)
        if across_documents:
            return pack_across_documents(blocks, self._separator, self._max_tokens)
        return blocks

    def rows(self, documents: Documents, seed: tf.Tensor) -> tf.Tensor:
        """All examples of one of the `blocks`, with masks.

        Examples are masked before they are batched, so that the masks do not depend on the batch size.

        Returns:
          int32 [C, S + 2 P + segments + 1]: masked token ids, masked positions, the original ids there, the
          length of each segment, the label. They share one tensor because moving several through the shuffle
          takes as long as making them.
        """
        settings, special_tokens = self.settings, self.vocabulary.input_format
        pair_seed, mask_seed = tf.unstack(tf.random.split(seed))
        if settings.is_packed:
            segments = whole_sentence_inputs(documents, self._separator)
        else:
            segments = SEGMENT_FUNCTIONS[settings.input_format, settings.sentence_objective](
                documents,
                tf.constant(self.vocabulary.starts_word),
                self._max_tokens,
                settings.short_seq_prob,
                pair_seed,
            )
        spans = documents.tokens, segments.starts, segments.lengths
        word_ids = pack_spans(*spans, settings.seq_length, special_tokens)[WORD_IDS]
        segment_of = segment_numbers(segments.lengths, settings.seq_length, special_tokens)
        if settings.input_format == FULL_SENTENCES:
            segment_of = document_numbers(word_ids, segment_of, self._separator)
        masked = mask_tokens(word_ids, segment_of, mask_seed, self.vocabulary, settings)
        columns = tf.stack([*segments.lengths, segments.labels], axis=1)
        rows = tf.concat([*masked, columns], axis=1)
        return tf.ensure_shape(rows, [None, sum(self._column_counts)])

    def batch(self, rows: tf.Tensor) -> dict[str, tf.Tensor]:
        """Splits at most batch_size rows into named tensors, and fills the batch up with empty rows."""
        word_ids, positions, ids, columns = tf.split(rows, self._column_counts, axis=1)
        *lengths, labels = tf.unstack(columns, self.settings.segments + 1, axis=1)
        mask, type_ids = mask_and_type_ids(lengths, self.settings.seq_length, self.vocabulary.input_format)
        features = {
            WORD_IDS: word_ids,
            INPUT_MASK: mask,
            TYPE_IDS: type_ids,
            MLM_POSITIONS: positions,
            MLM_IDS: ids,
            MLM_WEIGHTS: tf.cast(positions > 0, tf.float32),  # position 0 is [CLS], which is never masked
        }
        if name := SENTENCE_LABELS.get(self.settings.sentence_objective):
            features[name] = labels
        return fill_batch(features, self.batch_size, self.settings)

    @property
    def _max_tokens(self) -> int:
        """Tokens of an example without the special tokens around its segments."""
        special_tokens = self.vocabulary.input_format
        return self.settings.seq_length - special_tokens.num_special_tokens(self.settings.segments)

    @property
    def _separator(self) -> int:
        return self.vocabulary.special_ids.separator

    @property
    def _column_counts(self) -> tuple[int, ...]:
        """Columns of a row: token ids, masked positions, original ids there, segment lengths and label."""
        predictions = self.settings.predictions
        return self.settings.seq_length, predictions, predictions, self.settings.segments + 1


def fill_batch(
    features: dict[str, tf.Tensor], batch_size: int, settings: ExampleSettings
) -> dict[str, tf.Tensor]:
    """Fills a batch up to batch_size with rows whose mask and weights are 0 and whose label is -1."""
    spec = pretraining_spec(
        batch_size, settings.seq_length, settings.predictions, settings.sentence_objective
    )
    batch = {}
    for name in spec:
        tensor = features[name]
        paddings = [[0, batch_size - tf.shape(tensor)[0]]] + [[0, 0]] * (tensor.shape.rank - 1)
        filler = -1 if name in SENTENCE_LABELS.values() else 0
        batch[name] = tf.ensure_shape(tf.pad(tensor, paddings, constant_values=filler), spec[name].shape)
    return batch
