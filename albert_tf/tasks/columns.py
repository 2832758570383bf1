"""Reads records from the named columns of a table, and writes predictions as further columns."""

from __future__ import annotations

import datetime
import decimal
import functools
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from albert_tf.errors import InputError, check_json, is_missing, shorten
from albert_tf.io import PathLike
from albert_tf.tasks.examples import TextRecord
from albert_tf.tasks.formats import Content, DataFormat, OutputFormat, PredictionWriter, shortest
from albert_tf.tasks.tables import (
    ABSENT,
    NESTED,
    Table,
    cell_text,
    check_table_ending,
    read_table,
    table_ending,
    table_text,
)
from albert_tf.text.files import Paths

# Signs between several labels in a cell, unless the user names another. The first one is written.
LABEL_SEPARATORS = (";", "|")

# Types of cells that are read as texts.
_TEXT_TYPES = (str, int, float, decimal.Decimal, datetime.date, datetime.time, datetime.timedelta)


class Columns(NamedTuple):
    """Names of the columns of a table that make an example."""

    text: str
    text_pair: str | None = None
    label: str | None = None  # None where there are no labels
    id: str | None = None  # None: the rows are counted from 0
    label_separator: str | None = None  # between several labels in a cell; None: any of LABEL_SEPARATORS

    @property
    def names(self) -> dict[str, str]:
        """The names of the columns that there are."""
        names = self._asdict() | {"label_separator": None}
        return {field: name for field, name in names.items() if name is not None}


def read_user_table(
    file: PathLike, needs_labels: bool, columns: Columns | None, has_lists: bool = False
) -> list[TextRecord]:
    """Reads the rows of a user's table as records; without `needs_labels` labels are left out.

    With `has_lists` a label may be a list of several. Raises an InputError if columns are not named or a
    separator has no use, and the InputErrors of `read_table` and `read_text_records`.
    """
    missing = ["`text`"] if columns is None else []
    if needs_labels and (columns is None or columns.label is None):
        missing.append("`label`")
    if columns is None or missing:
        problem = f"{os.fspath(file)}: the columns of the table are not known"
        raise InputError(f"{problem}: name them by {' and '.join(missing)}")
    if columns.label_separator == "":
        raise InputError("`label_separator` is empty: name the sign between two labels")
    if columns.label_separator is not None and not has_lists:
        raise InputError("`label_separator`: of no use where a text has one label, leave it out")
    columns = columns if needs_labels else columns._replace(label=None)
    if columns.label in (columns.text, columns.text_pair) and columns.label is not None:
        raise InputError(f"`label` {columns.label} is the column of the texts, too: name that of the labels")
    return read_text_records(read_table(file), columns, has_lists)


def read_text_records(table: Table, columns: Columns, has_lists: bool = False) -> list[TextRecord]:
    """Converts the rows of a table to records; with `has_lists` a label may be a list of several.

    A missing text becomes an empty one. Raises an InputError if there is no such column, if a cell is not a
    text, number, truth value or date, or if there are labels to read and no rows.
    """
    names = columns.names
    numbers = {field: table.column_index(name, field) for field, name in names.items()}
    label_number = numbers.pop("label", None)
    if label_number is not None and not table.rows:
        raise InputError(f"{table.file} has no rows, only the names of its columns: add some")
    records = []
    for count, row in enumerate(table.rows):
        where = f"{table.file}:{row.line}"
        texts = {field: _parse_text(row.cells[n], names[field], where) for field, n in numbers.items()}
        label: str | tuple[str, ...] | None = None
        if label_number is not None:
            cell = row.cells[label_number]
            if has_lists:
                label = _parse_labels(cell, names["label"], where, columns.label_separator) or None
            else:
                label = _parse_text(cell, names["label"], where).strip() or None  # "a " and "a" are one label
        row_id = texts.get("id") or str(count)
        records.append(TextRecord(table.file, row.line, row_id, texts["text"], texts.get("text_pair"), label))
    return records


def _parse_text(value: Any, column: str, where: str) -> str:
    """A cell as text, empty if it is missing; an InputError if its type is not one of `_TEXT_TYPES`."""
    if value is ABSENT or is_missing(value):
        return ""
    if isinstance(value, _TEXT_TYPES):
        return cell_text(value)
    problem = f"the cell under {column!r} is of type {type(value).__name__}, not a text: {shorten(value)}"
    raise InputError(f"{where}: {problem}: write a text; several labels are of `task` multi_label")


def _parse_labels(value: Any, column: str, where: str, separator: str | None) -> tuple[str, ...]:
    """The labels in a cell: a list, also as JSON, or a text; an InputError if one in a list is missing."""
    if isinstance(value, str) and value.lstrip().startswith("["):  # a list in CSV
        try:
            labels = json.loads(value)
        except (ValueError, RecursionError):  # an error only if it looks like a list: [draft] is a label
            if re.match(r"\s*\[\s*['\"]", value):
                problem = f"{shorten(value)} under {column!r} is no list in JSON"
                raise InputError(
                    f'{where}: {problem}: write ["a", "b"], or a{LABEL_SEPARATORS[0]}b'
                ) from None
        else:
            check_json(labels, f"{where}: {column!r}", is_data=True)
            value = labels
    if not isinstance(value, list):
        separators = LABEL_SEPARATORS if separator is None else (separator,)
        labels = re.split("|".join(map(re.escape, separators)), _parse_text(value, column, where))
        return tuple(filter(None, map(str.strip, labels)))
    if any(map(is_missing, value)):
        raise InputError(f"{where}: null is among the labels {shorten(value)} under {column!r}: leave it out")
    return tuple(_parse_text(item, column, where) for item in value)


def create_table_writer(
    source: Paths, records: Sequence[TextRecord], output_format: OutputFormat
) -> PredictionWriter:
    """A function that adds columns of predictions and scores to a table, or to several as one."""
    table = read_table(source)
    return table_prediction_writer(table, table_ending(table.file), output_format)


def table_prediction_writer(table: Table, ending: str, output_format: OutputFormat) -> PredictionWriter:
    """A function that adds columns of predictions to a table.

    Several labels become a list in JSON lines and Parquet, and one text with separators elsewhere. A list
    stays a list everywhere if a label holds a separator, and if it is of objects, such as entities.
    """
    ending = check_table_ending(output_format.file) if output_format.file else ending
    columns = output_format.columns(table.columns, table.file)
    separators = (output_format.label_separator,) if output_format.label_separator else LABEL_SEPARATORS
    # Errors of the output are raised now, not after the prediction.
    table_text(table.add_columns(dict.fromkeys(columns, [""] * len(table.rows))), ending)

    def to_cell(value: Any) -> Any:
        if isinstance(value, str | int | list):
            return value
        if isinstance(value, np.floating):
            return shortest(value)
        items = [to_cell(item) for item in value]
        is_list = ending in NESTED or any(
            str(item).startswith("[") or any(separator in str(item) for separator in separators)
            for item in items
        )
        return items if is_list else separators[0].join(map(str, items))

    def to_cells(prediction: Any) -> list[Any]:
        value, score = prediction.value, prediction.score
        if output_format.top_k is not None:
            best = prediction.order[: output_format.top_k]
            value, score = tuple(output_format.labels[n] for n in best), prediction.scores[best]
        probabilities = prediction.scores if output_format.probabilities else ()
        return [to_cell(item) for item in (value, score, *probabilities)]

    def write(predictions: Sequence[Any]) -> dict[str, Content]:
        values = list(zip(*map(to_cells, predictions), strict=True)) or [()] * len(columns)
        with_predictions = table.add_columns(dict(zip(columns, values, strict=True)))
        return {Path(table.file).name: table_text(with_predictions, ending)}

    return write


TABLE = DataFormat(read_user_table, create_table_writer)
TABLE_OF_LISTS = DataFormat(functools.partial(read_user_table, has_lists=True), create_table_writer)
