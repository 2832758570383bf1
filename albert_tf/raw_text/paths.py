"""The files that paths and globs stand for."""

from __future__ import annotations

import os
from collections.abc import Iterable

import tensorflow as tf

Paths = str | os.PathLike | Iterable[str | os.PathLike]

CONCURRENT_REQUESTS = 16  # to a filesystem that may be far away


def matched_paths(inputs: Paths) -> list[str]:
    """The files and folders that paths and globs, on any filesystem that TensorFlow reads, stand for.

    A name that exists is taken literally, whatever [ or * is in it; any other is a glob. What one glob
    stands for is sorted; there are no repetitions.

    Raises:
      FileNotFoundError: a path does not exist, a glob matches nothing, or the list is empty.
    """
    patterns = [os.fspath(x) for x in ([inputs] if isinstance(inputs, str | os.PathLike) else inputs)]
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


def input_files(inputs: Paths) -> list[str]:
    """The files that `matched_paths` finds; IsADirectoryError if one of them is a folder."""
    files = matched_paths(inputs)
    for file in files:
        if tf.io.gfile.isdir(file):
            raise IsADirectoryError(f"{file} is a folder: name its files, for example by a glob")
    return files
