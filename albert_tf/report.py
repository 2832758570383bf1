"""The content of a report: metrics by name, and tables, some of which can be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.io import csv_text

MAX_ROWS = 40  # of a table on a terminal
_PER_LINE = 6  # metrics on a line of a terminal
_MAX_WIDTH = 32  # characters of a cell on a terminal

# Ways of drawing a table.
LINES = "lines"  # a line for each name in the first column, of the second column against the third
POINTS = "points"  # points (second column, third column), and the diagonal
# A line through the points (second, third column). The last column, a number of examples, is a point's area.
CALIBRATION = "calibration"
GRID = "grid"  # numbers of examples, a row for each name in the first column


class ReportTable(NamedTuple):
    """A table with names of columns.

    Attributes:
      name: name of its files, without the extension.
      title: heading of the table.
      columns: names of the columns.
      rows: rows of cells, which are text, numbers or None.
      chart: LINES, POINTS, CALIBRATION or GRID; None: it is not drawn.
      is_brief: True if a terminal shows it, too.
      mark: for LINES, a vertical line: its label and its position on the second column's axis.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    chart: str | None = None
    is_brief: bool = False
    mark: tuple[str, float] | None = None

    def csv(self) -> str:
        """The table as CSV."""
        return csv_text([self.columns, *self.rows])

    def text(self) -> list[str]:
        """The lines of the table on a terminal, with at most MAX_ROWS rows."""
        rows = [
            [_shorten_cell(format_cell(cell)) for cell in row]
            for row in (self.columns, *self.rows[:MAX_ROWS])
        ]
        first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
        lines = [
            "  ".join([name.ljust(first), *map(str.rjust, cells, widths)]).rstrip() for name, *cells in rows
        ]
        others = len(self.rows) - MAX_ROWS
        return [*lines, f"and {others} more"] if others > 0 else lines


class Report(NamedTuple):
    """Metrics, tables and notes of an evaluation."""

    metrics: Mapping[str, float]
    tables: Sequence[ReportTable] = ()
    notes: Sequence[str] = ()

    def text(self) -> list[str]:
        """The lines of a report on a terminal."""
        metrics = [f"{name} {format_cell(value)}" for name, value in self.metrics.items()]
        lines = ["  ".join(metrics[n : n + _PER_LINE]) for n in range(0, len(metrics), _PER_LINE)]
        lines += self.notes
        for table in self.tables:
            if table.is_brief and table.rows:
                lines += ["", f"{table.title}:", *table.text()]
        return lines

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON: metrics by name, `notes`, and `tables` as lists of objects."""
        tables = {
            table.name: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
            for table in self.tables
        }
        return {**self.metrics, "notes": list(self.notes), "tables": tables}


def format_cell(cell: Any) -> str:
    """A cell as text for people: three decimals, empty for None."""
    if cell is None:
        return ""
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)


def _shorten_cell(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_WIDTH else f"{text[: _MAX_WIDTH - 1]}…"
