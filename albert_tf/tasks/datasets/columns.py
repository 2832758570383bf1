"""Named columns of a table as records: the user's own data, and what GLUE's files hold."""

from __future__ import annotations

import os
from typing import NamedTuple

from albert_tf.tasks.datasets.tables import Row, Table, cell_text, read_table
from albert_tf.tasks.examples.records import SEPARATOR, TextRecord
from albert_tf.utils.errors import InputError


class Columns(NamedTuple):
    """The columns of a table that an example consists of."""

    text: str
    text_pair: str | None = None
    label: str | None = None  # None where there are no labels
    id: str | None = None  # None: the rows are counted from 0


def own_records(
    file: str | os.PathLike[str], needs_labels: bool, columns: Columns | None, has_lists: bool = False
) -> list[TextRecord]:
    """Rows of a user's table as records.

    Args:
      file: its path.
      needs_labels: False leaves labels out.
      columns: to take of it.
      has_lists: True if JSON lines may have a list of labels.
    Raises:
      FileNotFoundError: there is no such file.
      InputError: columns are not named, or as `text_records`.
    """
    if columns is None:
        raise InputError(f"{os.fspath(file)}: --text names the column of the texts: it is missing")
    if needs_labels and columns.label is None:
        raise InputError(f"{os.fspath(file)}: --label names the column of the labels: it is missing")
    return text_records(
        read_table(file), columns if needs_labels else columns._replace(label=None), has_lists
    )


def text_records(table: Table, columns: Columns, has_lists: bool = False) -> list[TextRecord]:
    """The rows of a table as records.

    Args:
      table: what was read.
      columns: to take of it.
      has_lists: True if a label may be a list of several.
    Raises:
      InputError: there is no such column, or a row has no text in it.
    """
    numbers = [None if name is None else table.number(name) for name in columns]

    def cell(row: Row, place: int) -> str | None:
        number = numbers[place]
        value = None if number is None else row.cells[number]
        if has_lists and isinstance(value, list) and all(isinstance(item, str) for item in value):
            return SEPARATOR.join(value)
        return cell_text(value)

    records = []
    for count, row in enumerate(table.rows):
        text, text_pair, label, row_id = (cell(row, place) for place in range(len(columns)))
        label = (label or "").strip() or None  # else a space behind one would make another
        for name, value in ((columns.text, text), (columns.text_pair, text_pair)):
            if name is not None and value is None:
                raise InputError(f"{table.file}:{row.line}: the row has no text under {name!r}")
        records.append(
            TextRecord(
                table.file,
                row.line,
                str(count) if row_id is None else row_id,
                text or "",
                text_pair,
                label,
            )
        )
    return records
