"""Text files to tokenised documents, many documents at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

# Text of a document beyond this is read as a further document, so that a file without blank lines needs no
# more memory than others. In bytes.
LONGEST_DOCUMENT = 1 << 17
DOCUMENTS_SHUFFLED = 1024
_LINES_AT_ONCE = 256
_HASH_BUCKETS = 1 << 30


class Documents(NamedTuple):
    """Tokenised documents, one after the other: T tokens in N sentences in D documents."""

    tokens: tf.Tensor  # int32 [T]
    sentence_lengths: tf.Tensor  # int32 [N], tokens; no sentence is empty
    sentences: tf.Tensor  # int32 [D], sentences of each document


def text_documents(file: tf.Tensor | str) -> tf.data.Dataset:
    """The documents of a text file: strings, a sentence a line.

    Blank lines end documents; lines lose the whitespace around them. Compressed files end in `.gz`. A
    document of more than LONGEST_DOCUMENT bytes comes in several parts.

    Args:
      file: its path.
    Returns:
      A dataset of string scalars.
    """
    compressed = tf.strings.regex_full_match(file, r"(?s).*\.gz")
    lines = tf.data.TextLineDataset(file, tf.where(compressed, "GZIP", ""))
    end_of_file = tf.data.Dataset.from_tensors(tf.constant([""]))
    parts = lines.batch(_LINES_AT_ONCE).concatenate(end_of_file)
    return parts.scan(tf.constant(""), _complete_documents).unbatch()


def _complete_documents(begun: tf.Tensor, lines: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The documents that these lines complete.

    Args:
      begun: the document that the lines before have begun, or "".
      lines: string [n].
    Returns:
      The document that is still going on or "", and the complete ones, string [documents].
    """
    lines = tf.strings.strip(lines)
    blank = lines == ""
    numbers = tf.cumsum(tf.cast(blank, tf.int32))  # [n], which document a line belongs to
    count = numbers[-1] + 1
    text = tf.concat([[begun], tf.boolean_mask(lines, ~blank)], axis=0)
    numbers = tf.concat([[0], tf.boolean_mask(numbers, ~blank)], axis=0)
    documents = tf.strings.unsorted_segment_join(text, numbers, count, separator="\n")
    too_long = tf.strings.length(documents[-1]) > LONGEST_DOCUMENT
    begun = tf.where(too_long, "", documents[-1])
    complete = tf.where(too_long, documents, tf.concat([documents[:-1], [""]], axis=0))
    complete = tf.strings.strip(complete)  # begun may have been ""
    return begun, tf.boolean_mask(complete, complete != "")


def in_hash_range(document: tf.Tensor, share: tuple[float, float]) -> tf.Tensor:
    """Whether the hash of a document lies in a part of the unit interval: the same part holds the same text.

    Args:
      document: string scalar.
      share: begin and end of the part, (0.0, 0.01) for a hundredth of all documents.
    Returns:
      bool scalar.
    """
    first, last = (round(edge * _HASH_BUCKETS) for edge in share)
    bucket = tf.strings.to_hash_bucket_fast(document, _HASH_BUCKETS)
    return (bucket >= first) & (bucket < last)


def tokenized(documents: tf.Tensor, tokenize: Callable[[tf.Tensor], tf.RaggedTensor]) -> Documents:
    """Documents as tokens.

    Args:
      documents: string [D], a sentence a line.
      tokenize: string [N] → int32 [N, (tokens)].
    Returns:
      The same documents without the sentences that no token is left of.
    """
    lines = tf.strings.split(documents, "\n")  # [D, (sentences)]
    tokens = tokenize(lines.flat_values)  # [N, (tokens)]
    lengths = tf.cast(tokens.row_lengths(), tf.int32)
    full = lengths > 0
    sentences = tf.math.unsorted_segment_sum(
        tf.cast(full, tf.int32), lines.value_rowids(), tf.size(documents, tf.int64)
    )
    return Documents(tokens.flat_values, tf.boolean_mask(lengths, full), sentences)


def corpus_documents(
    files: Sequence[str],
    part: tf.distribute.InputContext,
    hash_range: tuple[float, float] | None,
    shuffle_seed: tf.Tensor | None,
) -> tf.data.Dataset:
    """The documents of text files that one input pipeline reads in one epoch.

    Args:
      files: their paths.
      part: which pipeline this is. With at least as many files as pipelines each reads whole files, else each
        reads all of them and takes every n-th document.
      hash_range: of `in_hash_range`; None for all documents.
      shuffle_seed: int64 [2]: files in random order, four at a time, and DOCUMENTS_SHUFFLED documents mixed;
        None keeps the order of the text.
    Returns:
      A dataset of string scalars.
    """
    pipelines, index = part.num_input_pipelines, part.input_pipeline_id
    whole_files = len(files) >= pipelines
    paths = tf.constant(files[index::pipelines] if whole_files else files)
    if shuffle_seed is None:
        documents = tf.data.Dataset.from_tensor_slices(paths).flat_map(text_documents)
    else:
        paths = tf.random.experimental.stateless_shuffle(paths, shuffle_seed)
        documents = tf.data.Dataset.from_tensor_slices(paths).interleave(
            text_documents, cycle_length=4, block_length=16, num_parallel_calls=4
        )
    if hash_range is not None:
        documents = documents.filter(lambda document: in_hash_range(document, hash_range))
    if not whole_files:
        documents = documents.shard(pipelines, index)
    if shuffle_seed is not None:
        documents = shuffled(documents, DOCUMENTS_SHUFFLED, shuffle_seed)
    return documents


def shuffled(dataset: tf.data.Dataset, size: int, seed: tf.Tensor) -> tf.data.Dataset:
    """A dataset in a random order, mixed by a buffer of so many elements; seed is int64 [2].

    Call it inside a function of tf.data: there it is independent of the seed of the whole program.
    """
    tf.random.set_seed(1)  # of the graph that is being traced, and of no other
    return dataset.shuffle(size, seed=tf.random.stateless_uniform([], seed, 1, 2**31 - 1, tf.int64))
