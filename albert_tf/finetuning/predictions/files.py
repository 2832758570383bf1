"""Prediction files of SQuAD, RACE and one's own data: the input's format with what was predicted added."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.data.tasks.choices import LETTERS
from albert_tf.data.tasks.conll import is_word
from albert_tf.data.tasks.records import ChoiceRecord, QuestionRecord
from albert_tf.data.tasks.tables import Table, read_table, table_text
from albert_tf.data.tasks.text_files import read_json, read_lines
from albert_tf.files import check_place, new_directory, write_file
from albert_tf.finetuning.predictions.records import (
    AnswerPrediction,
    ChoicePrediction,
    LabelPrediction,
    ScorePrediction,
    TagPrediction,
)

PathLike = str | os.PathLike[str]
PREDICTION, SCORE = "prediction", "score"


def shortest(value: np.float32) -> float:
    """A float32 number as the float with the fewest digits that is written for it.

    >>> shortest(np.float32(0.1))
    0.1
    """
    return float(str(np.float32(value)))


def answer_files(
    records: Sequence[QuestionRecord], predictions: Sequence[AnswerPrediction], threshold: float = 0.0
) -> dict[str, str]:
    """What SQuAD's evaluation scripts read, and the n best answers.

    Args:
      records: the questions.
      predictions: one a question.
      threshold: odds above which there is no answer, where there need not be one.
    Returns:
      The texts of `predictions.json` and `nbest.json` and, where there need not be an answer, of
      `null_odds.json`: the higher, the less likely there is one.
    """
    by_id = {record.id: found for record, found in zip(records, predictions, strict=True)}
    files: dict[str, dict[str, Any]] = {
        "predictions.json": {key: found.text(threshold) for key, found in by_id.items()},
        "nbest.json": {key: [answer._asdict() for answer in found.answers] for key, found in by_id.items()},
    }
    odds = {key: found.null_odds for key, found in by_id.items() if found.null_odds is not None}
    if odds:
        files["null_odds.json"] = odds
    return {name: json.dumps(values, indent=2, ensure_ascii=False) + "\n" for name, values in files.items()}


def table_files(source: PathLike, predictions: Sequence[LabelPrediction | ScorePrediction]) -> dict[str, str]:
    """A table with the columns `prediction` (of regression the number) and `score` added, by its name.

    Args:
      source: the table that was predicted for.
      predictions: one a row.
    """
    scores = [shortest(prediction.score) for prediction in predictions]
    words = [found.label for found in predictions if isinstance(found, LabelPrediction)]
    return _extended(read_table(source), words or scores, scores)


def choice_files(source: PathLike, predictions: Sequence[ChoicePrediction]) -> dict[str, str]:
    """JSON lines with `prediction` and `score` added, by their file's name.

    Args:
      source: the questions that were predicted for; where it has labels that are letters, so are predictions.
      predictions: one a question.
    """
    table = read_table(source)
    labels = [row.cells[table.number("label")] for row in table.rows] if "label" in table.columns else []
    has_letters = any(isinstance(label, str) for label in labels)
    choices = [LETTERS[found.choice] if has_letters else found.choice for found in predictions]
    return _extended(table, choices, [shortest(found.score) for found in predictions])


def _extended(table: Table, predictions: Sequence[Any], scores: Sequence[float]) -> dict[str, str]:
    extended = table.extended(table.file, {PREDICTION: predictions, SCORE: scores})
    return {Path(table.file).name: table_text(extended)}


def tagged_files(source: PathLike, predictions: Sequence[TagPrediction]) -> dict[str, str]:
    """The lines of a CoNLL file, those of words with two more columns, by its name.

    Args:
      source: what was predicted for; columns are put between the same as before, tabs or spaces.
      predictions: one a sentence.
    """
    found = _tags(predictions)
    lines = []
    for line in read_lines(source):
        if is_word(line):
            tag, score = next(found)
            tab = "\t" if "\t" in line else " "
            line = tab.join([line.rstrip(tab), tag, str(shortest(score))])
        lines.append(line + "\n")
    return {Path(source).name: "".join(lines)}


def _tags(predictions: Sequence[TagPrediction]) -> Iterator[tuple[str, np.float32]]:
    for found in predictions:
        yield from zip(found.tags, found.scores, strict=True)


def passage_files(
    source: PathLike, records: Sequence[ChoiceRecord], predictions: Sequence[ChoicePrediction]
) -> dict[str, str]:
    """RACE's passages with lists `prediction` (letters) and `score` added, by their places in the folder.

    Args:
      source: the folder that was predicted for.
      records: its questions.
      predictions: one a question.
    """
    passages: dict[str, list[ChoicePrediction]] = {}
    for record, found in zip(records, predictions, strict=True):
        passages.setdefault(record.where.rpartition(": question ")[0], []).append(found)
    files = {}
    for file, answers in passages.items():
        letters = [LETTERS[found.choice] for found in answers]
        scores = [shortest(found.score) for found in answers]
        values = {**read_json(file), PREDICTION: letters, SCORE: scores}
        name = os.path.relpath(file, source)
        files[name] = json.dumps(values, ensure_ascii=False) + "\n"
    return files


def check_output(output: PathLike) -> None:
    """Refuses what `write_predictions` cannot write to, before anything is predicted; errors are the same."""
    output = Path(output)
    is_file = output.is_file() and not output.suffix  # where the folder is to be
    if is_file or (output.is_dir() and any(output.iterdir())):
        raise FileExistsError(f"{output} exists already and is not empty: name another place")
    check_place(output, is_folder=output.is_dir() or not output.suffix)


def write_predictions(output: PathLike, files: Mapping[str, str]) -> None:
    """Writes files of predictions, all of them or none.

    Args:
      output: where a single file goes if this name has an ending; else the folder of all, which does not
        exist yet or is empty.
      files: the text of each by its place in the folder.
    Raises:
      FileExistsError: there is something in the folder.
      OSError: something cannot be written.
    """
    output = Path(output)
    if len(files) == 1 and output.suffix:
        check_output(output)
        output.parent.mkdir(parents=True, exist_ok=True)
        write_file(output, *files.values())
        return
    with new_directory(output) as folder:
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_file(folder / name, text)
