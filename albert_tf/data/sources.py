"""Inputs of pre-training: text, prepared documents or stored examples, and how documents are read."""

from __future__ import annotations

import dataclasses
import itertools
import os
import struct
import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.data.documents import (
    BY_POSITION,
    CorpusSplit,
    Documents,
    corpus_documents,
    documents_of,
    files_of_part,
    in_hash_range,
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
    hashed_documents,
    prepared_files,
)
from albert_tf.data.tfrecords import first_example, tfrecord_reader
from albert_tf.errors import InputError
from albert_tf.text.files import Paths, check_text_files, matched_paths
from albert_tf.text.tokenizer import TextTokenizer, open_tokenizer

DOCUMENTS_AT_ONCE = 16


@dataclasses.dataclass(frozen=True)
class DocumentSource:
    """Files of documents, and how they are read."""

    files: Sequence[str]
    read: Callable[[tf.Tensor], tf.data.Dataset]  # a file to its documents, string scalars
    hashed: Callable[[tf.Tensor], tf.data.Dataset]  # a file to its documents and the `hash_bucket` of each
    decode: Callable[[tf.Tensor], Documents]  # documents that were read, string [D]

    def blocks(
        self, part: tf.distribute.InputContext, seed: int | None = None, epoch: tf.Tensor | int = 0
    ) -> tf.data.Dataset:
        """The documents that one pipeline reads in an epoch, some at a time; as of `corpus_documents`."""
        documents = corpus_documents(self.files, self.read, part, seed, epoch)
        return documents.batch(DOCUMENTS_AT_ONCE).map(self.decode, tf.data.AUTOTUNE)

    def part(self, share: CorpusSplit | None) -> DocumentSource:
        """The source of a share of the documents; None: of all."""
        if share is None:
            return self
        begin, end = share.begin, share.end
        if share.of == BY_POSITION:
            return dataclasses.replace(
                self, decode=lambda texts: split_between(self.decode(texts), begin, end)
            )

        def read(file: tf.Tensor) -> tf.data.Dataset:
            inside = self.hashed(file).filter(lambda _, number: in_hash_range(number, (begin, end)))
            return inside.map(lambda document, _: document)

        return dataclasses.replace(self, read=read)


def find_inputs(inputs: Paths, tokenizer: TextTokenizer) -> tuple[str, list[str]]:
    """The content of the inputs, "text", "documents" or "examples", and their files.

    A folder of `prepare` stands for its training shards.

    Raises:
      FileNotFoundError: a path does not exist or a glob matches nothing.
      InputError: several kinds, another vocabulary than the tokenizer's, or a damaged file.
    """
    files = corpus_files(inputs)
    stored = set(filter(is_tfrecord, files))
    found: dict[str, str] = {}  # a file of each kind
    if text := [file for file in files if file not in stored]:
        found["text"] = text[0]
    for folder, group in itertools.groupby(sorted(stored), os.path.dirname):
        there = list(group)
        if tf.io.gfile.exists(os.path.join(folder, STATS_FILE)):  # noqa: PTH118
            check_prepared(folder, there, tokenizer)
        found["documents" if TOKENS_FEATURE in first_example(there).features.feature else "examples"] = there[
            0
        ]
    if len(found) > 1:
        kinds = " and ".join(f"{file} holds {kind}" for kind, file in found.items())
        raise InputError(f"{kinds}: read them one after the other")
    return next(iter(found)), files


def corpus_files(inputs: Paths) -> list[str]:
    """The files of the inputs, each folder of `prepare` replaced by its training shards."""
    files: list[str] = []
    for path in matched_paths(inputs):
        files += prepared_files(path, TRAIN_SHARDS) if tf.io.gfile.isdir(path) else [path]
    return list(dict.fromkeys(files))


def held_out_shards(inputs: Paths) -> list[str]:
    """The shards that `prepare` has held out in the folders among the inputs; without any, an empty list.

    Those that no document has come into, as happens with a small corpus, are left out.
    """
    folders = [path for path in matched_paths(inputs) if tf.io.gfile.isdir(path)]
    files = [file for folder in folders for file in prepared_files(folder, EVAL_SHARDS)]
    return [file for file in files if tf.io.gfile.stat(file).length > 0]


def to_evaluate_on(inputs: Paths) -> list[str]:
    """The files of the inputs, each folder of `prepare` replaced by its held-out shards."""
    found: list[str] = []
    for path in matched_paths(inputs):
        shards = held_out_shards(path) if tf.io.gfile.isdir(path) else [path]
        if not shards:
            raise InputError(
                f"{path} holds no documents to evaluate on: prepare it with --eval_share, or name other text"
            )
        found += shards
    return found


def is_tfrecord(file: str) -> bool:
    """True if a file is named so, or begins with the length of a record that fits into it."""
    name = os.path.basename(file)  # noqa: PTH119
    if ".tfrecord" in name or ".tf_record" in name:
        return True
    with tf.io.gfile.GFile(file, "rb") as opened:
        head = opened.read(8)
    return len(head) == 8 and struct.unpack("<Q", head)[0] + 16 <= tf.io.gfile.stat(file).length


def prepared_source(files: list[str]) -> DocumentSource:
    """The source of a prepared corpus' documents."""
    records = tfrecord_reader(files)
    return DocumentSource(files, records, lambda file: hashed_documents(records(file)), decode_documents)


def document_source(
    kind: str, files: list[str], tokenizer: TextTokenizer, part: tf.distribute.InputContext | None = None
) -> DocumentSource:
    """The source of the documents of text or of prepared files.

    Raises:
      InputError: the files hold finished examples, which do not say what documents they are of, or one that
        this part of the pipelines reads is not text.
    """
    if kind == "examples":
        raise InputError(
            f"{files[0]} holds finished examples, not documents to count or to hold out: name text, "
            "or a folder of `albert-tf prepare`"
        )
    if kind == "documents":
        return prepared_source(files)
    check_text_files(files if part is None else files_of_part(files, part))
    tokenize = tokenizer.for_corpora()
    return DocumentSource(
        files,
        lambda file: text_documents(file).map(lambda text, _: text),
        text_documents,
        lambda texts: tokenize_documents(texts, tokenize),
    )


def open_documents(inputs: Paths, vocabulary: str | os.PathLike, **normalisation: bool) -> DocumentSource:
    """The source of the documents of inputs; arguments and errors are those of `pretraining_dataset`."""
    tokenizer = open_tokenizer(vocabulary, **normalisation)
    kind, files = find_inputs(inputs, tokenizer)
    return document_source(kind, files, tokenizer)


def document_tokens(
    inputs: Paths,
    vocabulary: str | os.PathLike,
    share: CorpusSplit | None = None,
    most: int | None = None,
    **normalisation: bool,
) -> Iterator[np.ndarray]:
    """The tokens of each document of a corpus, in the order of the files; on every host all of them.

    Args:
      inputs: text or prepared documents; arguments and errors are those of `pretraining_dataset`.
      vocabulary: likewise.
      share: likewise.
      most: tokens after which the corpus ends, within a document if need be; None reads all of it.
      **normalisation: `lowercase` and `strip_accents`.
    Returns:
      int32 [T] for each document, or each part of one that is longer than MAX_DOCUMENT_BYTES.
    """
    source = open_documents(inputs, vocabulary, **normalisation).part(share)
    blocks = source.blocks(tf.distribute.InputContext()).prefetch(tf.data.AUTOTUNE)
    left = sys.maxsize if most is None else most
    for block in blocks.as_numpy_iterator():
        for document, _ in documents_of(block):
            yield document[:left]
            left -= len(document)
            if left <= 0:
                return
