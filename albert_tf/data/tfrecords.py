"""TFRecord files, whose damage is reported with the name of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from albert_tf.utils.errors import InputError, system_error

Ints = Sequence[int] | np.ndarray

_FRAME = 16  # bytes around a record: its length and the checksums of length and content
_REMEDY = "is damaged or cut off and cannot be read to its end: make or copy it again, or leave it out"

_read: dict[str, None] = {}  # the files that this process has made readers of, the newest last


def tfrecord_reader(files: Sequence[str]) -> Callable[[tf.Tensor], tf.data.Dataset]:
    """A function from one of these uncompressed files to its records, a dataset of string scalars.

    The bytes read are compared with the file's size: a difference, as of a file that is cut off between two
    records, ends the pipeline with InvalidArgumentError, which names the file. For other damage it ends with
    TensorFlow's own error, and `naming_damaged_files` finds the file.
    """
    for file in files:
        _read.pop(file, None)
        _read[file] = None
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
        records = tf.data.TFRecordDataset(file).concatenate(end)
        return records.scan(tf.constant(0, tf.int64), count).filter(lambda record: record != "")

    return read


@contextmanager
def naming_damaged_files() -> Iterator[None]:
    """Makes what the block's pipelines say of a file an error of one line that names it.

    TensorFlow hands it on inside of other text ("Graph execution error"), as far as from other hosts.

    Raises:
      InputError: a file is damaged.
      OSError: a file cannot be read.
    """
    try:
        yield
    except tf.errors.OpError as error:
        found = re.search(rf"\[([^\n]*)\] \[{re.escape(_REMEDY)}\]", error.message)
        damaged = (
            found[1] if found else _damaged_file() if isinstance(error, tf.errors.DataLossError) else None
        )
        if damaged is not None:
            raise InputError(f"{damaged} {_REMEDY}") from error
        if (cause := system_error(error)) is not None:
            raise cause from error
        raise


def _damaged_file() -> str | None:
    """The first damaged one of the files that pipelines read: TensorFlow's error does not say which it is."""
    for file in reversed(_read):
        try:
            tf.data.TFRecordDataset(file).reduce(0, lambda count, _: count + 1)
        except tf.errors.DataLossError:
            return file
        except tf.errors.OpError:
            continue  # it is gone by now, of an earlier run
    return None


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
        except (DecodeError, tf.errors.DataLossError) as error:
            raise InputError(f"{file} {_REMEDY} ({type(error).__name__})") from None
        except tf.errors.OpError as error:
            if (cause := system_error(error)) is not None:
                raise cause from None
            raise
    return tf.train.Example()
