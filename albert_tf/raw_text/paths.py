"""The files that paths and globs stand for."""

from __future__ import annotations

import os
from collections.abc import Iterable

import tensorflow as tf

from albert_tf.utils.errors import InputError

Paths = str | os.PathLike | Iterable[str | os.PathLike]

CONCURRENT_REQUESTS = 16  # to a filesystem that may be far away


def path_list(inputs: Paths) -> list[str]:
    """Paths and globs, one or several, as they were given."""
    return [os.fspath(x) for x in ([inputs] if isinstance(inputs, str | os.PathLike) else inputs)]


def matched_paths(inputs: Paths) -> list[str]:
    """The files and folders that paths and globs, on any filesystem that TensorFlow reads, stand for.

    A name that exists is taken literally, whatever [ or * is in it; any other is a glob. What one glob
    stands for is sorted; there are no repetitions.

    Raises:
      FileNotFoundError: a path does not exist, a glob matches nothing, or the list is empty.
    """
    patterns = path_list(inputs)
    if not patterns:
        raise FileNotFoundError("no input files: an empty list was given")
    paths: list[str] = []
    for pattern in patterns:
        found = [pattern] if tf.io.gfile.exists(pattern) else sorted(tf.io.gfile.glob(pattern))
        if not found:
            raise FileNotFoundError(f"{pattern}: no such file or glob: correct the path")
        # TensorFlow finds ./text.txt where text.* is asked for.
        paths += found if pattern.startswith("./") else [path.removeprefix("./") for path in found]
    return list(dict.fromkeys(paths))


def distinct_paths(inputs: Paths) -> list[str]:
    """The paths that `matched_paths` finds; an InputError names one that is given twice."""
    paths = [path for one in path_list(inputs) for path in matched_paths(one)] or matched_paths(inputs)
    names = [os.path.normpath(path) for path in paths]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InputError(f"{name} is given twice: name it once")
    return paths


def input_files(inputs: Paths) -> list[str]:
    """The files that `matched_paths` finds; IsADirectoryError if one of them is a folder."""
    files = matched_paths(inputs)
    for file in files:
        if tf.io.gfile.isdir(file):
            raise IsADirectoryError(f"{file} is a folder: name its files, for example by a glob")
    return files
