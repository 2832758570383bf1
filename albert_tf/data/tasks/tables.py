"""Tables of named columns: CSV as RFC 4180 quotes it, TSV whose quotes are literal, JSON lines."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.data.tasks.text_files import read_json_lines, read_lines, read_text
from albert_tf.errors import InputError, shown


class Row(NamedTuple):
    """A row of a table."""

    line: int  # where it begins, from 1
    cells: Sequence[Any]  # in the order of the columns; None where JSON has no such field


@dataclasses.dataclass(frozen=True)
class Table:
    """The rows of a file under the names of their columns.

    Args:
      file: where they are from.
      columns: the names.
      rows: at least one.
    """

    file: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...] = dataclasses.field(repr=False)

    def number(self, column: str) -> int:
        """Which column has a name; an InputError where none or several have."""
        if self.columns.count(column) != 1:
            problem = "several columns are called" if column in self.columns else "there is no column"
            raise InputError(f"{self.file}: {problem} {column!r}; the columns are {', '.join(self.columns)}")
        return self.columns.index(column)

    def extended(self, file: str, columns: Mapping[str, Sequence[Any]]) -> Table:
        """The table for another file with further columns; those of the same name give way."""
        kept = [number for number, name in enumerate(self.columns) if name not in columns]
        rows = [
            Row(row.line, [*(row.cells[number] for number in kept), *added])
            for row, added in zip(self.rows, zip(*columns.values(), strict=True), strict=True)
        ]
        return Table(file, (*(self.columns[number] for number in kept), *columns), tuple(rows))


# What else people separate columns by.
_OTHER_MARKS = {";": "semicolons", "\t": "tabs"}


def read_table(file: str | os.PathLike) -> Table:
    """A table in the format that the file's name ends in: .csv, .tsv or .jsonl.

    Args:
      file: CSV and TSV name their columns in the first line; of JSON lines the fields are the columns.
    Raises:
      FileNotFoundError: there is no such file.
      InputError: the name ends otherwise, the file is empty or not UTF-8, or a row does not fit.
    """
    file = os.fspath(file)
    suffix = os.path.splitext(file)[1].lower()  # noqa: PTH122
    if suffix not in FORMATS:
        raise InputError(f"{file} ends in none of {', '.join(FORMATS)}, the formats of tables")
    return FORMATS[suffix](file)


def _read_csv(file: str) -> Table:
    rows = _csv_rows(file)
    header = next(rows)
    between = next((what for mark, what in _OTHER_MARKS.items() if mark in header.cells[0]), None)
    if len(header.cells) == 1 and between:
        raise InputError(
            f"{file}: the columns are separated by {between}: save it with commas, or with tabs as .tsv"
        )
    return _headed(file, header, rows)


def _csv_rows(file: str) -> Iterator[Row]:
    text = read_text(file)
    before = csv.field_size_limit(len(text))  # the module's own limit is below the length of long documents
    # Split at line feeds alone: other line breaks of Unicode are part of a text.
    reader = csv.reader((line + "\n" for line in text.removesuffix("\n").split("\n")), strict=True)
    try:
        line = 1
        for cells in reader:
            yield Row(line, cells or [""])
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{file}:{line}: the row is not CSV ({error}): a quote in a quoted cell is written twice, and a "
            "line break is in a quoted cell"
        ) from None
    finally:
        csv.field_size_limit(before)


def read_tsv(file: str, columns: tuple[str, ...] | None = None, broken_lines: bool = False) -> Table:
    """A table of cells between tabs, in which quotes are characters like others.

    Args:
      file: its path.
      columns: their names where no first line has them.
      broken_lines: whether cells may hold line breaks: rows that are too short go on in the next line.
    Raises:
      FileNotFoundError: there is no such file.
      InputError: the file is empty or not UTF-8, or a row has more or fewer cells than there are columns.
    """
    lines = [Row(line, text.split("\t")) for line, text in enumerate(read_lines(file), start=1)]
    header = Row(0, columns) if columns else lines.pop(0)
    return _headed(file, header, _joined(lines, len(header.cells)) if broken_lines else iter(lines))


def _joined(lines: Sequence[Row], width: int) -> Iterator[Row]:
    """Rows put together from lines that line breaks in cells have made of them."""
    begun: Row | None = None
    for row in lines:
        if begun is not None:
            first, *others = row.cells
            row = Row(begun.line, [*begun.cells[:-1], f"{begun.cells[-1]} {first}", *others])
        begun = row if len(row.cells) < width else None
        if begun is None:
            yield row
    if begun is not None:
        yield begun


def _headed(file: str, header: Row, rows: Iterator[Row]) -> Table:
    """The table of a header and rows of the same length."""
    checked = []
    for row in rows:
        if len(row.cells) != len(header.cells):
            raise InputError(
                f"{file}:{row.line}: {len(row.cells)} cells where there are {len(header.cells)} columns "
                f"({', '.join(header.cells)})"
            )
        checked.append(row)
    return _table(file, tuple(header.cells), checked)


def _read_json_lines(file: str) -> Table:
    objects = list(read_json_lines(file))
    columns = tuple(dict.fromkeys(name for _, value in objects for name in value))
    rows = [Row(line, [value.get(name) for name in columns]) for line, value in objects]
    return _table(file, columns, rows)


def _table(file: str, columns: tuple[str, ...], rows: Sequence[Row]) -> Table:
    if not rows:
        raise InputError(f"{file} has no rows, only the names of its columns")
    return Table(file, columns, tuple(rows))


def table_text(table: Table) -> str:
    """What a file holds that `read_table` reads the table of, in the format that its name ends in.

    Raises:
      InputError: a cell has a tab or a line break, which TSV cannot write.
    """
    suffix = os.path.splitext(table.file)[1].lower()  # noqa: PTH122
    if suffix == ".jsonl":
        objects = [dict(zip(table.columns, row.cells, strict=True)) for row in table.rows]
        there = [{name: value for name, value in line.items() if value is not None} for line in objects]
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in there)
    rows = [table.columns, *(row.cells for row in table.rows)]
    if suffix == ".csv":
        written = io.StringIO(newline="")
        csv.writer(written, lineterminator="\n").writerows(rows)
        return written.getvalue()
    for cell in (cell for row in rows for cell in row if {"\t", "\n", "\r"} & set(str(cell))):
        raise InputError(f"{table.file}: TSV has no way to write {shown(cell)}: name a .csv or .jsonl file")
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def cell_text(value: Any) -> str | None:
    """A cell as text: JSON's numbers and truth values as JSON spells them; None for null and for lists."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, int | float) else None


FORMATS: dict[str, Callable[[str], Table]] = {
    ".csv": _read_csv,
    ".tsv": read_tsv,
    ".jsonl": _read_json_lines,
}
