"""The log of commands: plain lines of this project, and only errors of libraries."""

from __future__ import annotations

import logging as python_logging
import os
from pathlib import Path

from absl import flags, logging

_PROJECT = Path(__file__).absolute().parents[2]
_PACKAGES = tuple(str(_PROJECT / name) + os.sep for name in ("albert_tf", "hub_export"))


def start_log() -> None:
    """Directs absl.logging to stderr, or where absl's flags say."""
    handler = logging.get_absl_handler()
    handler.setFormatter(_Plain())
    handler.addFilter(_is_shown)
    if flags.FLAGS.log_dir:
        handler.use_absl_log_file("albert-tf")
    else:
        flags.FLAGS["logtostderr"].value = True  # to what is stderr now, not when absl was imported


class _Plain(logging.PythonFormatter):
    """Lines of this project as they are; in files, and with --showprefixforinfo, with absl's prefix."""

    def format(self, record: python_logging.LogRecord) -> str:
        """The line."""
        shown = flags.FLAGS["showprefixforinfo"]
        is_asked_for = flags.FLAGS.log_dir or (shown.value and not shown.using_default_value)
        if _is_ours(record) and not is_asked_for:
            return python_logging.Formatter.format(self, record)
        return super().format(record)


def _is_shown(record: python_logging.LogRecord) -> bool:
    """True for lines of this project and errors of libraries; with --verbosity 1 for all."""
    return _is_ours(record) or record.levelno >= python_logging.ERROR or logging.get_verbosity() > 0


def _is_ours(record: python_logging.LogRecord) -> bool:
    return record.pathname.startswith(_PACKAGES)
