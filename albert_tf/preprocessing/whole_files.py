"""Files that appear whole or not at all, on any filesystem of TensorFlow."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from albert_tf.utils.checks import Check
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import dump_json, parse_json


@contextmanager
def whole_file(path: str, temporary_folder: str) -> Iterator[str]:
    """A name to write under; the file gets its final name when the block ends well."""
    temporary = os.path.join(temporary_folder, f"{uuid.uuid4().hex}.tmp")  # noqa: PTH118
    try:
        yield temporary
        tf.io.gfile.rename(temporary, path, overwrite=True)
    finally:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.remove(temporary)


def write_json(path: str, value: Any) -> None:
    """Writes a JSON file, whole or not at all."""
    with whole_file(path, os.path.dirname(path)) as temporary, tf.io.gfile.GFile(temporary, "w") as file:  # noqa: PTH120
        file.write(dump_json(value, indent=2) + "\n")


def read_json(path: str, check: Check) -> Any:
    """The content of a JSON file; InputError if it is damaged, or fails a check."""
    with tf.io.gfile.GFile(path, "rb") as file:
        content = file.read()
    try:
        check("content", value := parse_json(content, path))
        return value
    except InputError as error:
        remedy = "delete its folder and type the same command again"
        raise InputError(f"{path} is damaged: {remedy} ({error})") from None
