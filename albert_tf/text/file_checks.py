"""Whether files are what they are read as: text in UTF-8, and whole where they are compressed."""

from __future__ import annotations

import functools
import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, cast

import tensorflow as tf

from albert_tf.errors import InputError

GZIP_SUFFIX = ".gz"
HEAD_BYTES = 4096
_LEAST_BYTES = 512  # of which to judge
_MOST_UNREADABLE = 0.2
_UNREADABLE = re.compile("[\0-\x08\x0e-\x1f\x7f\ufffd]")
_BYTES_AT_ONCE = 1 << 20


def check_text_files(files: Iterable[str]) -> None:
    """Looks at how files begin, and reads those that end in `.gz` to their ends.

    TensorFlow's reader takes a `.gz` that is cut off for one that ends there, so that text would be missing
    without a word, and of other damage it does not name the file. This takes about a tenth of the time of one
    epoch's batches (half of it with several files, two at a time); a file that was whole is not read again.

    Args:
      files: on any filesystem that TensorFlow reads.
    Raises:
      ValueError: a file is not text, or a compressed one is damaged, cut off or not compressed.
    """
    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(_check, files):
            pass


def _check(file: str) -> None:
    """One file of `check_text_files`."""
    stat = tf.io.gfile.stat(file)
    _check_unchanged(file, stat.length, stat.mtime_nsec)


@functools.lru_cache(maxsize=1 << 16)
def _check_unchanged(file: str, size: int, modified: int) -> None:
    """One file, of that size, as it was at that time; the cache does not hold errors."""
    with tf.io.gfile.GFile(file, "rb") as stored, decompressed(file, stored) as opened:
        check_is_text(opened.read(HEAD_BYTES), file)
        while file.endswith(GZIP_SUFFIX) and opened.read(_BYTES_AT_ONCE):
            pass


@contextmanager
def decompressed(file: str, stored: IO[bytes]) -> Iterator[IO[bytes]]:
    """The content of a file whose name says whether it is compressed.

    Args:
      file: its name.
      stored: its bytes from the beginning, as they are stored.
    Raises:
      ValueError: inside of the block, where a damaged `.gz` is read.
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


def check_is_text(head: bytes, file: str) -> None:
    """ValueError if a file does not begin like text; of a very short beginning anything is taken.

    Some bytes that are not UTF-8, some NULs and the like are found in every large corpus and do no harm.

    Args:
      head: its first HEAD_BYTES bytes.
      file: its name.
    """
    text = head.decode("utf-8", "replace")
    unreadable = len(_UNREADABLE.findall(text)) / max(len(text), 1)
    if len(head) >= _LEAST_BYTES and unreadable > _MOST_UNREADABLE:
        raise InputError(
            f"{file} is not text in UTF-8: {unreadable:.0%} of how it begins is control characters or no "
            "UTF-8: unpack it, convert it (`iconv -t UTF-8`), or leave it out"
        )
