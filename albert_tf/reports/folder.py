"""The folder of a report: a page, and the same as JSON, CSV and PNG."""

from __future__ import annotations

from pathlib import Path

from albert_tf.reports.content import Report
from albert_tf.reports.drawing import picture
from albert_tf.reports.page import page
from albert_tf.utils.files import json_text, new_directory

PAGE, CONTENT = "report.html", "report.json"


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
        (place / PAGE).write_text(page(title, report, pictures), encoding="utf-8")
    return folder / PAGE
