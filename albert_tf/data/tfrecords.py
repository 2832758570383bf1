"""TFRecord files, whose damage is reported with the name of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import tensorflow as tf

from albert_tf.utils.errors import InputError

Ints = Sequence[int] | np.ndarray

_FRAME = 16  # bytes around a record: its length and the checksums of length and content
_REMEDY = "is damaged or cut off and cannot be read to its end: make or copy it again, or leave it out"


def tfrecord_reader(files: Sequence[str]) -> Callable[[tf.Tensor], tf.data.Dataset]:
    """A function from one of these uncompressed files to its records, a dataset of string scalars.

    TensorFlow's error for a damaged file does not say which. So its reading stops at the damage without a
    word, and then the bytes read are compared with the file's size: a difference ends the pipeline with
    InvalidArgumentError, which names the file.
    """
    paths = tf.constant(files)
    sizes = tf.constant([tf.io.gfile.stat(file).length for file in files], tf.int64)

    def read(file: tf.Tensor) -> tf.data.Dataset:
        size = tf.reduce_max(tf.where(paths == file, sizes, 0))

        def count(bytes_read: tf.Tensor, record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            at_end = record == ""
            with tf.control_dependencies(
                [tf.debugging.Assert(~at_end | (bytes_read == size), [file, _REMEDY])]
            ):
                framed = tf.cast(tf.strings.length(record) + _FRAME, tf.int64)
            return bytes_read + framed, record

        end = tf.data.Dataset.from_tensors(tf.constant(""))
        records = tf.data.TFRecordDataset(file).ignore_errors().concatenate(end)
        return records.scan(tf.constant(0, tf.int64), count).filter(lambda record: record != "")

    return read


@contextmanager
def naming_damaged_files() -> Iterator[None]:
    """Raises what the block's pipelines say of a damaged file as a ValueError that names it.

    TensorFlow hands it on inside of other text ("Graph execution error"), as far as from other hosts.
    """
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        if found := re.search(rf"\[([^\n]*)\] \[{re.escape(_REMEDY)}\]", error.message):
            raise InputError(f"{found[1]} {_REMEDY}") from error
        raise


def serialised_example(columns: Mapping[str, Ints]) -> bytes:
    """A tf.train.Example of integers and floats by name, always as the same bytes."""
    example = tf.train.Example()
    for name, column in columns.items():
        array, feature = np.asarray(column), example.features.feature[name]
        values = feature.float_list.value if array.dtype.kind == "f" else feature.int64_list.value
        values.extend(array.tolist())
    return example.SerializeToString(deterministic=True)


def first_example(files: Sequence[str]) -> tf.train.Example:
    """The first record of the first file that has any; an empty example where none has."""
    for file in files:
        try:
            for record in tf.data.TFRecordDataset(file).take(1):
                return tf.train.Example.FromString(record.numpy())
        except Exception as error:  # of protobuf's or TensorFlow's
            raise InputError(f"{file} {_REMEDY} ({type(error).__name__})") from None
    return tf.train.Example()
