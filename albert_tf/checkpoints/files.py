"""Files that appear whole under their name or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf


@contextlib.contextmanager
def writing(path: Path, temporary: Path) -> Iterator[None]:
    """Has errors of the system name what is written: errno and filename say which disk is full.

    Python names no file in what `write` raises; TensorFlow's errors are none of the system's, though their
    text ends as those do.

    Args:
      path: the name that the user knows.
      temporary: what is written meanwhile, a file or a folder.
    """
    try:
        yield
    except OSError as error:
        names = [Path(os.fsdecode(name)) for name in (error.filename, error.filename2) if name is not None]
        if error.errno is None or not (names == [] or any(name.is_relative_to(temporary) for name in names)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    except tf.errors.OpError as error:
        numbers = (number for number in errno.errorcode if f"; {os.strerror(number)}" in error.message)
        number = next(numbers, None)
        if number is None or str(temporary) not in error.message:
            raise
        raise OSError(number, os.strerror(number), str(path)) from error


def write_file(path: Path, content: str) -> None:
    """Writes a text file under a temporary name beside it and renames it; an existing file is replaced.

    Args:
      path: the file; its folder exists.
      content: all of its text.
    """
    temporary = path.with_name(f".{path.name}.writing")
    try:
        with writing(path, temporary):
            temporary.write_text(content, encoding="utf-8")
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Returns once the disk has a file's content, or a folder's names, as a power cut leaves them."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """A temporary folder whose content appears at `path` when the block ends, and vanishes when it raises.

    A folder that is there already stays, since it may be a mount or a link; the temporary one is then in it.

    Args:
      path: the folder to be; it does not exist yet, or is empty.
    Yields:
      The folder to write into.
    Raises:
      FileExistsError: there is something at `path`.
      OSError: something cannot be written; it names `path`.
    """
    path = path.absolute()  # "." has no name to derive another from
    unfinished = f".{path.name}.writing-"
    is_there = os.path.lexists(path)
    if is_there and not (
        path.is_dir() and all(entry.name.startswith(unfinished) for entry in path.iterdir())
    ):
        raise FileExistsError(f"{path} exists already: name another place")
    place = path if is_there else path.parent
    place.mkdir(parents=True, exist_ok=True)
    temporary = place / f"{unfinished}{os.getpid()}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        with writing(path, temporary):
            yield temporary
            if is_there:
                for entry in temporary.iterdir():
                    entry.rename(path / entry.name)
            else:
                temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def sole_use(folder: Path) -> Iterator[None]:
    """Keeps other processes that ask for the same folder out while the block runs.

    Args:
      folder: the folder; it exists.
    Raises:
      BlockingIOError: another process is using it.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(
                f"{folder} is in use by another process: wait for its end, or name another place"
            ) from None
        yield
    finally:
        os.close(descriptor)
