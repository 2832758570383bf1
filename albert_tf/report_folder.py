"""Writes a report as a folder: plots by matplotlib, JSON, CSV and an HTML page."""

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

from albert_tf.io import json_text, new_local_folder
from albert_tf.report import CALIBRATION, GRID, LINES, POINTS, Report, ReportTable, format_cell

_MAX_MARKED = 40  # points of a line with markers
_MAX_NAMES = 40  # rows of a grid with names; more cannot be read
_MAX_NUMBERS = 15  # rows of a grid with numbers; more cannot be read
_MAX_PIECES = 400  # tokens named along a side of all attention maps
_LARGEST_AREA = 160.0  # of a point in a calibration plot


# Files are the same each time, and a label such as "$5" is no formula.
_PLOT_STYLE: dict[str, Any] = {"svg.hashsalt": "albert_tf", "text.parse_math": False}


@matplotlib.rc_context(_PLOT_STYLE)
def draw_tables(tables: Sequence[ReportTable], form: str = "png") -> bytes:
    """Draws tables side by side. Returns the content of an image file in a format of matplotlib."""
    sizes = [_figure_size(table) for table in tables]
    figure = Figure(figsize=(sum(width for width, _ in sizes), max(height for _, height in sizes)))
    figure.set_layout_engine("constrained")
    for place, table in enumerate(tables, start=1):
        axes = figure.add_subplot(1, len(tables), place)
        assert table.chart is not None
        if table.chart != GRID:
            axes.set(xlabel=table.columns[1], ylabel=table.columns[2])
            axes.grid(alpha=0.3)
        _CHARTS[table.chart](axes, table)
        axes.set_title(table.title)
    return _render(figure, form)


@matplotlib.rc_context(_PLOT_STYLE)
def draw_attention_maps(maps: np.ndarray, pieces: Sequence[str]) -> bytes:
    """Draws attention maps, one layer per row and one head per column.

    Args:
      maps: probabilities, [L, N, T, T], from a token to a token.
      pieces: the T tokens. They name the rows and columns of each map if they are few.
    Returns:
      The content of a PNG file.
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
    # The square root makes small probabilities visible: most of them are small.
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
    return _render(figure)


def _render(figure: Figure, form: str = "png") -> bytes:
    """The content of an image file of a figure."""
    content = io.BytesIO()
    figure.savefig(content, dpi=120, format=form)
    return content.getvalue()


def _figure_size(table: ReportTable) -> tuple[float, float]:
    """Width and height of a plot, in inches."""
    if table.chart == LINES:  # with room for the legend
        return 5.0, 4.0 + 0.1 * len({row[0] for row in table.rows})
    if table.chart != GRID:
        return 5.0, 3.8
    count = min(len(table.rows), _MAX_NAMES)
    side = 2.4 + 0.42 * min(count, _MAX_NUMBERS) + 0.2 * max(count - _MAX_NUMBERS, 0)  # inches
    return max(side + 0.8, 4.0), max(side, 3.4)


def _draw_lines(axes: Any, table: ReportTable) -> None:
    names = list(dict.fromkeys(row[0] for row in table.rows))
    for name in names:
        x, y = zip(*(row[1:3] for row in table.rows if row[0] == name), strict=True)
        marker = "o" if len(x) <= _MAX_MARKED else None
        axes.plot(x, y, label=name, marker=marker, markersize=3)
    if all(isinstance(row[1], int) for row in table.rows):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if table.mark is not None:
        axes.axvline(table.mark[1], label=table.mark[0], color="gray", linestyle="--", linewidth=1)
    if names:  # below the plot, where it covers nothing
        axes.legend(frameon=False, fontsize="small", ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.17))


def _draw_points(axes: Any, table: ReportTable) -> None:
    x, y = np.array([row[1:3] for row in table.rows], float).reshape([-1, 2]).T
    ends = [min(x.min(initial=0), y.min(initial=0)), max(x.max(initial=0), y.max(initial=0))]
    axes.plot(ends, ends, color="gray", linestyle="--", linewidth=1)
    axes.scatter(x, y, s=10, alpha=0.5, linewidths=0)


def _draw_calibration(axes: Any, table: ReportTable) -> None:
    axes.plot([0, 1], [0, 1], color="gray", linestyle="--", linewidth=1)
    x, y, counts = np.array([(row[1], row[2], row[-1]) for row in table.rows], float).reshape([-1, 3]).T
    axes.plot(x, y, color="tab:blue", linewidth=1)
    axes.scatter(x, y, s=_LARGEST_AREA * counts / counts.max(initial=1) + 6)
    axes.set_xlabel(f"{table.columns[1]} (area: {table.columns[-1]})")
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))


def _draw_grid(axes: Any, table: ReportTable) -> None:
    """Draws a grid of counts. A shade is the share of its row, so that rare labels are visible, too."""
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
    LINES: _draw_lines,
    POINTS: _draw_points,
    CALIBRATION: _draw_calibration,
    GRID: _draw_grid,
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
    """Writes a report as a folder, whole or not at all.

    The files are report.html, report.json, a .csv for each table, and a .png for each table with a chart.

    Args:
      folder: the folder, which is new or empty.
      title: heading of the page.
      report: the report.
    Returns:
      The path of report.html.
    Raises:
      OSError: the folder is not new or empty, or cannot be written.
    """
    with new_local_folder(folder) as place:
        images = {}
        for table in report.tables:
            (place / f"{table.name}.csv").write_text(table.csv(), encoding="utf-8")
            if table.chart is not None and table.rows:
                images[table.name] = draw_tables([table])
                (place / f"{table.name}.png").write_bytes(images[table.name])
        (place / CONTENT).write_text(json_text(report.to_dict()), encoding="utf-8")
        (place / PAGE).write_text(_page_html(title, report, images), encoding="utf-8")
    return folder / PAGE


def _page_html(title: str, report: Report, images: Mapping[str, bytes]) -> str:
    """The page: the PNG images, by the name of their table, and the rows of the tables without an image."""
    figures = ReportTable("", "Figures", ("figure", "value"), list(report.metrics.items()))
    first, *others = (_section_html(table, images.get(table.name)) for table in (figures, *report.tables))
    sections = [first, *(f"<p>{html.escape(note)}</p>" for note in report.notes), *others]
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{_STYLE}</style>'
    body = "\n".join([f"<h1>{html.escape(title)}</h1>", *sections])
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{body}\n</body>\n</html>\n'


def _section_html(table: ReportTable, image: bytes | None) -> str:
    heading = f"<h2>{html.escape(table.title)}</h2>"
    if image is None:
        return heading + (_table_html(table.columns, table.rows) if table.rows else "<p>None.</p>")
    source = f"data:image/png;base64,{base64.b64encode(image).decode()}"
    return f'{heading}<img alt="{html.escape(table.title)}" src="{source}">'


def _table_html(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "\n".join("<tr>" + "".join(map(_cell_html, row)) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"


def _cell_html(cell: Any) -> str:
    if isinstance(cell, int | float):
        return f'<td class="number">{format_cell(cell)}</td>'
    return f"<td><div>{html.escape(format_cell(cell))}</div></td>"
