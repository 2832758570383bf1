"""The folder of a report: one page of HTML, which holds its pictures, and the same as JSON, CSV and PNG."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from albert_tf.reports.content import Report, Table, shown
from albert_tf.reports.drawing import picture
from albert_tf.utils.files import json_text, new_directory

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
    figures = Table("", "Figures", ("figure", "value"), list(report.figures.items()))
    first, *others = (_section(table, pictures.get(table.name)) for table in (figures, *report.tables))
    sections = [first, *(f"<p>{html.escape(note)}</p>" for note in report.notes), *others]
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{_STYLE}</style>'
    body = "\n".join([f"<h1>{html.escape(title)}</h1>", *sections])
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{body}\n</body>\n</html>\n'


def _section(table: Table, picture: bytes | None) -> str:
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
        return f'<td class="number">{shown(cell)}</td>'
    return f"<td><div>{html.escape(shown(cell))}</div></td>"
