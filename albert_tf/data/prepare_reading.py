"""Raw files to documents, a slice of a file at a time, so that many workers can read one file."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import IO, NamedTuple

import tensorflow as tf

from albert_tf.data.documents import BYTES_HASHED, MAX_DOCUMENT_BYTES
from albert_tf.text.files import GZIP_SUFFIX, check_utf8, open_decompressed
from albert_tf.text.lines import MAX_SENTENCE_BYTES, bounded_lines, is_blank, split_lines, split_sentences

SLICE_BYTES = 32 << 20
_LONGEST_LINE_BYTES = SLICE_BYTES  # that is read at once, where a line need not be whole
_END_OF_DOCUMENT = b""


class FileSlice(NamedTuple):
    """The part of a file that one task reads: the documents that begin in it."""

    number: int
    file: str
    begin: int  # bytes
    end: int  # bytes


class Part(NamedTuple):
    """A document, or a part of a long one."""

    document: int  # its number in the slice
    head: bytes  # how the document begins
    sentences: list[bytes]  # UTF-8, without whitespace around them


def file_slices(files: Iterable[tuple[str, int]]) -> list[FileSlice]:
    """All slices of files, given by path and size, numbered in order; a compressed file is one slice."""
    found: list[FileSlice] = []
    for file, size in files:
        length = max(size, 1) if file.endswith(GZIP_SUFFIX) else SLICE_BYTES
        for begin in range(0, size, length):
            found.append(FileSlice(len(found), file, begin, min(begin + length, size)))
    return found


def read_slice(
    file_slice: FileSlice, stream: IO[bytes], input_format: str, text_field: str, counts: Counter[str]
) -> Iterator[Part]:
    """The documents of a slice; one of more than MAX_DOCUMENT_BYTES comes in parts.

    Args:
      file_slice: what to read.
      stream: its file from the beginning, as it is stored.
      input_format: a key of FORMATS.
      text_field: of "jsonl", where the text is.
      counts: is updated by how many were read, and what was dropped and why.
    Raises:
      InputError: the slice is not UTF-8, or the file is a damaged .gz.
    """
    end = sys.maxsize if file_slice.file.endswith(GZIP_SUFFIX) else file_slice.end
    longest = _LONGEST_LINE_BYTES if input_format == "lines" else None
    with open_decompressed(file_slice.file, stream) as opened:
        lines = _lines(opened, file_slice.begin, longest)
        sentences = DOCUMENT_READERS[input_format](lines, end, text_field, counts)
        try:
            yield from _documents(sentences, counts)
        except UnicodeDecodeError:
            opened.seek(0)
            check_utf8(opened, file_slice.file)  # raises, with the line


def _documents(sentences: Iterator[bytes], counts: Counter[str]) -> Iterator[Part]:
    """Documents from their sentences; an empty one ends a document, over-long ones become several."""
    head: bytes | None = None
    part: list[bytes] = []
    size = documents = 0
    for sentence in _bounded(sentences):
        if sentence:
            part.append(sentence)
            size += len(sentence) + 1
        if part and (size > MAX_DOCUMENT_BYTES or not sentence):
            counts["documents_read" if head is None else "further_parts_of_long_documents"] += 1
            head = b"\n".join(part)[:BYTES_HASHED] if head is None else head
            yield Part(documents, head, part)
            part, size = [], 0
        if not sentence:
            head = None
            documents += 1


def _bounded(sentences: Iterator[bytes]) -> Iterator[bytes]:
    """Sentences, cut as those that are read straight from text."""
    for sentence in sentences:
        if len(sentence) > MAX_SENTENCE_BYTES:
            yield from bounded_lines(tf.constant([sentence])).numpy()
        else:
            yield sentence


def _lines(stream: IO[bytes], begin: int, longest: int | None) -> Iterator[tuple[int, bytes]]:
    """Position and content of the lines from a position on, b"" of those in which nothing can be seen.

    Lines that are longer than `longest` come in parts. UnicodeDecodeError if they are not UTF-8.
    """
    position = max(begin - 1, 0)
    is_rest = is_before = begin > 0  # of a line that has begun; of one that the slice before owns
    if is_before:
        stream.seek(position)
    for part in split_lines(stream, longest):
        if not is_before:
            line = b"" if is_blank(part) else part.strip()
            if line or not is_rest:
                yield position, line
        position += len(part)
        is_rest = not part.endswith((b"\n", b"\r"))
        is_before &= is_rest


def _blank_line_documents(lines: Iterator[tuple[int, bytes]], end: int) -> Iterator[bytes]:
    """Documents between blank lines, a sentence a line.

    A slice owns the documents after its first blank line, up to the first blank line after its end; the first
    slice of a file also owns its beginning.
    """
    inside = False
    for position, line in lines:
        if not line and position >= end:
            break
        inside = inside or position == 0 or not line
        if inside:
            yield line
    yield _END_OF_DOCUMENT


def _line_documents(
    lines: Iterator[tuple[int, bytes]], end: int, text_of: Callable[[bytes], str]
) -> Iterator[bytes]:
    """A document a line; what UTF-8 has no bytes for (JSON's lone surrogates) becomes ?."""
    for position, line in lines:
        if position >= end:
            return
        for sentence in split_sentences(text_of(line)):
            yield sentence.encode("utf-8", "replace")
        yield _END_OF_DOCUMENT


def _json_text(line: bytes, text_field: str, counts: Counter[str]) -> str:
    """The text in a line of JSON; "" where there is none, which is counted but for a blank line."""
    if not line:
        return ""
    try:
        text = json.loads(line)[text_field]
        counts["dropped_empty"] += not text.strip()
        return text
    except (ValueError, RecursionError):
        counts["dropped_invalid_json"] += 1
    except (AttributeError, KeyError, TypeError):
        counts["dropped_without_text_field"] += 1
    return ""


# By their names: functions of lines, the slice's end, the text field and the counts.
DOCUMENT_READERS: dict[str, Callable[..., Iterator[bytes]]] = {
    "lines": lambda lines, end, *_: _blank_line_documents(lines, end),
    "document_per_line": lambda lines, end, *_: _line_documents(lines, end, bytes.decode),
    "jsonl": lambda lines, end, *of_json: _line_documents(lines, end, lambda x: _json_text(x, *of_json)),
}
