"""Content of a report: figures by name and tables, some of which can be drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.io import csv_text

MAX_ROWS = 40  # of a table on a terminal
_PER_LINE = 6  # figures there
_MAX_WIDTH = 32  # characters of a cell there

# Ways of drawing a table.
LINES = "lines"  # a line for each name in the first column, of the second column against the third
POINTS = "points"  # the same as points, beside the diagonal where both are equal
CALIBRATION = "calibration"  # the same, and the last column is the number of examples of each point
GRID = "grid"  # numbers of examples, a row for each name in the first column


class ReportTable(NamedTuple):
    """Rows under names of columns.

    Attributes:
      name: of its files.
      title: in words.
      columns: names.
      rows: of cells: text, numbers, or None.
      chart: the way to draw it, if any.
      is_brief: True if it is shown on a terminal, too.
      mark: of LINES: a place in the second column that is marked, and its name before it.
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
        """The lines of the table on a terminal, the first rows of many."""
        rows = [[_cut(format_cell(cell)) for cell in row] for row in (self.columns, *self.rows[:MAX_ROWS])]
        first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
        lines = [
            "  ".join([name.ljust(first), *map(str.rjust, cells, widths)]).rstrip() for name, *cells in rows
        ]
        left = len(self.rows) - MAX_ROWS
        return [*lines, f"and {left} more"] if left > 0 else lines


class Report(NamedTuple):
    """Figures and tables of an evaluation, and notes on them."""

    figures: Mapping[str, float]
    tables: Sequence[ReportTable] = ()
    notes: Sequence[str] = ()

    def text(self) -> list[str]:
        """The lines of a report on a terminal."""
        figures = [f"{name} {format_cell(value)}" for name, value in self.figures.items()]
        lines = ["  ".join(figures[n : n + _PER_LINE]) for n in range(0, len(figures), _PER_LINE)]
        lines += self.notes
        for table in self.tables:
            if table.is_brief and table.rows:
                lines += ["", f"{table.title}:", *table.text()]
        return lines

    def content(self) -> dict[str, Any]:
        """All of it as JSON has it: the figures by name, `notes`, and `tables`, lists of objects by name."""
        tables = {
            table.name: [dict(zip(table.columns, map(_plain, row), strict=True)) for row in table.rows]
            for table in self.tables
        }
        figures = {name: _plain(value) for name, value in self.figures.items()}
        return {**figures, "notes": list(self.notes), "tables": tables}


def format_cell(cell: Any) -> str:
    """A cell as people read it."""
    if cell is None:
        return ""
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)


def _plain(cell: Any) -> Any:
    """A cell as JSON can have it, which knows no NaN."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_WIDTH else f"{text[: _MAX_WIDTH - 1]}…"
