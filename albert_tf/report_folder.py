"""A report as a folder: pictures by matplotlib, JSON, CSV and one page."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from albert_tf.io import json_text, new_directory
from albert_tf.report import CALIBRATION, GRID, LINES, POINTS, Report, ReportTable, format_cell

_MAX_MARKED = 40  # points of a line that are marked
_MAX_NAMES = 40  # rows of a grid whose names can be read
_MAX_NUMBERS = 15  # rows of a grid whose numbers can be read
_MAX_PIECES = 400  # named on a side of all maps
_LARGEST = 160.0  # area of a point of calibration


def picture(tables: Sequence[ReportTable], form: str = "png") -> bytes:
    """The content of a file with a picture of tables, side by side; its form is one of matplotlib's."""
    sizes = [_size(table) for table in tables]
    figure = Figure(figsize=(sum(width for width, _ in sizes), max(height for _, height in sizes)))
    figure.set_layout_engine("constrained")
    for place, table in enumerate(tables, start=1):
        axes = figure.add_subplot(1, len(tables), place)
        assert table.chart is not None
        _CHARTS[table.chart](axes, table)
        axes.set_title(table.title)
    return _content(figure, form)


def grid_of_maps(maps: np.ndarray, pieces: Sequence[str]) -> bytes:
    """The content of a PNG file with attention maps [L, N, T, T], a layer a row, a head a column.

    The T pieces name the rows and columns of each map where they are few.
    """
    rows, columns, size, _ = maps.shape
    is_named = size * max(rows, columns) <= _MAX_PIECES
    side = max(0.1 * size, 1.0) if is_named else 1.6  # of a map, in inches
    gap = max(size // 16, 1)
    tiles = np.pad(maps, [(0, 0), (0, 0), (0, gap), (0, gap)], constant_values=np.nan)
    whole = tiles.transpose(0, 2, 1, 3).reshape(rows * (size + gap), columns * (size + gap))
    figure = Figure(figsize=(side * columns + 2.4, side * rows + 1.6), layout="constrained")
    axes = figure.add_subplot()
    axes.set_facecolor("tab:gray")  # between the maps
    # The root shows small probabilities, of which most are.
    shades = PowerNorm(0.5, vmin=0, vmax=1)
    image = axes.imshow(whole, cmap="viridis", norm=shades, interpolation="nearest")
    figure.colorbar(image, ax=axes, label="probability", shrink=min(1.0, 4 / (side * rows)), pad=0.02)
    middles = [np.arange(count) * (size + gap) + (size - 1) / 2 for count in (columns, rows)]
    heads, layers = axes.secondary_xaxis("top"), axes.secondary_yaxis("right")
    heads.set_xticks(middles[0], [str(n + 1) for n in range(columns)])
    layers.set_yticks(middles[1], [str(n + 1) for n in range(rows)])
    heads.set_xlabel("head")
    layers.set_ylabel("layer")
    axes.set(xlabel="to", ylabel="from", xticks=[], yticks=[])
    if is_named:
        starts = [np.arange(count)[:, np.newaxis] * (size + gap) for count in (columns, rows)]
        places = [(start + np.arange(size)).ravel() for start in starts]
        axes.set_xticks(places[0], [*pieces] * columns, rotation=90, fontsize=5)
        axes.set_yticks(places[1], [*pieces] * rows, fontsize=5)
        axes.tick_params(length=1, pad=1)
    return _content(figure)


def _content(figure: Figure, form: str = "png") -> bytes:
    """The content of a file with a figure."""
    content = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "albert_tf"}):
        figure.savefig(content, dpi=120, format=form)
    return content.getvalue()


def _size(table: ReportTable) -> tuple[float, float]:
    """Width and height in inches."""
    if table.chart == LINES:  # with room for the legend
        return 5.0, 4.0 + 0.1 * len({row[0] for row in table.rows})
    if table.chart != GRID:
        return 5.0, 3.8
    count = min(len(table.rows), _MAX_NAMES)
    side = 2.4 + 0.42 * min(count, _MAX_NUMBERS) + 0.2 * max(count - _MAX_NUMBERS, 0)  # inches
    return max(side + 0.8, 4.0), max(side, 3.4)


def _lines(axes: Any, table: ReportTable) -> None:
    names = list(dict.fromkeys(row[0] for row in table.rows))
    for name in names:
        x, y = zip(*(row[1:3] for row in table.rows if row[0] == name), strict=True)
        marker = "o" if len(x) <= _MAX_MARKED else None
        axes.plot(x, y, label=name, marker=marker, markersize=3)
    axes.set(xlabel=table.columns[1], ylabel=table.columns[2])
    axes.grid(alpha=0.3)
    if all(isinstance(row[1], int) for row in table.rows):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if table.mark is not None:
        axes.axvline(table.mark[1], label=table.mark[0], color="gray", linestyle="--", linewidth=1)
    if names:  # below, where it covers nothing
        axes.legend(frameon=False, fontsize="small", ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.17))


def _points(axes: Any, table: ReportTable) -> None:
    x, y = np.array([row[1:3] for row in table.rows], float).reshape([-1, 2]).T
    ends = [min(x.min(initial=0), y.min(initial=0)), max(x.max(initial=0), y.max(initial=0))]
    axes.plot(ends, ends, color="gray", linestyle="--", linewidth=1)
    axes.scatter(x, y, s=10, alpha=0.5, linewidths=0)
    axes.set(xlabel=table.columns[1], ylabel=table.columns[2])
    axes.grid(alpha=0.3)


def _calibration(axes: Any, table: ReportTable) -> None:
    axes.plot([0, 1], [0, 1], color="gray", linestyle="--", linewidth=1)
    x, y, counts = np.array([(row[1], row[2], row[-1]) for row in table.rows], float).reshape([-1, 3]).T
    axes.plot(x, y, color="tab:blue", linewidth=1)
    axes.scatter(x, y, s=_LARGEST * counts / counts.max(initial=1) + 6)
    axes.set(xlabel=f"{table.columns[1]} (area: {table.columns[-1]})", ylabel=table.columns[2])
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    axes.grid(alpha=0.3)


def _grid(axes: Any, table: ReportTable) -> None:
    """Shades are shares of a row: a rare label is seen as well as a frequent one."""
    names, counts = [str(row[0]) for row in table.rows], np.array([row[1:] for row in table.rows], float)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set(xlabel="predicted", ylabel="true", xticks=[], yticks=[])
    if len(names) <= _MAX_NAMES:
        short = [name if len(name) <= 20 else f"{name[:19]}…" for name in names]
        axes.set_xticks(range(len(names)), short, rotation=45, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(names)), short)
    if len(names) <= _MAX_NUMBERS:
        for (row, column), count in np.ndenumerate(counts):
            color = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, f"{count:.0f}", ha="center", va="center", color=color, fontsize="small")


_CHARTS: dict[str, Callable[[Any, ReportTable], None]] = {
    LINES: _lines,
    POINTS: _points,
    CALIBRATION: _calibration,
    GRID: _grid,
}


PAGE, CONTENT = "report.html", "report.json"

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #222; max-width: 62em; margin: 2em auto; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin: 2em 0 .5em; }
table { border-collapse: collapse; }
th, td { padding: .25em .7em; border-bottom: 1px solid #ddd; vertical-align: top; }
th { text-align: left; white-space: nowrap; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
td div { max-height: 9em; max-width: 34em; overflow: auto; white-space: pre-wrap; }
img { max-width: 100%; }
"""


def write_report(folder: Path, title: str, report: Report) -> Path:
    """Writes a report, whole or not at all, and returns the path of its page.

    The folder, which is new or empty, gets report.html, which has the title, report.json, a .csv for each
    table, and a .png for each that can be drawn. Raises as `new_directory` does.
    """
    with new_directory(folder) as place:
        pictures = {}
        for table in report.tables:
            (place / f"{table.name}.csv").write_text(table.csv(), encoding="utf-8")
            if table.chart is not None and table.rows:
                pictures[table.name] = picture([table])
                (place / f"{table.name}.png").write_bytes(pictures[table.name])
        (place / CONTENT).write_text(json_text(report.content()), encoding="utf-8")
        (place / PAGE).write_text(_page(title, report, pictures), encoding="utf-8")
    return folder / PAGE


def _page(title: str, report: Report, pictures: Mapping[str, bytes]) -> str:
    """The text of a page: pictures, as PNG by the name of their table, and the rows of other tables."""
    figures = ReportTable("", "Figures", ("figure", "value"), list(report.figures.items()))
    first, *others = (_section(table, pictures.get(table.name)) for table in (figures, *report.tables))
    sections = [first, *(f"<p>{html.escape(note)}</p>" for note in report.notes), *others]
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{_STYLE}</style>'
    body = "\n".join([f"<h1>{html.escape(title)}</h1>", *sections])
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{body}\n</body>\n</html>\n'


def _section(table: ReportTable, picture: bytes | None) -> str:
    heading = f"<h2>{html.escape(table.title)}</h2>"
    if picture is None:
        return heading + (_rows(table.columns, table.rows) if table.rows else "<p>None.</p>")
    source = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
    return f'{heading}<img alt="{html.escape(table.title)}" src="{source}">'


def _rows(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"


def _cell(cell: Any) -> str:
    if isinstance(cell, int | float):
        return f'<td class="number">{format_cell(cell)}</td>'
    return f"<td><div>{html.escape(format_cell(cell))}</div></td>"
