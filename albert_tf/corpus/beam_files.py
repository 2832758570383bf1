"""The input files of `prepare`: where TensorFlow has no file system for a path, Beam may have one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import IO, cast

import tensorflow as tf
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from albert_tf.errors import InputError
from albert_tf.text.raw.paths import QUESTIONS_AT_ONCE, TENSORFLOW, FileSystem, Paths, input_files


def sized_files(inputs: Paths) -> list[tuple[str, int]]:
    """Path and size in bytes of the files that paths and globs stand for, found as in all commands.

    Raises:
      FileNotFoundError: a path does not exist or a glob matches nothing.
      IsADirectoryError: a path is a folder.
      ValueError: neither TensorFlow nor Beam knows the file system of a path.
    """
    files = input_files(inputs, _file_system_of)
    with ThreadPoolExecutor(QUESTIONS_AT_ONCE) as pool:
        return list(zip(files, pool.map(_size, files), strict=True))


def open_file(path: str) -> IO[bytes]:
    """A file's bytes as they are stored, from the beginning; the caller closes it."""
    if _tensorflow_reads(path):
        return cast(IO[bytes], tf.io.gfile.GFile(path, "rb"))
    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)


def _tensorflow_reads(path: str) -> bool:
    scheme = path.partition("://")[0] if "://" in path else ""
    return scheme in tf.io.gfile.get_registered_schemes()


def _file_system_of(path: str) -> FileSystem:
    if _tensorflow_reads(path):
        return TENSORFLOW
    try:
        FileSystems.get_filesystem(path)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    return FileSystem(FileSystems.exists, _is_folder, _glob)


def _size(path: str) -> int:
    if _tensorflow_reads(path):
        return tf.io.gfile.stat(path).length
    return FileSystems.get_filesystem(path).metadata(path).size_in_bytes


def _is_folder(path: str) -> bool:
    """Whether anything lies in it: Beam has no other question for that."""
    (match,) = FileSystems.match([FileSystems.join(path, "*")], limits=[1])
    return bool(match.metadata_list)


def _glob(pattern: str) -> list[str]:
    (match,) = FileSystems.match([pattern])
    return [file.path for file in match.metadata_list]
