"""Whole files of text, lines and JSON in memory, whose faults are named with their line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from albert_tf.raw_text.checks import decode_text, decompressed
from albert_tf.utils.errors import InputError, shown


def read_text(file: str | os.PathLike) -> str:
    """The text of a file, without the byte order mark that it may begin with.

    Args:
      file: UTF-8, on any filesystem that TensorFlow reads; one that ends in `.gz` is decompressed.
    Raises:
      FileNotFoundError: there is no such file.
      InputError: it is a folder, is empty, damaged, or not UTF-8, whose line is named.
    """
    file = os.fspath(file)
    if not tf.io.gfile.exists(file):
        raise FileNotFoundError(f"{file}: no such file: correct the path")
    if tf.io.gfile.isdir(file):
        raise InputError(f"{file} is a folder: name a file in it")
    with tf.io.gfile.GFile(file, "rb") as stored, decompressed(file, stored) as opened:
        content = opened.read()
    text = decode_text(content, file)
    if not text.strip():
        raise InputError(f"{file} is empty")
    return text


def read_lines(file: str | os.PathLike) -> list[str]:
    """The lines of a file; nothing else that Unicode calls a line break ends one.

    Raises:
      FileNotFoundError, InputError: as `read_text`.
    """
    lines = read_text(file).split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def read_json(file: str | os.PathLike) -> dict[str, Any]:
    """The object that a JSON file holds.

    Raises:
      FileNotFoundError: there is no such file.
      InputError: it is not text, not JSON or holds something else.
    """
    return _object(read_text(file), os.fspath(file))


def read_json_lines(file: str | os.PathLike) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects that a file holds, one a line, with the lines' numbers from 1; blank lines are skipped.

    Raises:
      FileNotFoundError: there is no such file.
      InputError: it is not text, or a line is not an object.
    """
    for number, line in enumerate(read_lines(file), start=1):
        if line.strip():
            yield number, _object(line, f"{os.fspath(file)}:{number}")


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=_not_a_number)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error}): {shown(text[:80])}") from None
    if not isinstance(value, dict):
        raise InputError(f"{where}: not a JSON object but {shown(value)}")
    return value


def _not_a_number(name: str) -> None:
    raise ValueError(f"{name} is not a value of JSON")


def field(value: dict[str, Any], name: str, kind: type, where: str) -> Any:
    """The value of an object under a name; an InputError if it is missing or of another type.

    Args:
      value: the object.
      name: of the field.
      kind: str, int, list or bool.
      where: the object's place, for the error.
    """
    if name not in value:
        raise InputError(f"{where}: no {name!r} among {', '.join(map(repr, value)) or 'its fields'}")
    found = value[name]
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise InputError(f"{where}: {name!r} is {shown(found)} and must be a {kind.__name__}")
    return found
