"""Named columns of a table as records, and predictions as further columns."""

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
from albert_tf.tasks.examples import SEPARATOR, TextRecord
from albert_tf.tasks.formats import Content, DataFormat, OutputFormat, PredictionWriter, shortest
from albert_tf.tasks.tables import (
    ABSENT,
    NESTED,
    Table,
    known_ending,
    read_table,
    spell_cell,
    table_ending,
    table_text,
)
from albert_tf.text.files import Paths

# Types of cells that are read as texts.
_SPELLED = (str, int, float, decimal.Decimal, datetime.date, datetime.time, datetime.timedelta)


class Columns(NamedTuple):
    """The columns of a table that an example consists of."""

    text: str
    text_pair: str | None = None
    label: str | None = None  # None where there are no labels
    id: str | None = None  # None: the rows are counted from 0


def own_records(
    file: PathLike, needs_labels: bool, columns: Columns | None, has_lists: bool = False
) -> list[TextRecord]:
    """Rows of a user's table as records; without `needs_labels` labels are left out.

    An InputError if columns are not named, or as `read_text_records`.
    """
    if columns is None or (needs_labels and columns.label is None):
        wanted = "--text and --label" if columns is None else "--label"
        raise InputError(f"{os.fspath(file)}: the columns of the table are not known: name them by {wanted}")
    columns = columns if needs_labels else columns._replace(label=None)
    if columns.label in (columns.text, columns.text_pair) and columns.label is not None:
        raise InputError(f"--label {columns.label} is the column of the texts, too: name that of the labels")
    return read_text_records(read_table(file), columns, has_lists)


def read_text_records(table: Table, columns: Columns, has_lists: bool = False) -> list[TextRecord]:
    """The rows of a table as records; with `has_lists` a label may be a list of several.

    A missing text is an empty one. An InputError if there is no such column, a cell is of another type than
    texts, numbers, truth values and dates, or there are labels to read and no rows.
    """
    named = {field: name for field, name in columns._asdict().items() if name is not None}
    places = {field: table.number(name, field) for field, name in named.items()}
    label_place = places.pop("label", None)
    if label_place is not None and not table.rows:
        raise InputError(f"{table.file} has no rows, only the names of its columns: add some")
    records = []
    for count, row in enumerate(table.rows):
        where = f"{table.file}:{row.line}"
        texts = {field: _parse_text(row.cells[place], named[field], where) for field, place in places.items()}
        label = (
            None
            if label_place is None
            else _parse_label(row.cells[label_place], named["label"], where, has_lists)
        )
        row_id = texts.get("id") or str(count)
        records.append(
            TextRecord(table.file, row.line, row_id, texts["text"], texts.get("text_pair"), label or None)
        )
    return records


def _parse_text(value: Any, column: str, where: str) -> str:
    """A cell as text, empty if it is missing; an InputError where its type is none that is spelled."""
    if value is ABSENT or is_missing(value):
        return ""
    if isinstance(value, _SPELLED):
        return spell_cell(value)
    problem = f"the cell under {column!r} is of type {type(value).__name__}, not a text: {shorten(value)}"
    raise InputError(f"{where}: {problem}: write a text; several labels are of `task` multi_label")


def _parse_label(value: Any, column: str, where: str, has_lists: bool) -> str | tuple[str, ...]:
    """A cell of a label, or with `has_lists` of several; an InputError where one of a list is missing."""
    if has_lists and isinstance(value, str) and value.lstrip().startswith("["):  # a list in CSV
        try:
            listed = json.loads(value)
        except (ValueError, RecursionError):  # else a label such as [draft]
            if re.match(r"\s*\[\s*['\"]", value):
                problem = f"{shorten(value)} under {column!r} is no list in JSON"
                raise InputError(f'{where}: {problem}: write ["a", "b"], or a|b') from None
        else:
            check_json(listed, f"{where}: {column!r}", is_data=True)
            value = listed
    if not has_lists or not isinstance(value, list):
        return _parse_text(value, column, where).strip()  # else a space after one would make another
    if any(map(is_missing, value)):
        raise InputError(f"{where}: null is among the labels {shorten(value)} under {column!r}: leave it out")
    return tuple(_parse_text(item, column, where) for item in value)


def table_files(source: Paths, records: Sequence[TextRecord], form: OutputFormat) -> PredictionWriter:
    """A table, or several as one, with columns of predictions and scores."""
    table = read_table(source)
    return extended_table(table, table_ending(table.file), form)


def extended_table(table: Table, ending: str, form: OutputFormat) -> PredictionWriter:
    """A table with columns of predictions; several labels are a list, or joined where cells are texts.

    There, too, a list stays one if a label would be taken for several, and if it is of objects, such as
    entities.
    """
    ending = known_ending(form.file) if form.file else ending
    columns = form.columns(table.columns, table.file)
    table_text(table.extended(dict.fromkeys(columns, [""] * len(table.rows))), ending)  # or an error now

    def cell(value: Any) -> Any:
        if isinstance(value, str | int | list):
            return value
        if isinstance(value, np.floating):
            return shortest(value)
        cells = [cell(item) for item in value]
        is_list = ending in NESTED or any(SEPARATOR in str(x) or str(x).startswith("[") for x in cells)
        return cells if is_list else SEPARATOR.join(map(str, cells))

    def cells(found: Any) -> list[Any]:
        value, score = found.value, found.score
        if form.top_k is not None:
            places = found.order[: form.top_k]
            value, score = tuple(form.labels[place] for place in places), found.scores[places]
        return [*map(cell, (value, score)), *(map(cell, found.scores) if form.probabilities else ())]

    def files(predictions: Sequence[Any]) -> dict[str, Content]:
        added = list(zip(*map(cells, predictions), strict=True)) or [()] * len(columns)
        extended = table.extended(dict(zip(columns, added, strict=True)))
        return {Path(table.file).name: table_text(extended, ending)}

    return files


TABLE = DataFormat(own_records, table_files)
TABLE_OF_LISTS = DataFormat(functools.partial(own_records, has_lists=True), table_files)
