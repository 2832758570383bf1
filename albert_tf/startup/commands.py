"""Start of commands: flags and log under absl.app, and TensorFlow without its messages."""

from __future__ import annotations

import contextlib
import difflib
import functools
import logging as python_logging
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from absl import app, flags, logging
from absl.flags import argparse_flags

from albert_tf.startup.exits import DONE, report_error

# The code of this project, of which the log shows all.
_PROJECT = Path(__file__).absolute().parents[2]
_PACKAGES = tuple(str(_PROJECT / name) + os.sep for name in ("albert_tf", "hub_export"))


class Command(NamedTuple):
    """A command that is ready to run."""

    prog: str  # its name in the line of an error
    work: Callable[[], None]
    flags: Collection[str] = ()  # names of its arguments


def run_command(parse: Callable[[Sequence[str]], Command], arguments: Sequence[str]) -> int:
    """Runs a command as absl.app runs programs, so that absl's flags (--verbosity, --pdb, …) are understood.

    Args:
      parse: parses a command line, by a OneLineParser.
      arguments: the command line without the program's name.
    Returns:
      The exit status: 0, 2 for wrong flags, or that of `report_error`.
    """

    def main(command: Command) -> int:
        try:
            _start_log()
            command.work()
        except BaseException as error:
            return report_error(error, command.prog, command.flags)
        return DONE

    try:
        app.run(main, argv=sys.argv[:1] + list(arguments), flags_parser=lambda argv: parse(argv[1:]))
    except SystemExit as end:
        return int(end.code or 0)


def run_program(
    name: str,
    description: str,
    add_flags: Callable[[OneLineParser], None],
    run: Callable[[Any], None],
    arguments: Sequence[str] | None = None,
) -> None:
    """Runs a module that is a program, `python -m NAME`; SystemExit with its status, unless that is 0.

    The arguments are the command line without the program's name; None: that of the process.
    """

    def parse(arguments: Sequence[str]) -> Command:
        parser = OneLineParser(prog=f"python -m {name}", description=description)
        add_flags(parser)
        return Command(parser.prog, functools.partial(run, parser.parse_args(arguments)))

    if status := run_command(parse, sys.argv[1:] if arguments is None else arguments):
        sys.exit(status)


class OneLineParser(argparse_flags.ArgumentParser):
    """A parser whose errors are one line, without the usage above it.

    It takes no abbreviations, since absl has flags of its own, and no empty values: an empty path would mean
    the current folder where a variable of the shell is not set.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(allow_abbrev=False, **kwargs)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse's; wrong flags of absl and empty values are errors."""
        try:
            found, others = super().parse_known_args(args, namespace)
        except flags.Error as error:
            self.error(" ".join(str(error).split()))
        for action in self._actions:
            value = getattr(found, action.dest, None)
            if value == "" or (isinstance(value, list) and "" in value):
                self.error(f"{'/'.join(action.option_strings) or action.dest} is empty: give it a value")
        return found, others

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse's."""
        found, others = self.parse_known_args(args, namespace)
        self.refuse(others)
        return found

    def refuse(self, others: Sequence[str]) -> None:
        """Ends the program if there are arguments that no flag takes; flags that look alike are named."""
        words = [word.partition("=")[0] for word in others if word.startswith("-")]
        alike = [
            flag for word in words for flag in difflib.get_close_matches(word, self._option_string_actions, 1)
        ]
        if others:
            meant = f": did you mean {', '.join(alike)}?" if alike else ""
            self.error(f"unrecognized arguments: {shlex.join(others)}{meant}")

    def error(self, message: str) -> NoReturn:
        """Ends the program with status 2."""
        self.exit(2, f"{self.prog}: {message} (--help lists the flags)\n")


@contextlib.contextmanager
def quiet_start() -> Iterator[None]:
    """Keeps what is written to stderr while TensorFlow is imported and finds its devices.

    No setting silences what it says about oneDNN and CUDA. It is shown only if the block raises.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # for what comes after
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")  # the same; its warnings surround the line of an error
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as held_back:
        os.dup2(held_back.fileno(), 2)
        try:
            yield
            import tensorflow as tf

            tf.config.list_physical_devices()
        except Exception:
            held_back.seek(0)
            os.write(stderr, held_back.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def _start_log() -> None:
    """Directs absl.logging to stderr, or where absl's flags say; a file of --log_dir has absl's prefixes."""
    logging.use_absl_handler()  # which app.run does once, and a library may have undone
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
