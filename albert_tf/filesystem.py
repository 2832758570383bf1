"""Files on any filesystem that tf.io.gfile reads and writes (gs://…): whole or not at all, JSON."""

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

from albert_tf.errors import InputError, exists_already
from albert_tf.io import (
    PathLike,
    address_of,
    check_new,
    check_path,
    json_object,
    json_text,
    naming_path,
    new_directory,
    path_exists,
    read_local_bytes,
    sync,
)

_GLOB = re.compile(r"[\[\\]")  # of the letters of globs, those that do not stand for themselves


def location(path: Any, argument: str) -> str:
    """A path as text; an InputError if it is none, or on a filesystem that TensorFlow does not know.

    >>> location(Path("gs://bucket/run"), "output")  # pathlib makes one slash of two
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
    """InputError for a path at which TensorFlow finds no checkpoint and no SavedModel: it is a glob to it."""
    if _GLOB.search(os.fspath(path)):
        raise InputError(
            f"{argument}={os.fspath(path)}: TensorFlow reads no model whose path holds [ or \\: name another"
        )


def literal_path(path: str) -> str:
    """A path at which TensorFlow's readers of models find what is at this one, a folder or a checkpoint.

    They look for a path as a glob, and then open it as it is: nothing can be escaped. A link without such
    letters, which is there as long as the program runs, stands for the folder.
    """
    if not (is_local(path) and _GLOB.search(path)):
        return path
    place = Path(path).absolute()
    folder, name = (place, "") if place.is_dir() else (place.parent, place.name)
    check_no_glob(name, "checkpoint")
    link = Path(local_folder().name, hashlib.sha256(os.fsencode(folder)).hexdigest())
    with contextlib.suppress(FileExistsError):
        link.symlink_to(folder)
    return str(link / name)


@functools.cache
def local_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder that is there as long as the program runs."""
    return tempfile.TemporaryDirectory()


def is_local(path: str) -> bool:
    """True if a path is on a filesystem of this machine."""
    return "://" not in path


def join(folder: PathLike, *names: str) -> str:
    """A path in a folder."""
    return "/".join([os.fspath(folder).rstrip("/"), *names])


def exists(path: str) -> bool:
    """True if there is a file or a folder; errors are those of `path_exists`."""
    if is_local(path):
        return path_exists(path)
    try:
        return tf.io.gfile.exists(path)
    except tf.errors.UnimplementedError:  # an address of TF Hub, for one
        return False


def list_entries(folder: str) -> list[str]:
    """The names in a folder, ascending; empty if there is no such folder; errors are those of `exists`."""
    try:
        return sorted(name.rstrip("/") for name in tf.io.gfile.listdir(folder))
    except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError):
        exists(folder)  # or an error now: links in a loop may hold anything
        return []


def read_bytes(path: str) -> bytes:
    """The content of a file; FileNotFoundError if there is none."""
    if is_local(path):
        return read_local_bytes(path)
    if not exists(path):
        raise FileNotFoundError(f"{path} is missing")
    with tf.io.gfile.GFile(path, "rb") as file:
        return file.read()


def read_json(path: str) -> dict[str, Any]:
    """The object in a JSON file; an InputError, with the file's name, if it holds none."""
    return json_object(read_bytes(path), path)


def write_text(path: str, text: str) -> None:
    """As `write_bytes`, in UTF-8."""
    write_bytes(path, text.encode())


def write_bytes(path: str, content: bytes) -> None:
    """Writes a file, whole or not at all where the filesystem renames in one step."""
    folder, _, name = path.rpartition("/")
    with write_together(folder, name) as temporary, tf.io.gfile.GFile(join(temporary, name), "wb") as file:
        file.write(content)


def write_json(path: str, values: Mapping[str, Any]) -> None:
    """Writes an object as JSON, a key a line."""
    write_text(path, json_text(values))


def append_to(path: str) -> Any:
    """A text file, opened to append; gs:// copies the whole file at each flush."""
    return Path(path).open("a", encoding="utf-8") if is_local(path) else tf.io.gfile.GFile(path, "a")


def check_free(folder: str) -> None:
    """FileExistsError if there is something else than an empty folder; OSError if none can be made."""
    if is_local(folder):
        check_new(Path(folder))
    elif list_entries(folder):
        raise exists_already(folder)


@contextlib.contextmanager
def new_folder(folder: str, files: Mapping[str, bytes]) -> Iterator[str]:
    """A folder to write into, whose content appears as a whole where the filesystem renames folders.

    Elsewhere it is written in its place, and a process that is killed leaves it unfinished. It does not exist
    yet, or is empty. Files, by name, are written first; what is yielded is the folder to write others into.
    """
    with contextlib.ExitStack() as stack:
        if not is_local(folder):
            check_free(folder)
            tf.io.gfile.makedirs(place := folder)
        else:
            place = str(stack.enter_context(new_directory(Path(folder))))
        for name, content in files.items():
            with tf.io.gfile.GFile(join(place, name), "wb") as file:
                file.write(content)
        yield place


@contextlib.contextmanager
def write_together(folder: str, names: str) -> Iterator[str]:
    """A hidden folder whose files are renamed into `folder` when the block ends, `*.index` last.

    Raises:
      OSError: a file cannot be written; it names `folder` and what all names begin with.
    """
    temporary = join(folder, f".{names}.writing")
    remove_folder(temporary)
    try:
        with naming_path(Path(join(folder, names)), Path(temporary)):
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
    """Removes what `write_together` has left where it was killed, and gives the names that it was about."""
    left = [name for name in list_entries(folder) if name.startswith(".ckpt-") and name.endswith(".writing")]
    for name in left:
        remove_folder(join(folder, name))
    return [name[1:].removesuffix(".writing") for name in left]


def remove_folder(folder: str) -> None:
    """Removes a folder with all that is in it, if there is one."""
    with contextlib.suppress(tf.errors.NotFoundError):
        tf.io.gfile.rmtree(folder)
