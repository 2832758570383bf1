"""Named columns of a table as records: the user's own data, and what GLUE's files hold."""

from __future__ import annotations

from typing import NamedTuple

from albert_tf.data.tasks.records import TextRecord
from albert_tf.data.tasks.tables import Row, Table, cell_text
from albert_tf.errors import InputError


class Columns(NamedTuple):
    """Which columns of a table an example consists of."""

    text: str
    text_pair: str | None = None
    label: str | None = None  # None where there are no labels
    id: str | None = None  # None: the rows are counted from 0


def text_records(table: Table, columns: Columns) -> list[TextRecord]:
    """The rows of a table as records.

    Args:
      table: what was read.
      columns: which of it to take.
    Raises:
      InputError: there is no such column, or a row has no text in it.
    """
    numbers = [None if name is None else table.number(name) for name in columns]

    def cell(row: Row, place: int) -> str | None:
        number = numbers[place]
        return None if number is None else cell_text(row.cells[number])

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
