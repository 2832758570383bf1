"""Sentences of tagged words in columns, as the CoNLL shared tasks wrote them."""

from __future__ import annotations

import os

from albert_tf.tasks.datasets.text_files import read_lines
from albert_tf.tasks.examples.records import TaggedRecord
from albert_tf.utils.errors import InputError, shown

_DOCUMENT = "-DOCSTART-"


def read_conll(file: str | os.PathLike) -> list[TaggedRecord]:
    """The sentences of a file: a word a line, its columns between tabs or spaces, blank lines between.

    Lines that begin with -DOCSTART- are no words: they begin a document.

    Args:
      file: the word is the first column and the tag is the last; with a single column there are no tags.
    Raises:
      FileNotFoundError: there is no such file.
      InputError: the file is empty or not UTF-8, holds no words, or lines have different numbers of columns.
    """
    file = os.fspath(file)
    sentences: list[tuple[int, list[list[str]]]] = []  # the first line and the words of each
    is_inside = False
    for number, line in enumerate(read_lines(file), start=1):
        if is_word(line):
            if not is_inside:
                sentences.append((number, []))
            cells = _cells(line)
            width = len(sentences[0][1][0]) if sentences[0][1] else len(cells)
            if len(cells) != width or not (cells[0].strip() and cells[-1].strip()):
                raise InputError(
                    f"{file}:{number}: {shown(line)} has {len(cells)} columns, and the lines before {width}: "
                    "a line is a word, further columns and its tag, and blank between sentences"
                )
            sentences[-1][1].append(cells)
        is_inside = is_word(line)
    if not sentences:
        raise InputError(f"{file} holds no words")
    return [
        TaggedRecord(
            file,
            line,
            tuple(cells[0] for cells in words),
            tuple(cells[-1].strip() for cells in words) if len(words[0]) > 1 else None,
        )
        for line, words in sentences
    ]


def is_word(line: str) -> bool:
    """True if a line is a word; others are blank or begin a document."""
    cells = _cells(line)
    return bool(cells) and cells[0] != _DOCUMENT


def _cells(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else line.split()
