"""TFRecord files, and pre-training examples in Google's format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from albert_tf.constants import (
    INPUT_MASK,
    MLM_IDS,
    MLM_POSITIONS,
    MLM_WEIGHTS,
    SENTENCE_LABELS,
    TYPE_IDS,
    WORD_IDS,
)
from albert_tf.errors import InputError, system_error
from albert_tf.recipes import ExampleSettings
from albert_tf.text.tokenizer import Vocabulary

Ints = Sequence[int] | np.ndarray

_FRAME_BYTES = 16  # of a record: its length, and the checksums of length and content
_REMEDY = "is damaged or cut off and cannot be read to its end: make or copy it again, or leave it out"
_EMPTIED = "holds no document any more: put its text back and go on with the run"

_files_read: dict[str, None] = {}  # the files of all readers in this process, the newest last


def tfrecord_reader(files: Sequence[str]) -> Callable[[tf.Tensor], tf.data.Dataset]:
    """Returns a function that reads one of these uncompressed files as a dataset of string scalars.

    If a file has another size than its records, for example because it was cut off between two records, the
    pipeline ends with InvalidArgumentError, which names the file. Other damage ends it with TensorFlow's own
    error, and `name_damaged_files` finds the file.
    """
    for file in files:
        _files_read.pop(file, None)
        _files_read[file] = None
    paths = tf.constant(files)
    sizes = tf.constant([tf.io.gfile.stat(file).length for file in files], tf.int64)

    def read(file: tf.Tensor) -> tf.data.Dataset:
        size = tf.reduce_max(tf.where(paths == file, sizes, 0))

        def check_size(bytes_read: tf.Tensor, record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            is_whole = (record != "") | (bytes_read == size)
            with tf.control_dependencies([tf.debugging.Assert(is_whole, [file, _REMEDY])]):
                record_bytes = tf.cast(tf.strings.length(record) + _FRAME_BYTES, tf.int64)
            return bytes_read + record_bytes, record

        end = tf.data.Dataset.from_tensors(tf.constant(""))
        records = tf.data.TFRecordDataset(file).concatenate(end)
        return records.scan(tf.constant(0, tf.int64), check_size).filter(lambda record: record != "")

    return read


def assert_documents_remain(documents: tf.data.Dataset, files: Sequence[str]) -> tf.Operation:
    """Ends the pipeline with an error if its files were emptied meanwhile.

    Without it, the pipeline would wait for a batch for ever.
    """
    first = documents.take(1).reduce(tf.constant(0), lambda count, _: count + 1)
    return tf.debugging.Assert(first > 0, [files[0], _EMPTIED], name="documents_left")


@contextmanager
def name_damaged_files() -> Iterator[None]:
    """Turns the block's pipeline errors about a file into an error of one line that names the file.

    TensorFlow wraps such an error in other text ("Graph execution error"), also if it comes from another
    host.

    Raises:
      InputError: a file is damaged, or was emptied.
      OSError: a file cannot be read.
    """
    try:
        yield
    except tf.errors.OpError as error:
        # `tf.debugging.Assert` writes its data in this form.
        if found := re.search(
            rf"\[([^\n]*)\] \[({re.escape(_REMEDY)}|{re.escape(_EMPTIED)})\]", error.message
        ):
            raise InputError(f"{found[1]} {found[2]}") from error
        if isinstance(error, tf.errors.DataLossError) and (damaged := _damaged_file()) is not None:
            raise InputError(f"{damaged} {_REMEDY}") from error
        if (cause := system_error(error)) is not None:
            raise cause from error
        raise


def _damaged_file() -> str | None:
    """The damaged file that was read last, or None. TensorFlow's error does not name it."""
    for file in reversed(_files_read):
        try:
            tf.data.TFRecordDataset(file).reduce(0, lambda count, _: count + 1)
        except tf.errors.DataLossError:
            return file
        except tf.errors.OpError:
            continue  # a file of an earlier run, which has been deleted
    return None


def serialize_example(columns: Mapping[str, Ints]) -> bytes:
    """Serialises named columns of integers or floats as a tf.train.Example, always as the same bytes."""
    example = tf.train.Example()
    for name, column in columns.items():
        array, feature = np.asarray(column), example.features.feature[name]
        values = feature.float_list.value if array.dtype.kind == "f" else feature.int64_list.value
        values.extend(array.tolist())
    return example.SerializeToString(deterministic=True)


def first_example(files: Sequence[str]) -> tf.train.Example:
    """The first record in the files; an empty example if all files are empty."""
    for file in files:
        try:
            for record in tf.data.TFRecordDataset(file).take(1):
                return tf.train.Example.FromString(record.numpy())
        except (DecodeError, tf.errors.DataLossError) as error:
            raise InputError(f"{file} {_REMEDY} ({type(error).__name__})") from None
        except tf.errors.OpError as error:
            if (cause := system_error(error)) is not None:
                raise cause from None
            raise
    return tf.train.Example()


# Google's names of our features. Its sentence labels have the same name for every sentence objective.
GOOGLE_NAMES = {
    WORD_IDS: "input_ids",
    INPUT_MASK: "input_mask",
    TYPE_IDS: "segment_ids",
    MLM_POSITIONS: "masked_lm_positions",
    MLM_IDS: "masked_lm_ids",
    MLM_WEIGHTS: "masked_lm_weights",
}
GOOGLE_LABELS = "next_sentence_labels"
TOKEN_BOUNDARY = "token_boundary"  # 1 where a word starts and at special tokens


def encode_examples(batch: Mapping[str, np.ndarray], vocabulary: Vocabulary) -> list[bytes]:
    """Serialises the rows of a batch of `pretraining_dataset` as tf.train.Examples, without filler rows.

    The batch has sentence order labels.
    """
    original = np.array(batch[WORD_IDS])
    rows, columns = np.nonzero(batch[MLM_WEIGHTS])
    original[rows, batch[MLM_POSITIONS][rows, columns]] = batch[MLM_IDS][rows, columns]
    special = np.isin(original, vocabulary.input_format.framing_ids)
    boundary = (special | vocabulary.starts_word[original]) & (batch[INPUT_MASK] == 1)
    labels = batch[SENTENCE_LABELS["sop"]]
    columns_by_name = {google: batch[name] for name, google in GOOGLE_NAMES.items()}
    columns_by_name |= {TOKEN_BOUNDARY: boundary.astype(np.int32), GOOGLE_LABELS: labels[:, np.newaxis]}
    real = np.flatnonzero(batch[INPUT_MASK].any(axis=1))
    return [
        serialize_example({name: column[row] for name, column in columns_by_name.items()}) for row in real
    ]


def check_example(
    example: tf.train.Example, file: str, seq_length: int, max_predictions: int | None, vocab_size: int
) -> int:
    """The number of predictions that an example stores, P.

    Raises InputError if its sizes or ids do not match the arguments.
    """
    features = example.features.feature
    if missing := {*GOOGLE_NAMES.values(), GOOGLE_LABELS} - features.keys():
        raise InputError(f"{file}: its records have no {min(missing)}: they are not pre-training examples")
    ids = features[GOOGLE_NAMES[WORD_IDS]].int64_list.value
    largest = max(ids, default=0)
    predictions = len(features[GOOGLE_NAMES[MLM_IDS]].int64_list.value)
    requested = {"seq_length": seq_length, "max_predictions": max_predictions or predictions}
    stored = {"seq_length": len(ids), "max_predictions": predictions}
    if requested != stored or largest >= vocab_size:
        raise InputError(
            f"{file}: its examples have {stored} and ids up to {largest}; asked for are {requested} and a "
            f"vocabulary of {vocab_size} pieces"
        )
    return predictions


def decode_examples(records: tf.Tensor, settings: ExampleSettings) -> dict[str, tf.Tensor]:
    """Parses a batch of stored examples, string [B], and renames the features to our names."""
    sizes = dict.fromkeys((WORD_IDS, INPUT_MASK, TYPE_IDS), settings.seq_length)
    sizes |= dict.fromkeys((MLM_POSITIONS, MLM_IDS, MLM_WEIGHTS), settings.predictions)
    specs = {
        GOOGLE_NAMES[name]: tf.io.FixedLenFeature([size], tf.float32 if name == MLM_WEIGHTS else tf.int64)
        for name, size in sizes.items()
    }
    parsed = tf.io.parse_example(records, specs | {GOOGLE_LABELS: tf.io.FixedLenFeature([], tf.int64)})
    batch = {name: parsed[google] for name, google in GOOGLE_NAMES.items()}
    if settings.sentence_objective != "none":
        batch[SENTENCE_LABELS[settings.sentence_objective]] = parsed[GOOGLE_LABELS]
    return {name: x if x.dtype == tf.float32 else tf.cast(x, tf.int32) for name, x in batch.items()}
