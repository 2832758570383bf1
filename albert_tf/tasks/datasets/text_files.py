"""Whole files of text, lines and JSON in memory.

All functions raise FileNotFoundError where there is no such file, and InputErrors name file and line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from albert_tf.raw_text.checks import decode_text, decompressed
from albert_tf.utils.errors import InputError, shown
from albert_tf.utils.files import json_object


def read_bytes(file: str) -> bytes:
    """The content of a file on any filesystem that TensorFlow reads, decompressed if it ends in `.gz`."""
    if not tf.io.gfile.exists(file):
        raise FileNotFoundError(f"{file}: no such file: correct the path")
    if tf.io.gfile.isdir(file):
        raise InputError(f"{file} is a folder: name a file in it")
    with tf.io.gfile.GFile(file, "rb") as stored, decompressed(file, stored) as opened:
        return opened.read()


def read_text(file: str | os.PathLike) -> str:
    """The text of a file, without the byte order mark that it may begin with.

    Args:
      file: as `read_bytes` takes it; UTF-8, not empty.
    """
    file = os.fspath(file)
    text = decode_text(read_bytes(file), file)
    if not text.strip():
        raise InputError(f"{file} is empty: correct the path, or write it")
    return text


def read_lines(file: str | os.PathLike) -> list[str]:
    """The lines of a file, as `split_lines` has them."""
    return split_lines(read_text(file))


def split_lines(text: str) -> list[str]:
    """The lines of a text, which end as Python's universal newlines do, not at Unicode's other breaks."""
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")


def read_json(file: str | os.PathLike) -> dict[str, Any]:
    """The object that a JSON file holds."""
    return json_object(read_text(file).encode(), file, is_data=True)


def read_json_lines(file: str | os.PathLike) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects that a file holds, one a line, with the lines' numbers from 1; blank lines are skipped."""
    for number, line in enumerate(read_lines(file), start=1):
        if line.strip():
            yield number, json_object(line.encode(), f"{os.fspath(file)}:{number}", is_data=True)


def field(value: Any, name: str, kind: type, where: str) -> Any:
    """The value of a JSON object under a name; an InputError if it is missing or of another type."""
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise InputError(f"{where}: {name!r} is missing or not of type {kind.__name__}: {shown(found)}")
    return found
