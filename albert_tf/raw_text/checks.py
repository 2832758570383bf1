"""Checks that files are text in UTF-8, and whole where they are compressed."""

from __future__ import annotations

import codecs
import gzip
import io
import itertools
import threading
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, cast

import tensorflow as tf

from albert_tf.utils.errors import InputError

GZIP_SUFFIX = ".gz"
_CHUNK_BYTES = 1 << 20


_checked: set[tuple[str, int, int]] = set()  # paths, sizes and times of change


def check_text_files(files: Iterable[str]) -> None:
    """Reads files, compressed if they end in `.gz`, to their ends and checks that they are text.

    TensorFlow's reader silently stops where a `.gz` is cut off, and passes on bytes that are not UTF-8. A
    file that has not changed since it was checked is not read again.

    Raises:
      InputError: a file is not UTF-8, is named as JSON lines, or is a damaged `.gz`.
    """
    is_over = threading.Event()

    def check(file: str) -> None:
        if file.removesuffix(GZIP_SUFFIX).endswith(".jsonl"):
            raise InputError(f"{file} holds JSON: `albert-tf prepare --input_format jsonl` reads it")
        stat = tf.io.gfile.stat(file)
        known = (file, stat.length, stat.mtime_nsec)
        if known not in _checked:
            with tf.io.gfile.GFile(file, "rb") as stored, decompressed(file, stored) as opened:
                check_utf8(opened, file, is_over)
            _checked.add(known)

    with ThreadPoolExecutor(2) as pool:
        try:
            list(pool.map(check, files))
        finally:
            is_over.set()  # at an error or SIGTERM: the pool waits for its threads


@contextmanager
def decompressed(file: str, stored: IO[bytes]) -> Iterator[IO[bytes]]:
    """The content of a file that is compressed if its name ends in `.gz`, from its stored bytes.

    InputError, inside of the block, where a damaged `.gz` is read.
    """
    if not file.endswith(GZIP_SUFFIX):
        yield stored
        return
    try:
        yield cast(IO[bytes], gzip.GzipFile(fileobj=stored))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        problem = f"{file} is damaged or cut off ({error})"
        raise InputError(f"{problem}: copy it again, or rename it if it is not compressed") from None


def check_utf8(stream: IO[bytes], file: str, is_over: threading.Event | None = None) -> None:
    """Reads a stream to its end; an InputError names the first line that is not UTF-8.

    Another thread ends it with CancelledError by `is_over`.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    line, before = 1, b""
    for part in itertools.chain(iter(lambda: stream.read(_CHUNK_BYTES), b""), [b""]):
        if is_over is not None and is_over.is_set():
            raise CancelledError
        try:
            decoder.decode(part, final=not part)
        except UnicodeDecodeError as error:
            # Of bytes of the part before, which hold no end of a line, and of this one.
            line += _line_ends(before, error.object[: error.start])
            raise InputError(f"{file}:{line}: not UTF-8: `iconv -f ENCODING -t UTF-8` converts it") from None
        line += _line_ends(before, part)
        before = part[-1:]


def _line_ends(before: bytes, part: bytes) -> int:
    """The line ends, LF, CR or CR LF, in a part of a file after the byte before it."""
    pairs = part.count(b"\r\n") + (before == b"\r" and part.startswith(b"\n"))
    return part.count(b"\n") + part.count(b"\r") - pairs


def decode_text(content: bytes, file: str) -> str:
    """The text of a whole file, without byte order mark; InputError if it is not UTF-8."""
    check_utf8(io.BytesIO(content), file)
    return content.decode("utf-8-sig")
