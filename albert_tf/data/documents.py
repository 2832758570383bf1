"""Text files to tokenised documents, many documents at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.text.lines import bounded_lines, strip_lines, text_lines

# Text of a document beyond this is read as a further document, so that a file without blank lines needs no
# more memory than others. In bytes.
MAX_DOCUMENT_BYTES = 1 << 17
DOCUMENTS_SHUFFLED = 1024
_LINES_PER_BATCH = 256
HASHES = 1 << 30  # numbers that a document's hash can be
BYTES_HASHED = 4096
_ALL_PIPELINES = -1  # in a seed, where else the number of a pipeline stands
BY_HASH, BY_POSITION = "documents", "each document"  # what a part of a corpus is of


class Documents(NamedTuple):
    """Tokenised documents, one after the other: T tokens in N sentences in D documents."""

    tokens: tf.Tensor  # int32 [T]
    sentence_lengths: tf.Tensor  # int32 [N], tokens; no sentence is empty
    sentences: tf.Tensor  # int32 [D], sentences of each document

    @property
    def borders(self) -> tf.Tensor:
        """Where each sentence begins and the last one ends, in tokens, int32 [N + 1]."""
        return tf.concat([[0], tf.cumsum(self.sentence_lengths)], axis=0)

    @property
    def document_ends(self) -> tf.Tensor:
        """The sentence after the document of each sentence, int32 [N]."""
        return tf.repeat(tf.cumsum(self.sentences), self.sentences)

    @property
    def are_several(self) -> tf.Tensor:
        """True if more than one document has sentences."""
        return tf.reduce_sum(tf.cast(self.sentences > 0, tf.int32)) > 1


def text_documents(file: tf.Tensor | str) -> tf.data.Dataset:
    """The documents of a text file, a sentence a line, and the hash bucket of each: string, int64 scalars.

    Lines of nothing that can be seen end documents; lines lose the whitespace around them, and over-long ones
    become several. A document of more than MAX_DOCUMENT_BYTES comes in several parts, all with the bucket of
    the first.
    """
    end_of_file = tf.data.Dataset.from_tensors(tf.constant([""]))
    sentences = text_lines(file).batch(_LINES_PER_BATCH).map(lambda x: bounded_lines(strip_lines(x)))
    parts = sentences.rebatch(_LINES_PER_BATCH).concatenate(end_of_file)
    nothing = (tf.constant(""), tf.constant(-1, tf.int64))
    return parts.scan(nothing, _complete_documents).unbatch()


def _complete_documents(
    begun: tuple[tf.Tensor, tf.Tensor], lines: tf.Tensor
) -> tuple[tuple[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    """The documents that these lines complete, with their buckets, string and int64 [documents].

    The carry of the scan is the text of a document that the lines before have begun, and the bucket of the
    part of it that they have already given out, or -1.
    """
    begun_text, begun_bucket = begun
    blank = lines == ""
    numbers = tf.cumsum(tf.cast(blank, tf.int32))  # [n], which document a line belongs to
    count = numbers[-1] + 1
    text = tf.concat([[begun_text], tf.boolean_mask(lines, ~blank)], axis=0)
    numbers = tf.concat([[0], tf.boolean_mask(numbers, ~blank)], axis=0)
    documents = tf.strings.strip(tf.strings.unsorted_segment_join(text, numbers, count, separator="\n"))
    first = tf.where(begun_bucket < 0, hash_bucket(documents[0]), begun_bucket)
    buckets = tf.concat([[first], hash_bucket(documents[1:])], axis=0)  # [documents]
    too_long = tf.strings.length(documents[-1]) > MAX_DOCUMENT_BYTES
    goes_on = tf.where(count == 1, begun_bucket, -1)
    begun = (tf.where(too_long, "", documents[-1]), tf.where(too_long, buckets[-1], goes_on))
    complete = tf.where(too_long, documents, tf.concat([documents[:-1], [""]], axis=0))
    return begun, (tf.boolean_mask(complete, complete != ""), tf.boolean_mask(buckets, complete != ""))


def hash_bucket(texts: tf.Tensor) -> tf.Tensor:
    """A number below 2**30 for each text, from its first 4 KiB: string → int64 of the same shape.

    The beginning, so that all parts of a long document lie in one part of a corpus.
    """
    return tf.strings.to_hash_bucket_fast(tf.strings.substr(texts, 0, BYTES_HASHED), HASHES)


def in_hash_range(buckets: tf.Tensor, share: tuple[float, float]) -> tf.Tensor:
    """True for documents whose `hash_bucket`, int64, lies in a part of the unit interval, begin and end."""
    first, last = (round(edge * HASHES) for edge in share)
    return (buckets >= first) & (buckets < last)


def tokenize_documents(documents: tf.Tensor, tokenize: Callable[[tf.Tensor], tf.RaggedTensor]) -> Documents:
    """Documents, string [D], a sentence a line, as tokens; sentences that no token is left of are dropped."""
    lines = tf.strings.split(documents, "\n")  # [D, (sentences)]
    tokens = tokenize(lines.flat_values)  # [N, (tokens)]
    lengths = tf.cast(tokens.row_lengths(), tf.int32)
    full = lengths > 0
    sentences = tf.math.unsorted_segment_sum(
        tf.cast(full, tf.int32), lines.value_rowids(), tf.size(documents, tf.int64)
    )
    return Documents(tokens.flat_values, tf.boolean_mask(lengths, full), sentences)


def documents_of(block: Documents) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The tokens of each document of a block of arrays, int32 [T], and its sentences' lengths, int32 [N]."""
    sentences = np.cumsum(block.sentences)
    borders = np.append(0, np.cumsum(block.sentence_lengths))[sentences]
    tokens = np.split(block.tokens, borders[:-1])
    return zip(tokens, np.split(block.sentence_lengths, sentences[:-1]), strict=True)


def corpus_documents(
    files: Sequence[str],
    read: Callable[[tf.Tensor], tf.data.Dataset],
    part: tf.distribute.InputContext,
    seed: int | None = None,
    epoch: tf.Tensor | int = 0,
) -> tf.data.Dataset:
    """The documents that one input pipeline reads of a corpus in one epoch.

    Args:
      files: their paths.
      read: the documents of a file.
      part: which pipeline this is. With at least as many files as pipelines each reads whole files, else each
        reads all of them and takes every n-th document.
      seed: of all pipelines, which have to agree on the order: files in random order, four at a time, and
        DOCUMENTS_SHUFFLED documents mixed. None keeps the order of the files.
      epoch: int64 scalar; each has an order of its own.
    """
    paths = tf.constant(files_of_part(files, part))
    if seed is None:
        documents = tf.data.Dataset.from_tensor_slices(paths).flat_map(read)
    else:
        order = tf.random.fold_in(tf.constant([seed, _ALL_PIPELINES], tf.int64), epoch)
        paths = tf.random.experimental.stateless_shuffle(paths, order)
        documents = tf.data.Dataset.from_tensor_slices(paths).interleave(
            read, cycle_length=4, block_length=16, num_parallel_calls=4, deterministic=True
        )
    if len(files) < part.num_input_pipelines:
        documents = documents.shard(part.num_input_pipelines, part.input_pipeline_id)
    return documents if seed is None else shuffle_documents(documents, DOCUMENTS_SHUFFLED, order)


def files_of_part(files: Sequence[str], part: tf.distribute.InputContext) -> Sequence[str]:
    """The files that one of several pipelines reads: every n-th, or all where there are too few."""
    pipelines = part.num_input_pipelines
    return files[part.input_pipeline_id :: pipelines] if len(files) >= pipelines else files


def shuffle_documents(dataset: tf.data.Dataset, size: int, seed: tf.Tensor) -> tf.data.Dataset:
    """A dataset mixed by a buffer of so many elements; seed is int64 [2].

    Call it inside a function of tf.data: there it is independent of the seed of the whole program.
    """
    tf.random.set_seed(1)  # of the graph that is being traced, and of no other
    return dataset.shuffle(size, seed=tf.random.stateless_uniform([], seed, 1, 2**31 - 1, tf.int64))


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
