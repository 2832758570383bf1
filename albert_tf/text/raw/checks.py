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
from albert_tf.text.raw.utf8 import GZIP_SUFFIX, Utf8Census, conversion, other_encoding

HEAD_BYTES = 4096
_LEAST_BYTES = 512  # of which to judge
_MOST_UNREADABLE = 0.2  # of how a file begins, control characters and what is not UTF-8
_MOST_CONTROL = 0.05  # the same of control characters alone, which no encoding of text has
_CONTROL = re.compile("[\0-\x08\x0e-\x1f\x7f]")
# How a JSON object begins, perhaps behind a byte order mark, with the name of its first field.
_JSON_FIELD = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*"([^"\\]|\\.)*"\s*:')
_BYTES_AT_ONCE = 1 << 20
_SAMPLES = 32
_SAMPLE_BYTES = 1 << 14
_CONTINUATION = bytes(range(0x80, 0xC0))  # of characters that begin before a sample


def check_text_files(files: Iterable[str]) -> None:
    """Looks at how files begin and into them, and reads those that end in `.gz` to their ends.

    TensorFlow's reader takes a `.gz` that is cut off for one that ends there, so that text would be missing
    without a word, and of other damage it does not name the file. This takes about a tenth of the time of one
    epoch's batches (half of it with several files, two at a time); a file that was whole is not read again.

    Of a file that is not compressed and larger than half a MiB, 32 samples of 16 KiB are looked at, evenly
    spread: a part in another encoding is found where it is a thirtieth of the file. Only where one of them
    holds more than a trace of what is not UTF-8, the whole file is read, and decides.

    Args:
      files: on any filesystem that TensorFlow reads.
    Raises:
      ValueError: a file is not text or holds JSON objects, more than a trace of it is not UTF-8, or a
        compressed one is damaged, cut off or not compressed.
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
        if not file.endswith(GZIP_SUFFIX) and not _is_doubtful(stored, size):
            return
        opened.seek(0)
        census = Utf8Census()
        while part := opened.read(_BYTES_AT_ONCE):
            census.add(part)
        if census.is_above_trace:
            raise InputError(census.complaint(file))


def _is_doubtful(stored: IO[bytes], size: int) -> bool:
    """Whether a sample of a file holds more than a trace of what is not UTF-8; a small one is always read."""
    if size <= _SAMPLES * _SAMPLE_BYTES:
        return True
    for number in range(_SAMPLES):
        stored.seek((size - _SAMPLE_BYTES) * number // (_SAMPLES - 1))
        census = Utf8Census()
        census.add(stored.read(_SAMPLE_BYTES).lstrip(_CONTINUATION))
        if census.is_above_trace:
            return True
    return False


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


def check_is_text(head: bytes, file: str, is_json: bool = False) -> None:
    """ValueError if a file does not begin like text; of a very short beginning anything is taken.

    Some NULs and the like are found in every large corpus and do no harm. What is in another encoding but
    otherwise text is for `Utf8Census` to find.

    Args:
      head: its first HEAD_BYTES bytes.
      file: its name.
      is_json: whether JSON objects, one a line, are what is meant; else they are refused: their braces and
        names of fields would be learned.
    """
    if encoding := other_encoding(head):
        raise InputError(
            f"{file} is not text in UTF-8 but in {encoding}, from line 1: convert it "
            f"(`{conversion(file, encoding)}`), or leave it out"
        )
    text = head.decode("utf-8", "replace")
    control = len(_CONTROL.findall(text)) / max(len(text), 1)
    unreadable = control + text.count("\ufffd") / max(len(text), 1)
    if len(head) >= _LEAST_BYTES and unreadable > _MOST_UNREADABLE and control > _MOST_CONTROL:
        raise InputError(
            f"{file} is not text in UTF-8: {unreadable:.0%} of how it begins is control characters or not "
            f"UTF-8: unpack it, convert it (`{conversion(file, 'ENCODING')}`), or leave it out"
        )
    if not is_json and _begins_like_json_lines(head):
        raise InputError(
            f"{file} holds JSON objects, one a line, not text: `albert-tf prepare --input_format jsonl "
            "--text_field FIELD` reads them; for `albert-tf vocab`, "
            "`jq -r '.FIELD, \"\"'` takes their text out"
        )


def _begins_like_json_lines(head: bytes) -> bool:
    """Whether all lines at the beginning of a file begin like JSON objects."""
    lines = [line for line in head.splitlines() if line.strip()]
    if len(head) == HEAD_BYTES and len(lines) > 1:
        del lines[-1]  # of which the beginning may hold a part
    return bool(lines) and all(map(_JSON_FIELD.match, lines))
