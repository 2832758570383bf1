"""Inputs of pre-training: text, prepared documents or stored examples, and how documents are read."""

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
    document_hashes,
    prepared_files,
    stats_path,
)
from albert_tf.data.shares import BY_POSITION, Share, between
from albert_tf.data.tfrecords import first_example, tfrecord_reader
from albert_tf.raw_text.paths import Paths, matched_paths
from albert_tf.tokenizers.kinds import TextTokenizer
from albert_tf.utils.errors import InputError

_RECORDS_PER_BATCH = 256


class Inputs(NamedTuple):
    """Files of one kind."""

    files: list[str]
    kind: str  # "text", "documents" or "examples"


class DocumentSource(NamedTuple):
    """Functions that read documents: a file to string scalars, a block of those to Documents."""

    read: Callable[[tf.Tensor], tf.data.Dataset]
    decode: Callable[[tf.Tensor], Documents]


def find_inputs(inputs: Paths, tokenizer: TextTokenizer) -> Inputs:
    """The files of the inputs, and what is in them.

    Args:
      inputs: files, globs and folders of `prepare`, of one kind. A folder stands for its training shards.
      tokenizer: that prepared files must have been made with.
    Raises:
      FileNotFoundError: a path does not exist or a glob matches nothing.
      ValueError: several kinds, another vocabulary, or a damaged file.
    """
    files = corpus_files(inputs)
    found: dict[str, str] = {}  # a file of each kind
    folders: dict[str, list[str]] = {}
    for file in files:
        if is_tfrecord(file):
            folders.setdefault(os.path.dirname(file), []).append(file)  # noqa: PTH120
        else:
            found["text"] = file
    for folder, there in folders.items():
        if tf.io.gfile.exists(stats_path(folder)):
            check_tokenizer(folder, tokenizer)
            check_sizes(folder, there)
        found["documents" if TOKENS in first_example(there).features.feature else "examples"] = there[0]
    if len(found) > 1:
        kinds = " and ".join(f"{file} holds {kind}" for kind, file in found.items())
        raise InputError(f"{kinds}: read them one after the other")
    return Inputs(files, *found)


def corpus_files(inputs: Paths) -> list[str]:
    """The files of the inputs, each folder of `prepare` replaced by its training shards."""
    files: list[str] = []
    for path in matched_paths(inputs):
        files += prepared_files(path, TRAIN) if tf.io.gfile.isdir(path) else [path]
    return list(dict.fromkeys(files))


def corpus_bytes(files: Iterable[str]) -> int:
    """The bytes of files, as they are stored."""
    return sum(tf.io.gfile.stat(file).length for file in files)


def check_divisible(inputs: Inputs) -> None:
    """InputError where inputs are finished examples, which do not say what documents they are of."""
    if inputs.kind == "examples":
        raise InputError(
            f"{inputs.files[0]} holds finished examples, not documents to count or to hold out: name text, "
            "or a folder of `albert-tf prepare`"
        )


def held_out_shards(inputs: Paths) -> list[str]:
    """The shards that `prepare` has held out in the folders among the inputs; without any, an empty list.

    Those that no document has come into, as happens with a small corpus, are left out.
    """
    folders = [path for path in matched_paths(inputs) if tf.io.gfile.isdir(path)]
    files = [file for folder in folders for file in prepared_files(folder, EVAL)]
    return [file for file in files if tf.io.gfile.stat(file).length > 0]


def to_evaluate_on(inputs: Paths) -> list[str]:
    """The files of the inputs, each folder of `prepare` replaced by the shards that it holds out.

    Raises:
      FileNotFoundError: a folder is not from `prepare`.
      ValueError: nothing is held out in a folder.
    """
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
    return DocumentSource(tfrecord_reader(files), decode_documents)


def document_source(inputs: Inputs, tokenizer: TextTokenizer, share: Share | None) -> DocumentSource:
    """The source of the documents of text or of prepared files, or of a share of them."""
    if inputs.kind == "documents":
        whole = prepared_source(inputs.files)
    else:
        tokenize = tokenizer.for_corpora()
        whole = DocumentSource(
            lambda file: text_documents(file).map(lambda text, _: text),
            lambda texts: tokenized(texts, tokenize),
        )
    if share is None:
        return whole
    if share.of == BY_POSITION:
        return whole._replace(decode=lambda texts: between(whole.decode(texts), share.begin, share.end))
    hashed = hashed_documents(inputs)

    def read(file: tf.Tensor) -> tf.data.Dataset:
        inside = hashed(file).filter(lambda _, number: in_hash_range(number, (share.begin, share.end)))
        return inside.map(lambda document, _: document)

    return whole._replace(read=read)


def hashed_documents(inputs: Inputs) -> Callable[[tf.Tensor], tf.data.Dataset]:
    """A function from a file of text or prepared documents to these, and the `hash_bucket` of each."""
    if inputs.kind == "text":
        return text_documents
    records = tfrecord_reader(inputs.files)

    def read(file: tf.Tensor) -> tf.data.Dataset:
        blocks = records(file).batch(_RECORDS_PER_BATCH)
        return blocks.map(lambda records: (records, document_hashes(records))).unbatch()

    return read
