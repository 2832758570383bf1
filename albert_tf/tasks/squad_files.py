"""Questions on paragraphs in SQuAD's JSON, versions 1.1 and 2.0, and the files of answers to them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from absl import logging

from albert_tf.errors import InputError, shorten
from albert_tf.io import PathLike, json_text
from albert_tf.tasks.formats import DataFormat, OutputFormat, PredictionWriter
from albert_tf.tasks.records import Answer, QuestionRecord
from albert_tf.tasks.tables import field, read_json_data


def read_squad(file: str | os.PathLike, has_impossible: bool, needs_answers: bool) -> list[QuestionRecord]:
    """The questions of a file: articles of paragraphs of questions; also one's own data in this form.

    Args:
      file: its path.
      has_impossible: True if questions may have no answer, as in version 2.0.
      needs_answers: True to refuse a question without an annotated answer, unless it is impossible; False to
        pass over wrong answers, with a warning.
    Raises:
      InputError: the file is of the other version, or an answer that is needed is not where it should be.
    """
    file = os.fspath(file)
    records: dict[str, QuestionRecord] = {}
    passed_over: list[InputError] = []
    has_flags = False
    for where, context, question in _questions(file):
        name = question["id"]
        if name in records:
            raise InputError(f"{file}: two questions have the id {name!r}")
        has_flags |= "is_impossible" in question
        is_impossible, answers = False, tuple[Answer, ...]()
        try:
            is_impossible, answers = _answers(question, context, where, needs_answers)
        except InputError as error:
            if needs_answers:
                raise
            passed_over.append(error)
        text = field(question, "question", str, where)
        records[name] = QuestionRecord(where, name, text, context, answers, is_impossible)
    if not records:
        raise InputError(f"{file} holds no questions")
    if passed_over:
        count = f"{len(passed_over)} of {len(records)} questions have wrong answers"
        logging.warning("%s; %s, which are not needed and passed over", passed_over[0], count)
    impossible = next((record for record in records.values() if record.is_impossible), None)
    if impossible and not has_impossible and needs_answers:
        raise InputError(f"{impossible.where} is impossible: train with --task squad-v2.0")
    if has_impossible and needs_answers and not has_flags:
        raise InputError(f"{file}: no question has `is_impossible`: train with --task squad-v1.1")
    return list(records.values())


def _questions(file: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The questions of a file, each after its place and its context."""
    for number, article in enumerate(field(read_json_data(file), "data", list, file)):
        where = f"{file}: article {number}"
        for paragraph in field(article, "paragraphs", list, where):
            context = field(paragraph, "context", str, where)
            for question in field(paragraph, "qas", list, where):
                yield f"{file}: question {field(question, 'id', str, where)}", context, question


def _answers(
    question: dict[str, Any], context: str, where: str, needs_answers: bool
) -> tuple[bool, tuple[Answer, ...]]:
    """True if a question is impossible, and its annotated answers, none of an impossible one."""
    is_impossible = "is_impossible" in question and field(question, "is_impossible", bool, where)
    listed = [] if "answers" not in question else field(question, "answers", list, where)
    if needs_answers and not listed and not is_impossible:
        raise InputError(f"{where} has no answers")
    return is_impossible, () if is_impossible else tuple(_answer(answer, context, where) for answer in listed)


def _answer(value: Any, context: str, where: str) -> Answer:
    text, start = field(value, "text", str, where), field(value, "answer_start", int, where)
    found = context[start : start + len(text)] if start >= 0 else ""
    if not text or found != text:
        raise InputError(f"{where}: answer {shorten(text)} is not at character {start}, but {shorten(found)}")
    return Answer(text, start)


def answer_files(source: PathLike, records: Sequence[QuestionRecord], form: OutputFormat) -> PredictionWriter:
    """`predictions.json`, `nbest.json` and, where there need not be an answer, `null_odds.json`.

    SQuAD's evaluation scripts read them; the higher the odds, the less likely is an answer.
    """
    form.check_folder("SQuAD")
    form.check_no_columns("SQuAD")

    def files(predictions: Sequence[Any]) -> dict[str, str]:
        by_id = {record.id: found for record, found in zip(records, predictions, strict=True)}
        contents: dict[str, dict[str, Any]] = {
            "predictions.json": {key: found.text() for key, found in by_id.items()},
            "nbest.json": {key: [one._asdict() for one in found.answers] for key, found in by_id.items()},
        }
        odds = {key: found.null_odds for key, found in by_id.items() if found.null_odds is not None}
        if odds:
            contents["null_odds.json"] = odds
        return {name: json_text(content) for name, content in contents.items()}

    return files


def squad_format(has_impossible: bool) -> DataFormat:
    """Version 2.0, or 1.1."""
    return DataFormat(
        lambda file, needs_answers, _: read_squad(file, has_impossible, needs_answers), answer_files
    )
