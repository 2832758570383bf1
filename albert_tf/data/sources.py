"""What the user's inputs are (text, prepared documents or stored examples) and how documents are read."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple

import tensorflow as tf

from albert_tf.data.documents import Documents, in_hash_range, text_documents, tokenized
from albert_tf.data.prepared import (
    EVAL,
    TOKENS,
    TRAIN,
    check_sizes,
    check_tokenizer,
    decode_documents,
    prepared_files,
    stats_path,
)
from albert_tf.data.tfrecords import first_example, tfrecord_reader
from albert_tf.errors import InputError
from albert_tf.text.fast_tokenizer import FastPieceTokenizer
from albert_tf.text.files import matched_paths
from albert_tf.text.vocabulary import Vocabulary

HashRange = tuple[float, float] | None


class Inputs(NamedTuple):
    """Files of one kind."""

    files: list[str]
    kind: str  # "text", "documents" or "examples"


class DocumentSource(NamedTuple):
    """How documents are read: of a file as string scalars, of a block of those as Documents."""

    read: Callable[[tf.Tensor], tf.data.Dataset]
    decode: Callable[[tf.Tensor], Documents]


def find_inputs(
    inputs: str | os.PathLike | Iterable[str | os.PathLike],
    vocabulary: Vocabulary,
    lowercase: bool,
    strip_accents: bool,
) -> Inputs:
    """The files that the user means, and what is in them.

    Args:
      inputs: files, globs and folders of `prepare`, of one kind. A folder stands for its training shards.
      vocabulary: what prepared files must have been made with.
      lowercase: likewise.
      strip_accents: likewise.
    Raises:
      FileNotFoundError: a path does not exist or a glob matches nothing.
      ValueError: several kinds, another vocabulary, or a damaged file.
    """
    files: list[str] = []
    for path in matched_paths(inputs):
        files += prepared_files(path, TRAIN) if tf.io.gfile.isdir(path) else [path]
    files = list(dict.fromkeys(files))
    kinds = {is_tfrecord(file): file for file in files}
    if len(kinds) > 1:
        raise InputError(
            f"{kinds[True]} is a TFRecord file and {kinds[False]} is not: read them one after the other"
        )
    if False in kinds:
        return Inputs(files, "text")
    found = {}
    for folder in dict.fromkeys(map(os.path.dirname, files)):
        there = [file for file in files if os.path.dirname(file) == folder]  # noqa: PTH120
        if tf.io.gfile.exists(stats_path(folder)):
            check_tokenizer(folder, vocabulary, lowercase, strip_accents)
            check_sizes(folder, there)
        found["documents" if TOKENS in first_example(there).features.feature else "examples"] = there[0]
    if len(found) > 1:
        raise InputError(
            f"{found['documents']} holds documents and {found['examples']} examples: "
            "read them one after the other"
        )
    return Inputs(files, *found)


def held_out_shards(inputs: str | os.PathLike | Iterable[str | os.PathLike]) -> list[str]:
    """The shards that `prepare` has held out in the folders among the inputs; without any, an empty list."""
    return [
        file
        for path in matched_paths(inputs)
        if tf.io.gfile.isdir(path)
        for file in prepared_files(path, EVAL)
    ]


def to_evaluate_on(inputs: str | os.PathLike | Iterable[str | os.PathLike]) -> list[str]:
    """The files of the inputs, each folder of `prepare` replaced by the shards that it holds out.

    Raises:
      FileNotFoundError: a folder is none of `prepare`.
      ValueError: nothing is held out in a folder.
    """
    found: list[str] = []
    for path in matched_paths(inputs):
        shards = held_out_shards(path) or [path]
        if shards == [path] and tf.io.gfile.isdir(path):
            raise InputError(
                f"{path} holds no documents to evaluate on: prepare it with --eval_share, or name other text "
                f"(its training shards would be {os.path.join(path, TRAIN)}-*)"  # noqa: PTH118
            )
        found += shards
    return found


def is_tfrecord(file: str) -> bool:
    """Whether a file is called so, or begins with the length of a record that fits into it."""
    if ".tfrecord" in os.path.basename(file) or ".tf_record" in os.path.basename(file):  # noqa: PTH119
        return True
    with tf.io.gfile.GFile(file, "rb") as opened:
        head = opened.read(8)
    return len(head) == 8 and struct.unpack("<Q", head)[0] + 16 <= tf.io.gfile.stat(file).length


def prepared_source(files: list[str], hash_range: HashRange = None) -> DocumentSource:
    """How the documents in a part of the unit interval are read of a prepared corpus' files."""
    return DocumentSource(tfrecord_reader(files), lambda records: decode_documents(records, hash_range))


def document_source(inputs: Inputs, tokenizer: FastPieceTokenizer, hash_range: HashRange) -> DocumentSource:
    """How the documents in a part of the unit interval are read of text or of prepared files."""
    if inputs.kind == "documents":
        return prepared_source(inputs.files, hash_range)

    def read(file: tf.Tensor) -> tf.data.Dataset:
        documents = text_documents(file)
        if hash_range is not None:
            documents = documents.filter(lambda _, bucket: in_hash_range(bucket, hash_range))
        return documents.map(lambda text, _: text)

    return DocumentSource(read, lambda texts: tokenized(texts, tokenizer))
