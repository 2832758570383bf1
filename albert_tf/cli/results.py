"""Reports as commands give them: lines in the log, and a folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from absl import logging

from albert_tf.cli.flags import Flags
from albert_tf.utils.files import check_new

if TYPE_CHECKING:
    from albert_tf.reports.content import Report


def report_flag(parser: Flags) -> None:
    """The folder of a report."""
    text = "new folder for all figures, tables, curves and the worst errors: report.html, JSON, CSV and PNG"
    parser.add_argument("--report", metavar="FOLDER", help=text)


def check_report(flags: argparse.Namespace) -> None:
    """Refuses a folder that is there already, before work is done."""
    if flags.report is not None:
        check_new(Path(flags.report))


def give_report(report: Report, folder: str | None, title: str) -> None:
    """Logs the lines of a report, and writes it where a folder is named."""
    for line in report.text():
        logging.info(line)
    if folder is not None:
        from albert_tf.reports.folder import write_report  # draws, for which matplotlib takes a second

        logging.info("wrote %s", write_report(Path(folder), title, report))
