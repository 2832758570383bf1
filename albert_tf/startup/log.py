"""The log of commands: plain lines of this project, and only errors of libraries."""

from __future__ import annotations

import logging as python_logging
import os
from pathlib import Path

from absl import flags, logging

_PROJECT = Path(__file__).absolute().parents[2]
_PACKAGES = tuple(str(_PROJECT / name) + os.sep for name in ("albert_tf", "hub_export"))


def start_log() -> None:
    """Directs absl.logging to stderr, or where absl's flags say; a file of --log_dir has absl's prefixes."""
    handler = logging.get_absl_handler()
    handler.addFilter(_is_shown)
    if flags.FLAGS.log_dir:
        handler.use_absl_log_file("albert-tf")
    else:
        handler.setFormatter(_Plain())
        flags.FLAGS["logtostderr"].value = True  # to what is stderr now, not when absl was imported


class _Plain(logging.PythonFormatter):
    """Lines of this project as they are, others with absl's prefix."""

    def format(self, record: python_logging.LogRecord) -> str:
        """The line."""
        formatter = python_logging.Formatter if _is_ours(record) else logging.PythonFormatter
        return formatter.format(self, record)


def _is_shown(record: python_logging.LogRecord) -> bool:
    """True for lines of this project and errors of libraries; with --verbosity 1 for all."""
    return _is_ours(record) or record.levelno >= python_logging.ERROR or logging.get_verbosity() > 0


def _is_ours(record: python_logging.LogRecord) -> bool:
    return record.pathname.startswith(_PACKAGES)
