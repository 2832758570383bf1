"""Files of raw text: paths and globs, encoding, compression, identity."""

from __future__ import annotations

import codecs
import collections
import gzip
import hashlib
import io
import itertools
import os
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, Any, cast

import tensorflow as tf

from albert_tf.errors import InputError, check_count, make_check, make_list_check, make_object_check
from albert_tf.filesystem import exists
from albert_tf.io import check_encodable

Paths = str | os.PathLike | Iterable[str | os.PathLike]

CONCURRENT_REQUESTS = 16  # to a filesystem that may be far away


def path_list(inputs: Paths) -> list[str]:
    """The paths and globs as a list of str."""
    return [os.fspath(x) for x in ([inputs] if isinstance(inputs, str | os.PathLike) else inputs)]


def expand_globs(inputs: Paths) -> list[str]:
    """The files and folders that paths and globs name, on any filesystem that TensorFlow reads.

    A name that exists is taken literally, even with [ or * in it; any other name is a glob. The matches of
    one glob are sorted. Each path comes once.

    Args:
      inputs: a path, a glob or a list of them.
    Raises:
      FileNotFoundError: a path does not exist, a glob matches nothing, or the list is empty.
      OSError: a path cannot be read.
      InputError: a name is not UTF-8, as TensorFlow needs it.
    """
    patterns = path_list(inputs)
    if not patterns:
        raise FileNotFoundError("no input files: an empty list was given")
    paths: list[str] = []
    for pattern in patterns:
        check_encodable(pattern)
        try:
            found = [pattern] if exists(pattern) else sorted(tf.io.gfile.glob(pattern))
        except UnicodeDecodeError:
            raise InputError(f"{pattern}: a name there is not UTF-8: rename it") from None
        if not found:
            raise FileNotFoundError(f"{pattern}: no such file or glob: correct the path")
        # TensorFlow returns ./text.txt for the glob text.*.
        paths += found if pattern.startswith("./") else [path.removeprefix("./") for path in found]
    return list(dict.fromkeys(paths))


def distinct_paths(inputs: Paths) -> list[str]:
    """The paths that `expand_globs` finds; InputError if one is given twice."""
    paths = [path for one in path_list(inputs) for path in expand_globs(one)] or expand_globs(inputs)
    names = collections.Counter(map(os.path.normpath, paths))
    if (most := names.most_common(1)) and most[0][1] > 1:
        raise InputError(f"{most[0][0]} is given twice: name it once")
    return paths


def input_files(inputs: Paths) -> list[str]:
    """The files that `expand_globs` finds; IsADirectoryError if one of them is a folder."""
    files = expand_globs(inputs)
    for file in files:
        if tf.io.gfile.isdir(file):
            raise IsADirectoryError(f"{file} is a folder: name its files, for example by a glob")
    return files


GZIP_SUFFIX = ".gz"
_CHUNK_BYTES = 1 << 20


_checked_files: set[tuple[str, int, int]] = set()  # paths, sizes and times of change


def check_text_files(files: Iterable[str]) -> None:
    """Checks that files are text, by reading each to its end.

    Files whose names end in `.gz` are decompressed. TensorFlow's reader silently stops where a `.gz` is cut
    off, and passes on bytes that are not UTF-8. A file that has not changed since its last check is not read
    again.

    Raises:
      InputError: a file is not UTF-8, is named as JSON lines, or is a damaged `.gz`.
    """
    is_over = threading.Event()

    def check(file: str) -> None:
        if file.removesuffix(GZIP_SUFFIX).endswith(".jsonl"):
            raise InputError(f"{file} holds JSON: `albert-tf prepare --input_format jsonl` reads it")
        stat = tf.io.gfile.stat(file)
        version = (file, stat.length, stat.mtime_nsec)
        if version not in _checked_files:
            with tf.io.gfile.GFile(file, "rb") as stored, open_decompressed(file, stored) as stream:
                check_utf8(stream, file, is_over)
            _checked_files.add(version)

    with ThreadPoolExecutor(2) as pool:
        try:
            list(pool.map(check, files))
        finally:
            is_over.set()  # at an error or SIGTERM: the pool waits for its threads


@contextmanager
def open_decompressed(file: str, stored: IO[bytes]) -> Iterator[IO[bytes]]:
    """A stream of a file's content, from its stored bytes; names that end in `.gz` are decompressed.

    Reading a damaged `.gz` inside the `with` block raises InputError.
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

    When another thread sets `is_over`, the reading stops with CancelledError.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    newlines = io.IncrementalNewlineDecoder(None, translate=True)  # makes LF of CR and of CR LF
    line = 1
    for part in itertools.chain(iter(lambda: stream.read(_CHUNK_BYTES), b""), [b""]):
        if is_over is not None and is_over.is_set():
            raise CancelledError
        try:
            text = decoder.decode(part, final=not part)
        except UnicodeDecodeError as error:
            line += newlines.decode(error.object[: error.start].decode(), final=True).count("\n")
            raise InputError(f"{file}:{line}: not UTF-8: `iconv -f ENCODING -t UTF-8` converts it") from None
        line += newlines.decode(text, final=not part).count("\n")


def decode_text(content: bytes, file: str) -> str:
    """The text of a whole file, without its byte order mark; InputError if it is not UTF-8."""
    check_utf8(io.BytesIO(content), file)
    return content.decode("utf-8-sig")


_BLOCK, _NUM_BLOCKS = 1 << 16, 16

# The schema of `file_identities`.
check_identities = make_list_check(
    make_object_check({"name": make_check("str"), "bytes": check_count, "sha256": make_check("str")})
)


def file_identities(files: Iterable[str]) -> list[dict[str, Any]]:
    """`name`, `bytes` and `sha256` of each file, for recipe.json.

    The SHA-256 covers all of a file of up to 1 MiB. Of a larger file it covers 16 blocks of 64 KiB, evenly
    spaced from the first to the last. A change between the blocks that keeps the size goes unnoticed.
    """
    with ThreadPoolExecutor(CONCURRENT_REQUESTS) as pool:
        return list(pool.map(_file_identity, files))


def _file_identity(file: str) -> dict[str, Any]:
    size = tf.io.gfile.stat(file).length
    digest = hashlib.sha256()
    with tf.io.gfile.GFile(file, "rb") as stream:
        if size <= _BLOCK * _NUM_BLOCKS:
            digest.update(stream.read())
        else:
            for number in range(_NUM_BLOCKS):
                stream.seek((size - _BLOCK) * number // (_NUM_BLOCKS - 1))
                digest.update(stream.read(_BLOCK))
    return {"name": os.path.basename(file), "bytes": size, "sha256": digest.hexdigest()}  # noqa: PTH119


def describe_difference(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> str | None:
    """One line about the first file that differs between two lists of identities; None if none differs."""
    for old, new in itertools.zip_longest(before, now):
        if old is None or new is None:
            return f"{(old or new)['name']} is {'missing' if new is None else 'new'}"
        if old != new:
            return f"{new['name']} has changed: it was {old['name']} of {old['bytes']:,} bytes"
    return None
