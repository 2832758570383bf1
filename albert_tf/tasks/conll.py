"""Sentences of tagged words in columns, as the CoNLL shared tasks wrote them, also with predictions."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from albert_tf.errors import InputError, shorten
from albert_tf.tasks.columns import Columns, own_records, table_files
from albert_tf.tasks.formats import DataFormat, OutputFormat, PredictionWriter, shortest
from albert_tf.tasks.records import TaggedRecord, TextRecord
from albert_tf.tasks.tables import TABLE_ENDINGS, read_lines, table_ending
from albert_tf.text.files import Paths, distinct_paths

_DOCUMENT = "-DOCSTART-"


def read_conll(file: str | os.PathLike) -> list[TaggedRecord]:
    """The sentences of a file: a word a line, its columns between tabs or spaces, blank lines between.

    Other spaces of Unicode, such as no-break ones, are part of a word. The word is the first column and the
    tag is the last; with a single column there are no tags. Lines that begin with -DOCSTART- are no words:
    they begin a document. An InputError if the file holds no words, or its lines have different numbers of
    columns.
    """
    file = os.fspath(file)
    records: list[TaggedRecord] = []
    width = 0
    lines = enumerate(read_lines(file), start=1)
    for is_sentence, group in itertools.groupby(lines, key=lambda line: _is_word(line[1])):
        if not is_sentence:
            continue
        words = [(number, _cells(line)) for number, line in group]
        width = width or len(words[0][1])
        for number, cells in words:
            if len(cells) != width or not (cells[0] and cells[-1].strip()):
                counts = f"has {len(cells)} columns, and the lines before {width}"
                what = counts if len(cells) != width else "lacks a word or a tag"
                found = f"{shorten(' '.join(cells))} {what}"
                problem = f"{file}:{number}: {found}: each line is a word, other columns and a tag"
                is_table = table_ending(file) in TABLE_ENDINGS
                remedy = ", or name the column of plain texts in a table by `text`" if is_table else ""
                raise InputError(problem + remedy)
        tags = tuple(cells[-1].strip() for _, cells in words) if width > 1 else None
        records.append(TaggedRecord(file, words[0][0], tuple(cells[0] for _, cells in words), tags))
    if not records:
        raise InputError(f"{file} holds no words")
    return records


def _is_word(line: str) -> bool:
    """True if a line is a word; others are blank or begin a document."""
    return bool(line.strip()) and _cells(line)[0] != _DOCUMENT


def _cells(line: str) -> list[str]:
    """The columns of a line; of Unicode's spaces only ASCII's blanks end one."""
    if "\t" in line:
        return [cell.strip(" ") for cell in line.split("\t")]
    return [cell for cell in line.split(" ") if cell]


def read_tagged(file: str | os.PathLike, needs_labels: bool, columns: Columns | None) -> Sequence[Any]:
    """The sentences of a file; or, where tags are to be predicted, the plain texts in a column of a table.

    InputError if the texts are pairs.
    """
    if columns is None or needs_labels:
        return read_conll(file)
    if columns.text_pair is not None:
        raise InputError(f"text_pair={columns.text_pair!r}: a tagger reads single texts, leave it out")
    return own_records(file, False, columns)


def tagged_files(source: Paths, records: Sequence[Any], form: OutputFormat) -> PredictionWriter:
    """The lines of the files, a blank one between two, those of words with two more columns.

    Between these are tabs or spaces, as between the others. Plain texts have a list of entities each, in a
    further column of their table.
    """
    first, *others = distinct_paths(source)
    if isinstance(records[0], TextRecord) if records else table_ending(first) in TABLE_ENDINGS:
        return table_files(source, records, form)
    form.check_no_columns("a file of tagged words")
    if form.ending in TABLE_ENDINGS:
        raise InputError(f"{form.file} is a table, and tags are written beside words: name a .conll file")
    read = [*read_lines(first), *(line for file in others for line in ("", *read_lines(file)))]

    def files(predictions: Sequence[Any]) -> dict[str, str]:
        sentences = (zip(found.value, found.scores, strict=True) for found in predictions)
        words = itertools.chain.from_iterable(sentences)
        lines = []
        for line in read:
            if _is_word(line):
                tag, score = next(words)
                tab = "\t" if "\t" in line else " "
                line = tab.join([line.rstrip(tab), tag, str(shortest(score))])
            lines.append(line + "\n")
        return {Path(first).name: "".join(lines)}

    return files


CONLL = DataFormat(read_tagged, tagged_files)
