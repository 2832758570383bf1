"""Files on any filesystem of tf.io.gfile, such as gs://…: atomic writes, JSON, paths."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError, already_exists_error
from albert_tf.io import (
    PathLike,
    address_of,
    check_new_local_folder,
    check_path,
    json_object,
    json_text,
    new_local_folder,
    path_exists,
    read_local_bytes,
    reraise_with_path,
    sync,
)

_GLOB = re.compile(r"[\[\\]")  # a path with one of these does not match itself as a glob


def gfile_path(path: Any, argument: str) -> str:
    """A path as text. Raises InputError if it is no path, or TensorFlow does not know its filesystem.

    >>> gfile_path(Path("gs://bucket/run"), "output")  # pathlib makes one slash of two
    'gs://bucket/run'
    """
    address = address_of(check_path(path, argument))
    if address is None:
        return os.fspath(path)
    scheme = address.partition("://")[0]
    if scheme not in tf.io.gfile.get_registered_schemes():
        raise InputError(f"{address}: TensorFlow knows no filesystem {scheme}://")
    check_no_glob(address, argument)
    return address


def check_no_glob(path: PathLike, argument: str) -> None:
    """Raises InputError for a path that TensorFlow would read as a glob: it would find no model there."""
    if _GLOB.search(os.fspath(path)):
        raise InputError(
            f"{argument}={os.fspath(path)}: TensorFlow reads no model whose path holds [ or \\: name another"
        )


def literal_path(path: str) -> str:
    """A path without glob characters to the same folder or checkpoint, for TensorFlow's readers of models.

    They search for a path as a glob and then open it literally, so that nothing can be escaped. The result is
    a symbolic link to the folder, which exists as long as the program runs.
    """
    if not (is_local(path) and _GLOB.search(path)):
        return path
    place = Path(path).absolute()
    folder, name = (place, "") if place.is_dir() else (place.parent, place.name)
    check_no_glob(name, "checkpoint")
    link = Path(temporary_folder().name, hashlib.sha256(os.fsencode(folder)).hexdigest())
    with contextlib.suppress(FileExistsError):
        link.symlink_to(folder)
    return str(link / name)


@functools.cache
def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder that exists as long as the program runs."""
    return tempfile.TemporaryDirectory()


def is_local(path: str) -> bool:
    """True if a path is on a filesystem of this machine."""
    return "://" not in path


def join(folder: PathLike, *names: str) -> str:
    """A path in a folder."""
    return "/".join([os.fspath(folder).rstrip("/"), *names])


def exists(path: str) -> bool:
    """True if a file or a folder exists. Raises OSError if that cannot be decided (a loop of links)."""
    if is_local(path):
        return path_exists(path)
    try:
        return tf.io.gfile.exists(path)
    except tf.errors.UnimplementedError:  # an address of TF Hub, for one
        return False


def list_entries(folder: str) -> list[str]:
    """The names in a folder, ascending; empty if it does not exist. Raises OSError as `exists` does."""
    try:
        return sorted(name.rstrip("/") for name in tf.io.gfile.listdir(folder))
    except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError):
        exists(folder)  # raises for a loop of links, whose content is unknown
        return []


def read_bytes(path: str) -> bytes:
    """The content of a file. Raises FileNotFoundError if it does not exist."""
    if is_local(path):
        return read_local_bytes(path)
    if not exists(path):
        raise FileNotFoundError(f"{path} is missing")
    with tf.io.gfile.GFile(path, "rb") as file:
        return file.read()


def read_json(path: str) -> dict[str, Any]:
    """The object in a JSON file. Raises InputError, with the file's name, if it holds no object."""
    return json_object(read_bytes(path), path)


def write_text(path: str, text: str) -> None:
    """Writes a text file in UTF-8, atomically as `write_bytes` does."""
    write_bytes(path, text.encode())


def write_bytes(path: str, content: bytes) -> None:
    """Writes a file. The write is atomic if the filesystem renames in one step."""
    folder, _, name = path.rpartition("/")
    with atomic_files(folder, name) as temporary, tf.io.gfile.GFile(join(temporary, name), "wb") as file:
        file.write(content)


def write_json(path: str, values: Mapping[str, Any]) -> None:
    """Writes an object as JSON, with one key per line."""
    write_text(path, json_text(values))


def open_to_append(path: str) -> Any:
    """Opens a text file to append to it. On gs:// each flush copies the whole file."""
    return Path(path).open("a", encoding="utf-8") if is_local(path) else tf.io.gfile.GFile(path, "a")


def check_new_folder(folder: str) -> None:
    """Raises FileExistsError unless the path is free or an empty folder; OSError if no folder can be made."""
    if is_local(folder):
        check_new_local_folder(Path(folder))
    elif list_entries(folder):
        raise already_exists_error(folder)


@contextlib.contextmanager
def new_folder(folder: str, files: Mapping[str, bytes]) -> Iterator[str]:
    """Writes a folder, which is new or empty. It appears as a whole if the filesystem can rename folders.

    On other filesystems the folder is written in its place, and a killed process leaves it unfinished.

    Args:
      folder: the path.
      files: content of the files that are written first, by name.
    Yields:
      The path of a folder to write further files into.
    """
    with contextlib.ExitStack() as stack:
        if not is_local(folder):
            check_new_folder(folder)
            tf.io.gfile.makedirs(place := folder)
        else:
            place = str(stack.enter_context(new_local_folder(Path(folder))))
        for name, content in files.items():
            with tf.io.gfile.GFile(join(place, name), "wb") as file:
                file.write(content)
        yield place


@contextlib.contextmanager
def atomic_files(folder: str, names: str) -> Iterator[str]:
    """Writes several files together, such as those of a checkpoint.

    Args:
      folder: the folder of the files.
      names: the common beginning of their names.
    Yields:
      A hidden folder to write into. When the block ends, its files are renamed into `folder`, `*.index` last.
    Raises:
      OSError: a file cannot be written. The error names `folder` and `names`.
    """
    temporary = join(folder, f".{names}.writing")
    remove_folder(temporary)
    try:
        with reraise_with_path(Path(join(folder, names)), Path(temporary)):
            tf.io.gfile.makedirs(temporary)
            yield temporary
            files = sorted(list_entries(temporary), key=lambda name: name.endswith(".index"))
            if is_local(folder):
                for name in files:
                    sync(Path(temporary, name))
            for name in files:
                tf.io.gfile.rename(join(temporary, name), join(folder, name), overwrite=True)
            if is_local(folder):
                sync(Path(folder))  # an older checkpoint may be deleted next
    finally:
        remove_folder(temporary)


def remove_unfinished(folder: str) -> list[str]:
    """Removes the hidden folders that a killed `atomic_files` left. Returns the names of the checkpoints."""
    entries = list_entries(folder)
    hidden = [name for name in entries if name.startswith(".ckpt-") and name.endswith(".writing")]
    for name in hidden:
        remove_folder(join(folder, name))
    return [name[1:].removesuffix(".writing") for name in hidden]


def remove_folder(folder: str) -> None:
    """Removes a folder with its content, if it exists."""
    with contextlib.suppress(tf.errors.NotFoundError):
        tf.io.gfile.rmtree(folder)
