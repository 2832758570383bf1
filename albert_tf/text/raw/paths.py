"""Which files the user means: one rule for all commands and file systems."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import tensorflow as tf

Paths = str | os.PathLike | Iterable[str | os.PathLike]

QUESTIONS_AT_ONCE = 16  # to a file system that may be far away


class FileSystem(NamedTuple):
    """What the rule asks of a file system."""

    exists: Callable[[str], bool]
    is_folder: Callable[[str], bool]
    glob: Callable[[str], Iterable[str]]


TENSORFLOW = FileSystem(tf.io.gfile.exists, tf.io.gfile.isdir, tf.io.gfile.glob)


def matched_paths(
    inputs: Paths, file_system_of: Callable[[str], FileSystem] = lambda path: TENSORFLOW
) -> list[str]:
    """The files and folders that a path, a glob or a list of them stands for.

    What exists under the very name that is given is meant literally, whatever [ or * is in it; else the name
    is a glob.

    Args:
      inputs: paths and globs.
      file_system_of: what reads a path; by default TensorFlow.
    Returns:
      Paths, those of one glob sorted, without repetitions.
    Raises:
      FileNotFoundError: a path does not exist or a glob matches nothing.
    """
    patterns = [os.fspath(x) for x in ([inputs] if isinstance(inputs, str | os.PathLike) else inputs)]
    if not patterns:
        raise FileNotFoundError("no input files: an empty list was given")
    paths: list[str] = []
    for pattern in patterns:
        file_system = file_system_of(pattern)
        found = [pattern] if file_system.exists(pattern) else sorted(file_system.glob(pattern))
        if not found:
            raise FileNotFoundError(
                f"{pattern}: no such file, and nothing matches it as a glob: correct the path"
            )
        # TensorFlow finds ./text.txt where text.* is asked for.
        paths += found if pattern.startswith("./") else [path.removeprefix("./") for path in found]
    return list(dict.fromkeys(paths))


def input_files(
    inputs: Paths, file_system_of: Callable[[str], FileSystem] = lambda path: TENSORFLOW
) -> list[str]:
    """The files that `matched_paths` finds.

    Raises:
      FileNotFoundError: a path does not exist or a glob matches nothing.
      IsADirectoryError: one of them is a folder.
    """
    files = matched_paths(inputs, file_system_of)
    with ThreadPoolExecutor(QUESTIONS_AT_ONCE) as pool:
        are_folders = pool.map(lambda path: file_system_of(path).is_folder(path), files)
        for file, is_folder in zip(files, are_folders, strict=True):
            if is_folder:
                raise IsADirectoryError(f"{file} is a folder: name its files, for example by a glob")
    return files
