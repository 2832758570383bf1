"""Files of datasets that have a format of their own: CoNLL, SQuAD, RACE and other multiple choice."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any

import tensorflow as tf
from absl import logging

from albert_tf.errors import InputError, is_missing, shorten
from albert_tf.io import PathLike, dump_json, json_text
from albert_tf.tasks.columns import Columns, extended_table, own_records, table_files
from albert_tf.tasks.examples import (
    Answer,
    ChoiceRecord,
    QuestionRecord,
    TaggedRecord,
    TextRecord,
    same_label,
)
from albert_tf.tasks.formats import DataFormat, OutputFormat, PredictionWriter, shortest
from albert_tf.tasks.tables import (
    TABLE_ENDINGS,
    field,
    joined_tables,
    read_json_data,
    read_json_lines,
    read_json_table,
    read_lines,
    spell_cell,
    table_ending,
)
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
        names = _option_names(records)
        return lambda predictions: files([found._replace(value=names[found.value]) for found in predictions])
    return files


def _option_names(records: Sequence[ChoiceRecord]) -> Sequence[str]:
    """What options are called by their numbers: letters, or numbers where a question has more of them."""
    most = max((len(record.options) for record in records), default=0)
    return LETTERS if most <= len(LETTERS) else [*map(str, range(most))]


def passage_files(source: PathLike, records: Sequence[ChoiceRecord], form: OutputFormat) -> PredictionWriter:
    """RACE's passages with lists of predictions (letters) and scores added, by their places in the folder."""
    form.check_folder("RACE's passages")
    of_questions = [record.where.rpartition(": question ")[0] for record in records]
    passages = {file: read_json_data(file) for file in dict.fromkeys(of_questions)}
    names = {file: form.columns(passage, file) for file, passage in passages.items()}
    options = _option_names(records)

    def files(predictions: Sequence[Any]) -> dict[str, str]:
        answers: dict[str, list[tuple[str, float]]] = {file: [] for file in passages}
        for file, found in zip(of_questions, predictions, strict=True):
            answers[file].append((options[found.value], shortest(found.score)))
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
