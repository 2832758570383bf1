"""Documents: reading them from text files, tokenising, shuffling and splitting them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.text.lines import split_long_lines, strip_lines, text_lines

# Longer documents are read in parts, so that a file without blank lines needs no more memory than others.
MAX_DOCUMENT_BYTES = 1 << 17
DOCUMENT_SHUFFLE_BUFFER = 1024
_LINES_PER_BATCH = 256
HASH_BUCKETS = 1 << 30  # number of hash buckets
BYTES_HASHED = 4096
_ALL_PIPELINES = -1  # in a seed, in the place of the number of one pipeline
BY_HASH, BY_POSITION = "documents", "each document"  # how to split a corpus


class Documents(NamedTuple):
    """D tokenised documents, one after the other, with N sentences and T tokens."""

    tokens: tf.Tensor  # int32 [T]
    sentence_lengths: tf.Tensor  # int32 [N], tokens; no sentence is empty
    num_sentences: tf.Tensor  # int32 [D], sentences of each document

    @property
    def borders(self) -> tf.Tensor:
        """The beginning of each sentence and the end of the last one, in tokens, int32 [N + 1]."""
        return tf.concat([[0], tf.cumsum(self.sentence_lengths)], axis=0)

    @property
    def document_ends(self) -> tf.Tensor:
        """For each sentence, the number of the first sentence after its document, int32 [N]."""
        return tf.repeat(tf.cumsum(self.num_sentences), self.num_sentences)

    @property
    def has_several_documents(self) -> tf.Tensor:
        """True if more than one document has sentences."""
        return tf.reduce_sum(tf.cast(self.num_sentences > 0, tf.int32)) > 1


def text_documents(file: tf.Tensor | str) -> tf.data.Dataset:
    """Reads the documents of a text file, and the hash bucket of each: string and int64 scalars.

    The lines of a document are its sentences. A line without visible characters ends the document. Lines are
    stripped, and very long lines are split. A document of more than MAX_DOCUMENT_BYTES is read in parts, and
    all have the bucket of the first part.
    """
    end_of_file = tf.data.Dataset.from_tensors(tf.constant([""]))
    sentences = text_lines(file).batch(_LINES_PER_BATCH).map(lambda x: split_long_lines(strip_lines(x)))
    batches = sentences.rebatch(_LINES_PER_BATCH).concatenate(end_of_file)
    nothing = (tf.constant(""), tf.constant(-1, tf.int64))
    return batches.scan(nothing, _complete_documents).unbatch()


def _complete_documents(
    open_document: tuple[tf.Tensor, tf.Tensor], lines: tf.Tensor
) -> tuple[tuple[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    """The documents that these lines complete, with their buckets, string and int64 [documents].

    `open_document`, the state of the scan, is the text of the document that has no end yet, and the bucket of
    its earlier parts, or -1 if it had none.
    """
    open_text, open_bucket = open_document
    blank = lines == ""
    numbers = tf.cumsum(tf.cast(blank, tf.int32))  # [n], which document a line belongs to
    count = numbers[-1] + 1
    text = tf.concat([[open_text], tf.boolean_mask(lines, ~blank)], axis=0)
    numbers = tf.concat([[0], tf.boolean_mask(numbers, ~blank)], axis=0)
    documents = tf.strings.strip(tf.strings.unsorted_segment_join(text, numbers, count, separator="\n"))
    first = tf.where(open_bucket < 0, hash_bucket(documents[0]), open_bucket)
    buckets = tf.concat([[first], hash_bucket(documents[1:])], axis=0)  # [documents]
    too_long = tf.strings.length(documents[-1]) > MAX_DOCUMENT_BYTES
    last_bucket = tf.where(count == 1, open_bucket, -1)
    open_document = (tf.where(too_long, "", documents[-1]), tf.where(too_long, buckets[-1], last_bucket))
    complete = tf.where(too_long, documents, tf.concat([documents[:-1], [""]], axis=0))
    full = complete != ""
    return open_document, (tf.boolean_mask(complete, full), tf.boolean_mask(buckets, full))


def hash_bucket(texts: tf.Tensor) -> tf.Tensor:
    """Hashes each text to a number below 2**30: string → int64 of the same shape.

    Only the first 4 KiB count, so that the beginning of a long document decides for all its parts.
    """
    return tf.strings.to_hash_bucket_fast(tf.strings.substr(texts, 0, BYTES_HASHED), HASH_BUCKETS)


def in_hash_range(buckets: tf.Tensor, bounds: tuple[float, float]) -> tf.Tensor:
    """True for each `hash_bucket`, int64, in a part of the unit interval: begin, included, and end, not."""
    first, last = (round(bound * HASH_BUCKETS) for bound in bounds)
    return (buckets >= first) & (buckets < last)


def tokenize_documents(documents: tf.Tensor, tokenize: Callable[[tf.Tensor], tf.RaggedTensor]) -> Documents:
    """Tokenises documents, string [D], with one sentence per line. Sentences without tokens are dropped."""
    lines = tf.strings.split(documents, "\n")  # [D, (sentences)]
    tokens = tokenize(lines.flat_values)  # [N, (tokens)]
    lengths = tf.cast(tokens.row_lengths(), tf.int32)
    has_tokens = lengths > 0
    sentences = tf.math.unsorted_segment_sum(
        tf.cast(has_tokens, tf.int32), lines.value_rowids(), tf.size(documents, tf.int64)
    )
    return Documents(tokens.flat_values, tf.boolean_mask(lengths, has_tokens), sentences)


def iter_documents(block: Documents) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields each document of a block of arrays: its tokens, int32 [T], and sentence lengths, int32 [N]."""
    sentences = np.cumsum(block.num_sentences)
    borders = np.append(0, np.cumsum(block.sentence_lengths))[sentences]
    tokens = np.split(block.tokens, borders[:-1])
    return zip(tokens, np.split(block.sentence_lengths, sentences[:-1]), strict=True)


def corpus_documents(
    files: Sequence[str],
    read: Callable[[tf.Tensor], tf.data.Dataset],
    context: tf.distribute.InputContext,
    seed: int | None = None,
    epoch: tf.Tensor | int = 0,
) -> tf.data.Dataset:
    """The documents that one input pipeline reads from a corpus in one epoch.

    Args:
      files: paths of the corpus' files.
      read: a function from a path to a dataset of the file's documents.
      context: number and count of the pipelines. Each reads whole files, if that divides the corpus about
        evenly; otherwise each reads all files and takes every n-th document.
      seed: seed of the order, the same in all pipelines: the files are read in random order, four at a time,
        and DOCUMENT_SHUFFLE_BUFFER documents are mixed. None keeps the order of the files.
      epoch: int64 scalar. Each epoch has another order.
    """
    paths = tf.constant(files_for_pipeline(files, context))
    numbers = tf.range(tf.size(paths))

    # An iterator's checkpoint holds the files that are open: by number, since the folder may have moved.
    def read_file(number: tf.Tensor) -> tf.data.Dataset:
        return read(tf.gather(paths, number))

    if seed is None:
        documents = tf.data.Dataset.from_tensor_slices(numbers).flat_map(read_file)
    else:
        order = tf.random.fold_in(tf.constant([seed, _ALL_PIPELINES], tf.int64), epoch)
        numbers = tf.random.experimental.stateless_shuffle(numbers, order)
        documents = tf.data.Dataset.from_tensor_slices(numbers).interleave(
            read_file, cycle_length=4, block_length=16, num_parallel_calls=4, deterministic=True
        )
    if not _are_divided(files, context.num_input_pipelines):
        documents = documents.shard(context.num_input_pipelines, context.input_pipeline_id)
    return documents if seed is None else shuffle_elements(documents, DOCUMENT_SHUFFLE_BUFFER, order)


def files_for_pipeline(files: Sequence[str], context: tf.distribute.InputContext) -> Sequence[str]:
    """The files that one of n pipelines reads: every n-th, or all if some would get much less than others."""
    pipelines = context.num_input_pipelines
    return files[context.input_pipeline_id :: pipelines] if _are_divided(files, pipelines) else files


def _are_divided(files: Sequence[str], pipelines: int) -> bool:
    """Whether each pipeline reads every n-th file, which must leave none with less than half of another's."""
    if pipelines == 1 or len(files) < pipelines:
        return pipelines == 1
    sizes = [tf.io.gfile.stat(file).length for file in files]
    shares = [sum(sizes[number::pipelines]) for number in range(pipelines)]
    return max(shares) <= 2 * min(shares)


def shuffle_elements(dataset: tf.data.Dataset, size: int, seed: tf.Tensor) -> tf.data.Dataset:
    """Shuffles a dataset with a buffer of `size` elements; seed is int64 [2].

    Call it inside a function of tf.data: there it is independent of the seed of the whole program.
    """
    tf.random.set_seed(1)  # of the graph that is being traced, and of no other
    return dataset.shuffle(size, seed=tf.random.stateless_uniform([], seed, 1, 2**31 - 1, tf.int64))


class CorpusSplit(NamedTuple):
    """A part of a corpus: from `begin` to `end` in the unit interval. Part of recipe.json.

    It does not depend on the order of the files. Two splits that divide the interval divide the corpus.
    """

    of: str  # BY_HASH: hashes of whole documents; BY_POSITION: positions of tokens in each document
    begin: float
    end: float
    what: str = ""  # description for people, such as "1% of the documents"

    @property
    def complement(self) -> CorpusSplit:
        """The rest of the corpus. This split must begin at 0 or end at 1."""
        begin, end = (self.end, 1.0) if self.begin == 0 else (0.0, self.begin)
        return CorpusSplit(self.of, begin, end)

    def limit_size(self, size: float) -> CorpusSplit:
        """This split, at most `size` large. It must begin at 0 or end at 1."""
        if self.begin == 0:
            return CorpusSplit(self.of, 0.0, min(self.end, size))
        return CorpusSplit(self.of, max(self.begin, 1 - size), 1.0)


def split_between(documents: Documents, begin: float, end: float) -> Documents:
    """Cuts each document down to its tokens between begin and end, shares of the document's tokens.

    A cut is moved back to the last end of a sentence; a cut inside the first sentence stays in its place.
    """
    borders = documents.borders  # [N + 1], in tokens
    limits = tf.concat([[0], tf.cumsum(documents.num_sentences)], axis=0)  # [D + 1], in sentences
    limits = tf.gather(borders, limits)  # [D + 1], in tokens
    starts, sizes = limits[:-1], limits[1:] - limits[:-1]  # [D]

    def find_cut(share: float) -> tf.Tensor:
        position = starts + tf.cast(tf.floor(share * tf.cast(sizes, tf.float64)), tf.int32)
        border = tf.gather(borders, tf.searchsorted(borders, position, side="right") - 1)
        return tf.where(border > starts, border, position)

    first, last = find_cut(begin), find_cut(end)
    document = tf.repeat(tf.range(tf.size(starts)), documents.num_sentences)  # [N]
    lengths = tf.minimum(borders[1:], tf.gather(last, document)) - tf.maximum(
        borders[:-1], tf.gather(first, document)
    )
    token, token_document = tf.range(tf.size(documents.tokens)), tf.repeat(tf.range(tf.size(starts)), sizes)
    inside = (token >= tf.gather(first, token_document)) & (token < tf.gather(last, token_document))  # [T]
    sentences = tf.math.unsorted_segment_sum(tf.cast(lengths > 0, tf.int32), document, tf.size(starts))
    return Documents(
        tf.boolean_mask(documents.tokens, inside), tf.boolean_mask(lengths, lengths > 0), sentences
    )
