"""Prepared corpora: folders with tokenised documents in TFRecord shards and a stats.json."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from albert_tf.constants import OUTPUT_FORMATS
from albert_tf.data.documents import Documents
from albert_tf.data.tfrecords import Ints, serialize_example
from albert_tf.errors import (
    InputError,
    check_counts,
    check_entries,
    check_type,
    make_check,
    make_object_check,
    shorten,
)
from albert_tf.filesystem import exists, join, read_json
from albert_tf.text.tokenizer import TextTokenizer
from albert_tf.text.tokenizer_config import TOKENIZER_DEFAULTS

STATS_FILE = "stats.json"
SHARD_BYTES = "bytes"  # size of a shard, in stats.json
TRAIN_SHARDS, EVAL_SHARDS = "train", "eval"  # prefixes of the shards' names

_RECORDS_PER_BATCH = 256
_SHARD_NAME = re.compile(f"({TRAIN_SHARDS}|{EVAL_SHARDS})" r"-\d{5,}-of-\d{5,}\.tfrecord", re.ASCII)
TOKENS_FEATURE, SENTENCE_LENGTHS, BUCKET_FEATURE = "tokens", "sentence_lengths", "hash_bucket"


def shard_name(split: str, number: int, count: int) -> str:
    """The file name of a shard, `train-00000-of-00016.tfrecord`."""
    return f"{split}-{number:05d}-of-{count:05d}.tfrecord"


def _check_shards(name: str, value: Any) -> None:
    """Raises InputError unless the value maps names of shards to their counts."""
    check_type(name, "Mapping", value)
    if unknown := [shard for shard in value if not _SHARD_NAME.fullmatch(shard)]:
        raise InputError(f"{name}: {shorten(unknown[0])} is no name of a shard")
    check_entries(value, dict.fromkeys(value, check_counts), f"{name}.")


# The entries of stats.json that we read. `prepare` compares the settings with its own.
_CHECK_STATS = make_object_check(
    {"vocabulary": make_check("str"), "settings": make_check("Mapping"), "shards": _check_shards},
    {"counts": check_counts, "format": make_check("str", OUTPUT_FORMATS)}
    | dict.fromkeys(TOKENIZER_DEFAULTS, make_check("bool")),
)


def encode_document(tokens: Ints, sentence_lengths: Ints, bucket: int) -> bytes:
    """Serialises a document as a tf.train.Example: its tokens, sentence lengths and `hash_bucket`."""
    return serialize_example(
        {TOKENS_FEATURE: tokens, SENTENCE_LENGTHS: sentence_lengths, BUCKET_FEATURE: [bucket]}
    )


def decode_documents(records: tf.Tensor) -> Documents:
    """Parses the records of documents, string [D]: the inverse of `encode_document`."""
    features = {name: tf.io.RaggedFeature(tf.int64) for name in (TOKENS_FEATURE, SENTENCE_LENGTHS)}
    parsed = tf.io.parse_example(records, features)
    tokens, lengths = parsed[TOKENS_FEATURE], parsed[SENTENCE_LENGTHS]
    parts = (tokens.flat_values, lengths.flat_values, lengths.row_lengths())
    return Documents(*(tf.cast(part, tf.int32) for part in parts))


def documents_with_buckets(records: tf.data.Dataset) -> tf.data.Dataset:
    """Adds to each record of a document its `hash_bucket`: a dataset of string and int64 scalars."""
    bucket = {BUCKET_FEATURE: tf.io.FixedLenFeature([], tf.int64)}
    blocks = records.batch(_RECORDS_PER_BATCH)
    return blocks.map(lambda block: (block, tf.io.parse_example(block, bucket)[BUCKET_FEATURE])).unbatch()


def prepared_files(folder: str, split: str) -> list[str]:
    """Paths of the shards of a split, TRAIN_SHARDS or EVAL_SHARDS; FileNotFoundError if one is missing."""
    names = [name for name in read_stats(folder)["shards"] if name.split("-")[0] == split]
    files = [join(folder, name) for name in names]
    for file in files:
        if not exists(file):
            raise FileNotFoundError(
                f"{file} is missing: the same command of `albert-tf prepare` makes it again"
            )
    return files


def check_prepared(folder: str, files: Iterable[str], tokenizer: TextTokenizer) -> None:
    """Raises InputError if stats.json has another tokenizer, or another size of one of the files.

    Only the size shows that a file was cut off between two records.
    """
    stats = read_stats(folder)
    for name, value in {"vocabulary": tokenizer.vocabulary.fingerprint, **tokenizer.settings}.items():
        if stats.get(name) != value:
            raise InputError(
                f"{folder}/{STATS_FILE}: prepared with {name}={stats.get(name)}, not {value}: use the same, "
                "or prepare the text again"
            )
    for file in files:
        if tf.io.gfile.isdir(file):
            raise IsADirectoryError(f"{file} is a folder: the shard must be a file: copy it again")
        size = tf.io.gfile.stat(file).length
        expected = stats["shards"].get(os.path.basename(file), {}).get(SHARD_BYTES, size)  # noqa: PTH119
        if size != expected:
            raise InputError(
                f"{file} is damaged or cut off: it has {size} bytes, not the {expected} of {STATS_FILE}: "
                "copy it again, or delete it and type the command of `albert-tf prepare` again"
            )


def read_stats(folder: str) -> dict[str, Any]:
    """Reads the stats.json of a prepared corpus; FileNotFoundError if missing, InputError if damaged."""
    path = os.path.join(folder, STATS_FILE)  # noqa: PTH118
    try:
        stats = read_json(path)
        _CHECK_STATS(STATS_FILE, stats)
        return stats
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{folder} has no {STATS_FILE}: it is not a prepared corpus, or `albert-tf prepare` has not "
            "finished: run the same command again"
        ) from None
    except InputError as error:
        raise InputError(
            f"{path} is damaged, or not of `albert-tf prepare` ({error}): copy it again, or delete {folder} "
            "and type the command of `albert-tf prepare` again"
        ) from None
