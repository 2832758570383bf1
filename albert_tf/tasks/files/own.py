"""Prediction files of SQuAD, RACE and a user's own data: the input with predictions added.

Each function is from what is predicted for, its records and the form of the output to one from predictions
to the texts of files by name. It refuses what could not be written afterwards.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.tasks.datasets.choices import LETTERS
from albert_tf.tasks.datasets.conll import is_word
from albert_tf.tasks.datasets.tables import (
    FORMATS,
    Table,
    known_ending,
    read_json_table,
    read_table,
    table_ending,
    table_text,
)
from albert_tf.tasks.datasets.text_files import read_json, read_lines
from albert_tf.tasks.examples.predictions import LabelsPrediction
from albert_tf.tasks.examples.records import SEPARATOR, ChoiceRecord, QuestionRecord
from albert_tf.tasks.files.destination import Files, Form, PathLike
from albert_tf.utils.errors import InputError


def shortest(value: np.float32) -> float:
    """A float32 number as the float with the fewest digits that is written for it.

    >>> shortest(np.float32(0.1))
    0.1
    """
    return float(str(np.float32(value)))


def answer_files(source: PathLike, records: Sequence[QuestionRecord], form: Form) -> Files:
    """`predictions.json`, `nbest.json` and, where there need not be an answer, `null_odds.json`.

    SQuAD's evaluation scripts read them; the higher the odds, the less likely is an answer.
    """
    form.check_folder("SQuAD")
    form.check_no_columns("SQuAD")

    def files(predictions: Sequence[Any]) -> dict[str, str]:
        by_id = {record.id: found for record, found in zip(records, predictions, strict=True)}
        texts: dict[str, dict[str, Any]] = {
            "predictions.json": {key: found.text() for key, found in by_id.items()},
            "nbest.json": {key: [one._asdict() for one in found.answers] for key, found in by_id.items()},
        }
        odds = {key: found.null_odds for key, found in by_id.items() if found.null_odds is not None}
        if odds:
            texts["null_odds.json"] = odds
        return {name: json.dumps(found, indent=2, ensure_ascii=False) + "\n" for name, found in texts.items()}

    return files


def table_files(source: PathLike, records: Sequence[Any], form: Form) -> Files:
    """A table with two more columns; several labels are joined, but not as JSON."""

    def values(found: Any) -> tuple[Any, Any]:
        return found[0], found.scores if isinstance(found, LabelsPrediction) else found.score

    return _extended(read_table(source), table_ending(source), form, values)


def _extended(table: Table, ending: str, form: Form, values: Callable[[Any], tuple[Any, Any]]) -> Files:
    """A table with two more columns, whose values a function has of a prediction."""
    ending = known_ending(form.file) if form.file else ending
    columns = form.columns(table.columns, table.file)
    table_text(table.extended(dict.fromkeys(columns, [""] * len(table.rows))), ending)  # or an error now

    def cell(value: Any) -> Any:
        if isinstance(value, str | int):
            return value
        if isinstance(value, np.floating):
            return shortest(value)
        cells = [cell(item) for item in value]
        return cells if ending == ".jsonl" else SEPARATOR.join(map(str, cells))

    def files(predictions: Sequence[Any]) -> dict[str, str]:
        added = zip(*([cell(value) for value in values(found)] for found in predictions), strict=True)
        extended = table.extended(dict(zip(columns, added, strict=True)))
        return {Path(table.file).name: table_text(extended, ending)}

    return files


def choice_files(source: PathLike, records: Sequence[Any], form: Form) -> Files:
    """JSON lines with two more fields; where labels are letters, so are predictions."""
    table = read_json_table(os.fspath(source))
    labels = [row.cells[table.number("label")] for row in table.rows] if "label" in table.columns else []
    has_letters = any(isinstance(label, str) for label in labels)

    def values(found: Any) -> tuple[Any, Any]:
        return LETTERS[found.choice] if has_letters else found.choice, found.score

    return _extended(table, ".jsonl", form, values)


def tagged_files(source: PathLike, records: Sequence[Any], form: Form) -> Files:
    """The lines of a CoNLL file, those of words with two more columns between the same, tabs or spaces."""
    form.check_no_columns("a file of tagged words")
    if form.ending in FORMATS:
        raise InputError(
            f"{form.file} has the name of a table, and tags are written beside the words of the input: name "
            "a file that ends otherwise, such as in .conll"
        )
    read = read_lines(source)

    def files(predictions: Sequence[Any]) -> dict[str, str]:
        words = itertools.chain.from_iterable(zip(p.tags, p.scores, strict=True) for p in predictions)
        lines = []
        for line in read:
            if is_word(line):
                tag, score = next(words)
                tab = "\t" if "\t" in line else " "
                line = tab.join([line.rstrip(tab), tag, str(shortest(score))])
            lines.append(line + "\n")
        return {Path(source).name: "".join(lines)}

    return files


def passage_files(source: PathLike, records: Sequence[ChoiceRecord], form: Form) -> Files:
    """RACE's passages with lists of predictions (letters) and scores added, by their places in the folder."""
    form.check_folder("RACE's passages")
    of_questions = [record.where.rpartition(": question ")[0] for record in records]
    passages = {file: read_json(file) for file in dict.fromkeys(of_questions)}
    names = {file: form.columns(passage, file) for file, passage in passages.items()}

    def files(predictions: Sequence[Any]) -> dict[str, str]:
        answers: dict[str, list[tuple[str, float]]] = {file: [] for file in passages}
        for file, found in zip(of_questions, predictions, strict=True):
            answers[file].append((LETTERS[found.choice], shortest(found.score)))
        texts = {}
        for file, passage in passages.items():
            columns = map(list, zip(*answers[file], strict=True))
            values = {**passage, **dict(zip(names[file], columns, strict=True))}
            texts[os.path.relpath(file, source)] = json.dumps(values, ensure_ascii=False) + "\n"
        return texts

    return files
