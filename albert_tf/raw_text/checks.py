"""Checks that files are what they are read as: text in UTF-8, and whole where they are compressed."""

from __future__ import annotations

import codecs
import functools
import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, cast

import tensorflow as tf

from albert_tf.utils.errors import InputError

GZIP_SUFFIX = ".gz"
HEAD_BYTES = 4096
_CHUNK_BYTES = 1 << 20
_MAX_CONTROL_SHARE = 0.2  # of the first HEAD_BYTES bytes: UTF-16 and binary files have more
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1f]")
# The start of a JSON object, perhaps after a byte order mark, with the name of its first field.
_JSON_FIELD = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*"([^"\\]|\\.)*"\s*:')


def check_text_files(files: Iterable[str]) -> None:
    """Reads files to their ends and checks that they are text.

    TensorFlow's reader silently stops where a `.gz` is cut off, and passes on bytes that are not UTF-8. A
    file that has not changed since it was checked is not read again.

    Args:
      files: paths on any filesystem that TensorFlow reads; those that end in `.gz` are decompressed.
    Raises:
      InputError: a file is not UTF-8 or holds JSON objects, or a compressed one is damaged or not compressed.
    """
    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(_check, files):
            pass


def _check(file: str) -> None:
    stat = tf.io.gfile.stat(file)
    _check_unchanged(file, stat.length, stat.mtime_nsec)


@functools.lru_cache(maxsize=1 << 16)
def _check_unchanged(file: str, size: int, modified: int) -> None:
    """Checks a file of this size and time of change; the cache does not hold errors."""
    with tf.io.gfile.GFile(file, "rb") as stored, decompressed(file, stored) as opened:
        check_head(opened.read(HEAD_BYTES), file)
        opened.seek(0)
        check_utf8(opened, file)


@contextmanager
def decompressed(file: str, stored: IO[bytes]) -> Iterator[IO[bytes]]:
    """The content of a file that is compressed if its name ends in `.gz`.

    Args:
      file: its name.
      stored: its bytes from the beginning, as they are stored.
    Raises:
      InputError: inside of the block, where a damaged `.gz` is read.
    """
    if not file.endswith(GZIP_SUFFIX):
        yield stored
        return
    try:
        yield cast(IO[bytes], gzip.GzipFile(fileobj=stored))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"{file} is damaged or cut off ({error}): make or copy it again, "
            "or rename it if it is not compressed"
        ) from None


def check_head(head: bytes, file: str, is_json: bool = False) -> None:
    """Checks the beginning of a file.

    Args:
      head: its first HEAD_BYTES bytes.
      file: its name.
      is_json: True if JSON objects, one a line, are expected; otherwise they are refused, since their braces
        and names of fields would be learned.
    Raises:
      InputError: it has many control characters, as UTF-16 and binary files do, or unexpected JSON objects.
    """
    _check_control(head, file)
    if not is_json and _begins_like_json_lines(head):
        raise InputError(
            f"{file} holds JSON objects, one a line, not text: `albert-tf prepare --input_format jsonl "
            "--text_field FIELD` reads them; for `albert-tf vocab`, "
            "`jq -r '.FIELD, \"\"'` takes their text out"
        )


def _check_control(head: bytes, file: str) -> None:
    if len(_CONTROL.findall(head)) > _MAX_CONTROL_SHARE * len(head):
        raise _not_text(file, 1)


def check_utf8(stream: IO[bytes], file: str) -> None:
    """Reads a stream to its end; InputError if it is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    while True:
        part = stream.read(_CHUNK_BYTES)
        try:
            decoder.decode(part, final=not part)
        except UnicodeDecodeError as error:
            raise _not_text(file, line + error.object.count(b"\n", 0, error.start)) from None
        if not part:
            return
        line += part.count(b"\n")


def decode_text(content: bytes, file: str) -> str:
    """The text of a whole file, without byte order mark; InputError if it is not UTF-8."""
    _check_control(content[:HEAD_BYTES], file)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_text(file, content.count(b"\n", 0, error.start) + 1) from None


def _not_text(file: str, line: int) -> InputError:
    return InputError(
        f"{file}:{line}: not UTF-8: convert the file (`iconv -f ENCODING -t UTF-8`; where only a few bytes "
        "are wrong, `iconv -c -f UTF-8 -t UTF-8` leaves them out), or name another"
    )


def _begins_like_json_lines(head: bytes) -> bool:
    """True if all lines at the beginning of a file begin like JSON objects."""
    lines = [line for line in head.splitlines() if line.strip()]
    if len(head) == HEAD_BYTES and len(lines) > 1:
        del lines[-1]  # of which the beginning may hold a part
    return bool(lines) and all(map(_JSON_FIELD.match, lines))
