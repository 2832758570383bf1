"""Files that appear whole under their name or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path


def write_file(path: Path, content: str) -> None:
    """Writes a text file under a temporary name beside it and renames it; an existing file is replaced.

    Args:
      path: the file; its folder exists.
      content: all of its text.
    """
    temporary = path.with_name(f".{path.name}.writing")
    try:
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
