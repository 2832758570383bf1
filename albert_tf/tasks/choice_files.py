"""Multiple choice: RACE's folders, the user's own questions as JSON lines, and both with predictions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError, is_missing, shorten
from albert_tf.io import PathLike, dump_json
from albert_tf.tasks.columns import extended_table
from albert_tf.tasks.formats import DataFormat, OutputFormat, PredictionWriter, shortest
from albert_tf.tasks.records import ChoiceRecord, same_label
from albert_tf.tasks.tables import (
    field,
    joined_tables,
    read_json_data,
    read_json_lines,
    read_json_table,
    spell_cell,
)
from albert_tf.text.files import Paths, distinct_paths

RACE_GROUPS = ("middle", "high")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def read_race(folder: str | os.PathLike) -> list[ChoiceRecord]:
    """The questions of one of RACE's sets, those for middle schools first.

    The folder is `train`, `dev` or `test`, with `middle` and `high` in it, or one of these; a passage is a
    .txt file, which is JSON. A FileNotFoundError says that there are none.
    """
    folder = os.fspath(folder).rstrip("/")
    name = PurePath(folder).name
    groups = {name: folder} if name in RACE_GROUPS else {g: f"{folder}/{g}" for g in RACE_GROUPS}
    records = []
    for group, place in groups.items():
        names = tf.io.gfile.listdir(place) if tf.io.gfile.isdir(place) else []
        for file in sorted(names, key=lambda name: (len(name), name)):  # by their numbers
            if file.endswith(".txt"):
                records += _passage(f"{place}/{file}", group)
    if not records:
        raise FileNotFoundError(f"{folder}: no .txt files in its folders {' and '.join(RACE_GROUPS)}")
    return records


def _is_race_set(folder: str) -> bool:
    """True if a folder is one of RACE's sets, or a group of one, and not the folder of all of them."""
    is_group = PurePath(folder).name in RACE_GROUPS
    return is_group or any(tf.io.gfile.isdir(f"{folder}/{group}") for group in RACE_GROUPS)


def _passage(file: str, group: str) -> list[ChoiceRecord]:
    """The questions of one passage."""
    passage = read_json_data(file)
    article = field(passage, "article", str, file)
    questions, options = (field(passage, name, list, file) for name in ("questions", "options"))
    answers = field(passage, "answers", list, file) if "answers" in passage else [None] * len(questions)
    if not len(questions) == len(options) == len(answers):
        numbers = f"{len(questions)} questions, {len(options)} lists of options, {len(answers)} answers"
        raise InputError(f"{file}: {numbers}: there must be one for each")
    return [
        _record(f"{file}: question {n}", f"{group}{PurePath(file).stem}-{n}", group, article, *values)
        for n, values in enumerate(zip(questions, options, answers, strict=True))
    ]


def read_choices(file: str | os.PathLike, needs_labels: bool = True) -> list[ChoiceRecord]:
    """The questions of a file of JSON lines with `context`, `question`, `options` and perhaps `label`.

    The label is the number of the right option, from 0, or its letter, from A; without `needs_labels` it is
    left out.
    """
    records = []
    for number, (line, value) in enumerate(read_json_lines(file)):
        where = f"{os.fspath(file)}:{line}"
        context = field(value, "context", str, where)
        question, options, label = (value.get(name) for name in ("question", "options", "label"))
        label = label if needs_labels else None
        records.append(_record(where, str(number), "", context, question, options, label))
    return records


def _record(
    where: str, number: str, group: str, context: str, question: Any, options: Any, label: Any
) -> ChoiceRecord:
    texts = [question, *options] if isinstance(options, list) else []
    if len(texts) < 3 or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{where}: a question needs two or more options, all of them text")
    if "" in options:
        raise InputError(f"{where}: options[{options.index('')}]='' is empty: leave it out")
    return ChoiceRecord(
        where, number, group, context, question, tuple(options), _parse_option(label, len(options), where)
    )


def _parse_option(label: Any, count: int, where: str) -> int | None:
    """The number of the right one of so many options; None if it is missing."""
    text = "" if is_missing(label) else same_label(spell_cell(label).strip())
    letters = [*LETTERS[:count]]
    if text in letters:
        return letters.index(text)
    if text.isdecimal() and int(text) < count:
        return int(text)
    if text:
        wanted = f"no number from 0 to {count - 1} and no letter of {LETTERS[:count]}"
        raise InputError(f"{where}: label {shorten(label)} is {wanted}")
    return None


def choice_files(source: Paths, records: Sequence[ChoiceRecord], form: OutputFormat) -> PredictionWriter:
    """JSON lines with two more fields; where labels are letters, so are predictions."""
    table = joined_tables([read_json_table(file) for file in distinct_paths(source)])
    labels = [row.cells[table.number("label")] for row in table.rows] if "label" in table.columns else []
    files = extended_table(table, ".jsonl", form)
    if any(isinstance(label, str) and label.strip() in [*LETTERS] for label in labels):
        return lambda predictions: files(
            [found._replace(value=LETTERS[found.value]) for found in predictions]
        )
    return files


def passage_files(source: PathLike, records: Sequence[ChoiceRecord], form: OutputFormat) -> PredictionWriter:
    """RACE's passages with lists of predictions (letters) and scores added, by their places in the folder."""
    form.check_folder("RACE's passages")
    of_questions = [record.where.rpartition(": question ")[0] for record in records]
    passages = {file: read_json_data(file) for file in dict.fromkeys(of_questions)}
    names = {file: form.columns(passage, file) for file, passage in passages.items()}

    def files(predictions: Sequence[Any]) -> dict[str, str]:
        answers: dict[str, list[tuple[str, float]]] = {file: [] for file in passages}
        for file, found in zip(of_questions, predictions, strict=True):
            answers[file].append((LETTERS[found.value], shortest(found.score)))
        texts = {}
        for file, passage in passages.items():
            columns = dict(zip(names[file], map(list, zip(*answers[file], strict=True)), strict=True))
            texts[os.path.relpath(file, source)] = dump_json(passage | columns) + "\n"
        return texts

    return files


RACE = DataFormat(
    lambda folder, *_: read_race(folder),
    passage_files,
    lambda folder, name: read_race(f"{folder}/{name}"),
    is_set=_is_race_set,
)
QUESTIONS = DataFormat(lambda file, needs_labels, _: read_choices(file, needs_labels), choice_files)
