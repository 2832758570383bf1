"""Reads and writes the file formats of CoNLL, SQuAD, RACE and other multiple choice."""

from __future__ import annotations

import collections
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError, is_missing, shorten
from albert_tf.io import PathLike, dump_json, json_text
from albert_tf.tasks.columns import Columns, create_table_writer, read_user_table, table_prediction_writer
from albert_tf.tasks.examples import (
    Answer,
    ChoiceRecord,
    QuestionRecord,
    TaggedRecord,
    TextRecord,
    normalize_label,
)
from albert_tf.tasks.formats import DataFormat, OutputFormat, PredictionWriter, shortest
from albert_tf.tasks.tables import (
    TABLE_ENDINGS,
    cell_text,
    concat_tables,
    json_field,
    read_json_data,
    read_json_lines,
    read_json_table,
    read_lines,
    table_ending,
)
from albert_tf.text.files import Paths, distinct_paths

_DOCUMENT = "-DOCSTART-"


def read_conll(file: str | os.PathLike) -> list[TaggedRecord]:
    """Reads sentences from a file with a word on each line and a blank line between two sentences.

    Tabs or spaces separate the columns of a line. Other Unicode spaces, such as no-break ones, are part of a
    word. The first column is the word and the last one the tag; with a single column there are no tags. Lines
    that begin with -DOCSTART- begin a document and are no words. Raises an InputError if the file holds no
    words, or its lines have different numbers of columns.
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
                fault = counts if len(cells) != width else "lacks a word or a tag"
                line = f"{shorten(' '.join(cells))} {fault}"
                problem = f"{file}:{number}: {line}: each line is a word, other columns and a tag"
                is_table = table_ending(file) in TABLE_ENDINGS
                remedy = ", or name the column of plain texts in a table by `text`" if is_table else ""
                raise InputError(problem + remedy)
        tags = tuple(cells[-1].strip() for _, cells in words) if width > 1 else None
        records.append(TaggedRecord(file, words[0][0], tuple(cells[0] for _, cells in words), tags))
    if not records:
        raise InputError(f"{file} holds no words")
    return records


def _is_word(line: str) -> bool:
    """True if the line holds a word; other lines are blank or begin a document."""
    return bool(line.strip()) and _cells(line)[0] != _DOCUMENT


def _cells(line: str) -> list[str]:
    """The columns of a line; tabs separate them, or where it has none ASCII spaces."""
    if "\t" in line:
        return [cell.strip(" ") for cell in line.split("\t")]
    return [cell for cell in line.split(" ") if cell]


def read_tagged(file: str | os.PathLike, needs_labels: bool, columns: Columns | None) -> Sequence[Any]:
    """Reads the sentences of a file; or, to predict tags, the plain texts in a column of a table.

    Raises an InputError if the texts are pairs, or columns are named to evaluate.
    """
    if columns is None:
        return read_conll(file)
    if needs_labels:
        raise InputError("`text`: lines hold a word first and its tag last, leave it out")
    if columns.text_pair is not None:
        raise InputError(f"text_pair={columns.text_pair!r}: a tagger reads single texts, leave it out")
    return read_user_table(file, False, columns)


def create_tagged_writer(
    source: Paths, records: Sequence[Any], output_format: OutputFormat
) -> PredictionWriter:
    """A function that adds two columns, tag and score, to each line of the files that holds a word.

    Several files become one, with a blank line between two of them. The new columns have the separator of
    their line, a tab or a space. A table of plain texts gets a column with the list of entities of each text.
    """
    first, *others = distinct_paths(source)
    if isinstance(records[0], TextRecord) if records else table_ending(first) in TABLE_ENDINGS:
        return create_table_writer(source, records, output_format)
    output_format.check_no_columns("a file of tagged words")
    if output_format.ending in TABLE_ENDINGS:
        raise InputError(
            f"{output_format.file} is a table, and tags are written beside words: name a .conll file"
        )
    input_lines = [*read_lines(first), *(line for file in others for line in ("", *read_lines(file)))]

    def write(predictions: Sequence[Any]) -> dict[str, str]:
        sentences = (zip(prediction.value, prediction.scores, strict=True) for prediction in predictions)
        tags_and_scores = itertools.chain.from_iterable(sentences)
        lines = []
        for line in input_lines:
            if _is_word(line):
                tag, score = next(tags_and_scores)
                separator = "\t" if "\t" in line else " "
                line = separator.join([line.rstrip(separator), tag, str(shortest(score))])
            lines.append(line + "\n")
        return {Path(first).name: "".join(lines)}

    return write


CONLL = DataFormat(read_tagged, create_tagged_writer)


def read_squad(file: str | os.PathLike, has_impossible: bool, needs_answers: bool) -> list[QuestionRecord]:
    """Reads the questions of a JSON file in SQuAD's format.

    Args:
      file: path of the file.
      has_impossible: True if questions may have no answer, as in version 2.0.
      needs_answers: True to refuse a question without an annotated answer, unless it is impossible; False to
        ignore the answers.
    Raises:
      InputError: the file is of the other version, or a needed answer is not at the stated place.
    """
    file = os.fspath(file)
    records: dict[str, QuestionRecord] = {}
    has_flags = False
    for where, context, question in _iterate_questions(file):
        name = question["id"]
        if name in records:
            raise InputError(f"{file}: two questions have the id {name!r}")
        has_flags |= "is_impossible" in question
        answers, is_impossible = _parse_answers(question, context, where) if needs_answers else ((), False)
        text = json_field(question, "question", str, where)
        records[name] = QuestionRecord(where, name, text, context, answers, is_impossible)
    if not records:
        raise InputError(f"{file} holds no questions")
    impossible = next((record for record in records.values() if record.is_impossible), None)
    if impossible and not has_impossible:
        raise InputError(f"{impossible.where} is impossible: train with `task` squad-v2.0")
    if has_impossible and needs_answers and not has_flags:
        raise InputError(f"{file}: no question has `is_impossible`: train with `task` squad-v1.1")
    return list(records.values())


def _iterate_questions(file: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yields the place, the context and the JSON object of each question."""
    for number, article in enumerate(json_field(read_json_data(file), "data", list, file)):
        where = f"{file}: article {number}"
        for paragraph in json_field(article, "paragraphs", list, where):
            context = json_field(paragraph, "context", str, where)
            for question in json_field(paragraph, "qas", list, where):
                yield f"{file}: question {json_field(question, 'id', str, where)}", context, question


def _parse_answers(question: dict[str, Any], context: str, where: str) -> tuple[tuple[Answer, ...], bool]:
    """The annotated answers, and True if the question is impossible, which then has none."""
    is_impossible = "is_impossible" in question and json_field(question, "is_impossible", bool, where)
    answers = [] if "answers" not in question else json_field(question, "answers", list, where)
    if is_impossible:
        return (), True
    if not answers:
        raise InputError(f"{where} has no answers")
    return tuple(_parse_answer(answer, context, where) for answer in answers), False


def _parse_answer(value: Any, context: str, where: str) -> Answer:
    text, start = json_field(value, "text", str, where), json_field(value, "answer_start", int, where)
    span = context[start : start + len(text)] if start >= 0 else ""
    if not text or span != text:
        raise InputError(f"{where}: answer {shorten(text)} is not at character {start}, but {shorten(span)}")
    return Answer(text, start)


def create_answer_writer(
    source: PathLike, records: Sequence[QuestionRecord], output_format: OutputFormat
) -> PredictionWriter:
    """A function that makes `predictions.json` and `nbest.json`, which SQuAD's evaluation scripts read.

    If questions may have no answer it makes `null_odds.json`, too. Higher odds mean a less likely answer.
    """
    output_format.check_folder("SQuAD")
    output_format.check_no_columns("SQuAD")
    counts = collections.Counter(record.id for record in records)
    if repeated := [key for key, count in counts.items() if count > 1]:
        raise InputError(f"two files have a question {shorten(repeated[0])}: predict for each by itself")

    def write(predictions: Sequence[Any]) -> dict[str, str]:
        by_id = {record.id: prediction for record, prediction in zip(records, predictions, strict=True)}
        contents: dict[str, dict[str, Any]] = {
            "predictions.json": {key: best.text() for key, best in by_id.items()},
            "nbest.json": {key: [answer._asdict() for answer in best.answers] for key, best in by_id.items()},
        }
        odds = {key: best.null_odds for key, best in by_id.items() if best.null_odds is not None}
        if odds:
            contents["null_odds.json"] = odds
        return {name: json_text(content) for name, content in contents.items()}

    return write


def squad_format(has_impossible: bool) -> DataFormat:
    """The format of SQuAD 2.0 with `has_impossible`, else of SQuAD 1.1."""
    return DataFormat(
        lambda file, needs_answers, _: read_squad(file, has_impossible, needs_answers),
        create_answer_writer,
        writes_folder=True,
    )


RACE_GROUPS = ("middle", "high")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def read_race(folder: str | os.PathLike) -> list[ChoiceRecord]:
    """Reads the questions of a split of RACE, the middle schools' first.

    The folder is `train`, `dev` or `test`, with `middle` and `high` in it, or one of these two. Each passage
    is a .txt file that holds JSON. Raises a FileNotFoundError if there are none.
    """
    folder = os.fspath(folder).rstrip("/")
    name = PurePath(folder).name
    groups = {name: folder} if name in RACE_GROUPS else {g: f"{folder}/{g}" for g in RACE_GROUPS}
    records = []
    for group, place in groups.items():
        names = tf.io.gfile.listdir(place) if tf.io.gfile.isdir(place) else []
        for file in sorted(names, key=lambda name: (len(name), name)):  # by their numbers
            if file.endswith(".txt"):
                records += _read_passage(f"{place}/{file}", group)
    if not records:
        raise FileNotFoundError(f"{folder}: no .txt files in its folders {' and '.join(RACE_GROUPS)}")
    return records


def _is_race_split(folder: str) -> bool:
    """True if the folder is a split of RACE or a group of a split; False for the folder of all splits."""
    is_group = PurePath(folder).name in RACE_GROUPS
    return is_group or any(tf.io.gfile.isdir(f"{folder}/{group}") for group in RACE_GROUPS)


def _read_passage(file: str, group: str) -> list[ChoiceRecord]:
    """Reads the questions of one passage."""
    passage = read_json_data(file)
    article = json_field(passage, "article", str, file)
    questions, options = (json_field(passage, name, list, file) for name in ("questions", "options"))
    answers = json_field(passage, "answers", list, file) if "answers" in passage else [None] * len(questions)
    if not len(questions) == len(options) == len(answers):
        counts = f"{len(questions)} questions, {len(options)} lists of options, {len(answers)} answers"
        raise InputError(f"{file}: {counts}: there must be one for each")
    return [
        _create_record(f"{file}: question {n}", f"{group}{PurePath(file).stem}-{n}", group, article, *values)
        for n, values in enumerate(zip(questions, options, answers, strict=True))
    ]


def read_choices(file: str | os.PathLike, needs_labels: bool = True) -> list[ChoiceRecord]:
    """Reads questions from JSON lines with `context`, `question`, `options` and perhaps `label`.

    The label is the number of the right option, from 0, or its letter, from A. Without `needs_labels` labels
    are ignored.
    """
    records = []
    for number, (line, value) in enumerate(read_json_lines(file)):
        where = f"{os.fspath(file)}:{line}"
        context = json_field(value, "context", str, where)
        question, options, label = (value.get(name) for name in ("question", "options", "label"))
        label = label if needs_labels else None
        records.append(_create_record(where, str(number), "", context, question, options, label))
    return records


def _create_record(
    where: str, number: str, group: str, context: str, question: Any, options: Any, label: Any
) -> ChoiceRecord:
    texts = [question, *options] if isinstance(options, list) else []
    if len(texts) < 3 or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{where}: a question needs two or more options, all of them text")
    if "" in options:
        raise InputError(f"{where}: options[{options.index('')}]='' is empty: leave it out")
    right = _parse_option(label, len(options), where)
    return ChoiceRecord(where, number, group, context, question, tuple(options), right)


def _parse_option(label: Any, count: int, where: str) -> int | None:
    """The number of the right option, from 0, of `count` options; None if the label is missing."""
    text = "" if is_missing(label) else normalize_label(cell_text(label).strip())
    letters = [*LETTERS[:count]]
    if text in letters:
        return letters.index(text)
    if text.isdecimal() and int(text) < count:
        return int(text)
    if text:
        problem = f"no number from 0 to {count - 1} and no letter of {LETTERS[:count]}"
        raise InputError(f"{where}: label {shorten(label)} is {problem}")
    return None


def create_choice_writer(
    source: Paths, records: Sequence[ChoiceRecord], output_format: OutputFormat
) -> PredictionWriter:
    """A function that adds two fields to JSON lines; predictions are letters where the labels are."""
    table = concat_tables([read_json_table(file) for file in distinct_paths(source)], are_json=True)
    labels = (
        [row.cells[table.column_index("label")] for row in table.rows] if "label" in table.columns else []
    )
    writer = table_prediction_writer(table, ".jsonl", output_format)
    if any(isinstance(label, str) and label.strip() in [*LETTERS] for label in labels):
        names = _option_names(records)
        return lambda predictions: writer([x._replace(value=names[x.value]) for x in predictions])
    return writer


def _option_names(records: Sequence[ChoiceRecord]) -> Sequence[str]:
    """The names of options: letters, or numbers where a question has more options than letters."""
    most = max((len(record.options) for record in records), default=0)
    return LETTERS if most <= len(LETTERS) else [*map(str, range(most))]


def create_passage_writer(
    source: PathLike, records: Sequence[ChoiceRecord], output_format: OutputFormat
) -> PredictionWriter:
    """A function that adds lists of predictions (letters) and scores to RACE's passages.

    The names of the files are their paths in the folder `source`.
    """
    output_format.check_folder("RACE's passages")
    question_files = [record.where.rpartition(": question ")[0] for record in records]
    passages = {file: read_json_data(file) for file in dict.fromkeys(question_files)}
    names = {file: output_format.columns(passage, file) for file, passage in passages.items()}
    options = _option_names(records)

    def write(predictions: Sequence[Any]) -> dict[str, str]:
        answers: dict[str, list[tuple[str, float]]] = {file: [] for file in passages}
        for file, prediction in zip(question_files, predictions, strict=True):
            answers[file].append((options[prediction.value], shortest(prediction.score)))
        texts = {}
        for file, passage in passages.items():
            columns = dict(zip(names[file], map(list, zip(*answers[file], strict=True)), strict=True))
            texts[os.path.relpath(file, source)] = dump_json(passage | columns) + "\n"
        return texts

    return write


RACE = DataFormat(
    lambda folder, *_: read_race(folder),
    create_passage_writer,
    lambda folder, name: read_race(f"{folder}/{name}"),
    is_split=_is_race_split,
)
QUESTIONS = DataFormat(lambda file, needs_labels, _: read_choices(file, needs_labels), create_choice_writer)
