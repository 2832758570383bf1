"""Inputs of pre-training: text, prepared documents or stored examples, and reading their documents."""

from __future__ import annotations

import dataclasses
import itertools
import os
import struct
import sys
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.data.documents import (
    BY_POSITION,
    CorpusSplit,
    Documents,
    corpus_documents,
    files_for_pipeline,
    in_hash_range,
    iter_documents,
    split_between,
    text_documents,
    tokenize_documents,
)
from albert_tf.data.prepared import (
    EVAL_SHARDS,
    STATS_FILE,
    TOKENS_FEATURE,
    TRAIN_SHARDS,
    check_prepared,
    decode_documents,
    documents_with_buckets,
    prepared_files,
)
from albert_tf.data.tfrecords import first_example, tfrecord_reader
from albert_tf.errors import InputError
from albert_tf.text.files import GZIP_SUFFIX, Paths, check_text_files, expand_globs
from albert_tf.text.lines import without_autotuning
from albert_tf.text.tokenizer import TextTokenizer, open_tokenizer

DOCUMENTS_PER_BLOCK = 16


@dataclasses.dataclass(frozen=True)
class DocumentSource:
    """Files of documents, and functions that read and decode them."""

    files: Sequence[str]
    read: Callable[[tf.Tensor], tf.data.Dataset]  # a file to its documents, string scalars
    read_with_buckets: Callable[[tf.Tensor], tf.data.Dataset]  # the same, and the `hash_bucket` of each
    decode: Callable[[tf.Tensor], Documents]  # documents that were read, string [D]

    def blocks(
        self, context: tf.distribute.InputContext, seed: int | None = None, epoch: tf.Tensor | int = 0
    ) -> tf.data.Dataset:
        """The documents that one input pipeline reads in an epoch, in blocks of DOCUMENTS_PER_BLOCK.

        See `corpus_documents` for the arguments.
        """
        documents = corpus_documents(self.files, self.read, context, seed, epoch)
        return documents.batch(DOCUMENTS_PER_BLOCK).map(self.decode, tf.data.AUTOTUNE)

    def select(self, share: CorpusSplit | None) -> DocumentSource:
        """The source of a share of the documents, or of all for None."""
        if share is None:
            return self
        begin, end = share.begin, share.end
        if share.of == BY_POSITION:
            return dataclasses.replace(
                self, decode=lambda texts: split_between(self.decode(texts), begin, end)
            )

        def read(file: tf.Tensor) -> tf.data.Dataset:
            documents = self.read_with_buckets(file)
            inside = documents.filter(lambda _, bucket: in_hash_range(bucket, (begin, end)))
            return inside.map(lambda document, _: document)

        return dataclasses.replace(self, read=read)


def is_prepared(file: str) -> bool:
    """Whether a file is a shard that `prepare` wrote."""
    return tf.io.gfile.exists(os.path.join(os.path.dirname(file), STATS_FILE))  # noqa: PTH118, PTH120


def find_inputs(inputs: Paths, tokenizer: TextTokenizer) -> tuple[str, list[str]]:
    """Finds the kind of the inputs, "text", "documents" or "examples", and their files.

    A folder of `prepare` is replaced by its training shards.

    Raises:
      FileNotFoundError: a path does not exist or a glob matches nothing.
      InputError: several kinds, another vocabulary than the tokenizer's, or a damaged file.
    """
    files = corpus_files(inputs)
    tfrecords = set(filter(is_tfrecord, files))
    file_of_kind: dict[str, str] = {}
    if text := [file for file in files if file not in tfrecords]:
        file_of_kind["text"] = text[0]
    for folder, group in itertools.groupby(sorted(tfrecords), os.path.dirname):
        shards = list(group)
        if is_prepared(shards[0]):
            check_prepared(folder, shards, tokenizer)
        has_documents = TOKENS_FEATURE in first_example(shards).features.feature
        if has_documents and not is_prepared(shards[0]):
            problem = (
                f"{shards[0]}: beside it is no {STATS_FILE}, which tells by which vocabulary it was made"
            )
            raise InputError(f"{problem}: copy it there")
        file_of_kind["documents" if has_documents else "examples"] = shards[0]
    if len(file_of_kind) > 1:
        kinds = " and ".join(f"{file} holds {kind}" for kind, file in file_of_kind.items())
        raise InputError(f"{kinds}: read them one after the other")
    return next(iter(file_of_kind)), files


def check_makes_examples(inputs: Paths, tokenizer: TextTokenizer, settings: Collection[str]) -> None:
    """Raises InputError if there are names of settings of examples, and the inputs are finished examples."""
    if settings and find_inputs(inputs, tokenizer)[0] == "examples":
        names = ", ".join(f"`{name}`" for name in sorted(settings))
        raise InputError(f"{names}: finished examples keep their pairs and masks: leave it out")


def corpus_files(inputs: Paths) -> list[str]:
    """The files of the inputs, each folder of `prepare` replaced by its training shards."""
    files: list[str] = []
    for path in expand_globs(inputs):
        files += prepared_files(path, TRAIN_SHARDS) if tf.io.gfile.isdir(path) else [path]
    return list(dict.fromkeys(files))


def held_out_shards(inputs: Paths) -> list[str]:
    """The held-out shards of the folders of `prepare` among the inputs; an empty list if there are none.

    Empty shards, which a small corpus can have, are left out.
    """
    folders = [path for path in expand_globs(inputs) if tf.io.gfile.isdir(path)]
    files = [file for folder in folders for file in prepared_files(folder, EVAL_SHARDS)]
    return [file for file in files if tf.io.gfile.stat(file).length > 0]


def evaluation_files(inputs: Paths) -> list[str]:
    """The files of the inputs, each folder of `prepare` replaced by its held-out shards."""
    files: list[str] = []
    for path in expand_globs(inputs):
        shards = held_out_shards(path) if tf.io.gfile.isdir(path) else [path]
        if not shards:
            raise InputError(
                f"{path} holds no documents to evaluate on: prepare it with `eval_share`, or name other text"
            )
        files += shards
    return files


def is_tfrecord(file: str) -> bool:
    """True if the name has `.tfrecord` or `.tf_record`, or the file begins as TFRecords do.

    Its first 8 bytes are then the length of a record that fits into the file. Text may be compressed.
    """
    name = os.path.basename(file)  # noqa: PTH119
    if ".tfrecord" in name or ".tf_record" in name:
        return True
    if name.endswith(GZIP_SUFFIX):  # whose header may be a small number, too
        return False
    with tf.io.gfile.GFile(file, "rb") as stream:
        head = stream.read(8)
    return len(head) == 8 and struct.unpack("<Q", head)[0] + 16 <= tf.io.gfile.stat(file).length


def prepared_source(files: list[str]) -> DocumentSource:
    """The source of the documents of a prepared corpus."""
    read = tfrecord_reader(files)
    return DocumentSource(files, read, lambda file: documents_with_buckets(read(file)), decode_documents)


def document_source(
    kind: str, files: list[str], tokenizer: TextTokenizer, context: tf.distribute.InputContext | None = None
) -> DocumentSource:
    """The source of the documents of text or prepared files. See `find_inputs` for `kind` and `files`.

    Raises:
      InputError: the files hold examples, whose documents are unknown, or a file that this input pipeline
        reads is not text.
    """
    if kind == "examples":
        raise InputError(
            f"{files[0]} holds finished examples, not documents to count or to hold out: name text or a "
            "folder of `albert-tf prepare`; to pre-train, other examples by `eval`"
        )
    if kind == "documents":
        return prepared_source(files)
    check_text_files(files if context is None else files_for_pipeline(files, context))
    tokenize = tokenizer.fast_tokenizer()
    return DocumentSource(
        files,
        lambda file: text_documents(file).map(lambda text, _: text),
        text_documents,
        lambda texts: tokenize_documents(texts, tokenize),
    )


def open_documents(inputs: Paths, vocabulary: str | os.PathLike, **normalisation: bool) -> DocumentSource:
    """The source of the inputs' documents. See `pretraining_dataset` for the arguments and errors."""
    tokenizer = open_tokenizer(vocabulary, **normalisation)
    kind, files = find_inputs(inputs, tokenizer)
    return document_source(kind, files, tokenizer)


def document_tokens(source: DocumentSource, most: int = sys.maxsize) -> Iterator[np.ndarray]:
    """Yields the tokens of each document of a corpus, in the order of the files. Every host reads all files.

    Args:
      source: the documents.
      most: number of tokens to read; the last document may be cut.
    Returns:
      int32 [T] for each document, or for each part of one that is longer than MAX_DOCUMENT_BYTES.
    """
    blocks = without_autotuning(source.blocks(tf.distribute.InputContext()).prefetch(tf.data.AUTOTUNE))
    for block in blocks.as_numpy_iterator():
        for document, _ in iter_documents(block):
            yield document[:most]
            most -= len(document)
            if most <= 0:
                return
