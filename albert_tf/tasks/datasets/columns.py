"""Named columns of a table as records, and predictions as further columns."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from albert_tf.raw_text.paths import Paths
from albert_tf.tasks.datasets.formats import Content, DataFormat, Files, Form, PathLike, shortest
from albert_tf.tasks.datasets.tables import (
    ABSENT,
    NESTED,
    Table,
    known_ending,
    read_table,
    table_ending,
    table_text,
)
from albert_tf.tasks.examples.records import SEPARATOR, TextRecord
from albert_tf.utils.checks import is_missing
from albert_tf.utils.errors import InputError


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

    An InputError if columns are not named, or as `text_records`.
    """
    if columns is None or (needs_labels and columns.label is None):
        wanted = "--text and --label" if columns is None else "--label"
        raise InputError(f"{os.fspath(file)}: the columns of the table are not known: name them by {wanted}")
    columns = columns if needs_labels else columns._replace(label=None)
    if columns.label in (columns.text, columns.text_pair) and columns.label is not None:
        raise InputError(f"--label {columns.label} is the column of the texts, too: name that of the labels")
    return text_records(read_table(file), columns, has_lists)


def text_records(table: Table, columns: Columns, has_lists: bool = False) -> list[TextRecord]:
    """The rows of a table as records; with `has_lists` a label may be a list of several.

    A missing text is an empty one. An InputError if there is no such column, a text is a list or an object,
    or there are labels to read and no rows.
    """
    named = zip(columns, Columns._fields, strict=True)
    numbers = [None if name is None else table.number(name, argument) for name, argument in named]
    if columns.label is not None:
        table.check_rows()
    records = []
    for count, row in enumerate(table.rows):
        cells = [None if number is None else _text(row.cells[number], has_lists) for number in numbers]
        text, text_pair, label, row_id = cells
        if text is None or (columns.text_pair is not None and text_pair is None):
            name = columns.text if text is None else columns.text_pair
            raise InputError(f"{table.file}:{row.line}: the cell under {name!r} is not a text")
        label = (label or "").strip() or None  # else a space after one would make another
        records.append(TextRecord(table.file, row.line, row_id or str(count), text, text_pair, label))
    return records


def _text(value: Any, has_lists: bool) -> str | None:
    """A cell as text: empty if missing, numbers and truth values as JSON spells them; None for lists."""
    if value is ABSENT or is_missing(value):
        return ""
    if has_lists and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return SEPARATOR.join(value)
    if isinstance(value, int | float):
        return json.dumps(value)
    return value if isinstance(value, str) else None


def table_files(source: Paths, records: Sequence[TextRecord], form: Form) -> Files:
    """A table, or several as one, with columns of predictions and scores."""
    table = read_table(source)
    return extended_table(table, table_ending(table.file), form)


def extended_table(table: Table, ending: str, form: Form) -> Files:
    """A table with columns of predictions; several labels are a list, or joined where cells are texts.

    A list of objects, such as entities, stays one, and is JSON where cells are texts.
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
        return cells if ending in NESTED else SEPARATOR.join(map(str, cells))

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
