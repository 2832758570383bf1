"""Runs a program under absl.app: flags, log, exit status, and one line for an error."""

from __future__ import annotations

import contextlib
import errno
import functools
import logging as python_logging
import os
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from absl import app, flags, logging
from absl.flags import argparse_flags

from albert_tf.errors import InputError, Preempted, Terminated, WorkFailed, is_tensorflow_error, suggestion

DONE = 0
FAILED = 1
MISTAKE = 2  # the user's
RESUME = 75  # EX_TEMPFAIL of sysexits.h: try again
INTERRUPTED = 130  # 128 + SIGINT, as in shells
TERMINATED = 143  # 128 + SIGTERM

# A user's mistakes. After other errors of the system (a full disk) the same command may work later.
_MISTAKES = (
    FileNotFoundError
    | FileExistsError
    | IsADirectoryError
    | NotADirectoryError
    | PermissionError
    | BlockingIOError  # another process uses the folder
)
_REMEDIES = {errno.ENOENT: ": correct the path", errno.ENAMETOOLONG: ": name another place"}
_MISTAKE_NUMBERS = (errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTEMPTY)

# Lines, and parts of lines, of a message of TensorFlow's runtime that do not name the problem.
_OTHER_LINES = re.compile(
    r"\s*(Graph execution error|Detected at node|File \"|<stack traces|\d+ root error|\[\[)|\s*$"
)
_OTHER_PARTS = re.compile(
    r"{{.*?}}|\[Op:[^]]*\]( name:)?|\[\[.*|^\s*\(0\) \w+: |"
    r"Error in user-defined function passed to .* with iterator: Iterator::\S+: "
)


def report_error(error: BaseException, prog: str, flags: Collection[str] = ()) -> int:
    """Prints one line on stderr that explains an error, and returns the exit status.

    Unexpected errors are raised again. With ALBERT_TF_TRACEBACK=1 in the environment all errors are.

    Args:
      error: the exception that ended the command.
      prog: name of the command, with which the line begins.
      flags: names of the command's flags. For these, `name` in the message becomes --name.
    Returns:
      The exit status; see `exit_status`.

    >>> report_error(InputError("name another `output`"), "it", ["output"])  # "it: name another --output"
    2
    """
    # A signal that arrives while TensorFlow makes an exception leaves only this text in its message.
    replaced = re.search(r"REPLACED BY Terminated: (\d+)", str(error))
    cause = Terminated(int(replaced[1])) if replaced else error
    status = exit_status(cause)
    if status is None or os.environ.get("ALBERT_TF_TRACEBACK") == "1":
        raise error
    line = re.sub(
        r"`(\w+)`", lambda match: f"--{match[1]}" if match[1] in flags else match[0], error_line(cause)
    )
    with contextlib.suppress(OSError):  # after SIGHUP there is no terminal
        print(f"{prog}: {line}", file=sys.stderr)
    return status


def exit_status(error: BaseException) -> int | None:
    """The exit status for an exception; None for an unexpected one."""
    if isinstance(error, InputError | _MISTAKES) or getattr(error, "errno", None) in _MISTAKE_NUMBERS:
        return MISTAKE
    if isinstance(error, OSError | WorkFailed) or is_tensorflow_error(error):
        return FAILED
    if isinstance(error, Preempted):
        return RESUME
    if isinstance(error, Terminated):
        return int(error.code or TERMINATED)
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else None


def error_line(error: BaseException) -> str:
    """The message of an exception in one line."""
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "interrupted"
    if isinstance(error, Terminated):
        return f"stopped by {error.signal_name}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}{_REMEDIES.get(error.errno or 0, '')}"
    text = _problem_line(str(getattr(error, "message", ""))) if is_tensorflow_error(error) else str(error)
    return " ".join(text.split()) or type(error).__name__


def _problem_line(message: str) -> str:
    """The line that names the problem in a message of TensorFlow's runtime, without the nodes of a graph."""
    lines = (_OTHER_PARTS.sub("", line) for line in message.splitlines() if not _OTHER_LINES.match(line))
    line = next(lines, "")
    asserted = re.match(r"\s*assertion failed: \[(.*)\]\s*$", line)  # the list of the Assert's data
    return asserted[1].replace("] [", " ") if asserted else line


# The code of this project: the log shows all of its lines.
_PROJECT = Path(__file__).absolute().parents[1]
_PACKAGES = tuple(str(_PROJECT / name) + os.sep for name in ("albert_tf", "hub_export"))


class Command(NamedTuple):
    """A command that is ready to run."""

    prog: str  # name for messages
    work: Callable[[], None]
    flags: Collection[str] = ()  # names of its flags


def run_command(parse: Callable[[Sequence[str]], Command], arguments: Sequence[str]) -> int:
    """Runs a command under absl.app, so that absl's flags (--verbosity, --pdb, …) work.

    Args:
      parse: function that parses a command line with a OneLineParser.
      arguments: the command line without the program's name.
    Returns:
      The exit status: 0, 2 for wrong flags, or the result of `report_error`.
    """

    def main(command: Command) -> int:
        try:
            _start_log()
            with _flush_output():
                command.work()
        except BaseException as error:
            return report_error(error, command.prog, command.flags)
        return DONE

    try:
        app.run(main, argv=sys.argv[:1] + list(arguments), flags_parser=lambda argv: parse(argv[1:]))
    except SystemExit as end:
        return int(end.code or 0)


@contextlib.contextmanager
def _flush_output() -> Iterator[None]:
    """Flushes standard output after the block. Otherwise Python reports an error only at its exit."""
    try:
        yield
    finally:
        try:
            print(end="", flush=True)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes again at its exit
            raise OSError(error.errno, error.strerror, "standard output") from error


def run_program(
    name: str,
    description: str,
    add_flags: Callable[[OneLineParser], None],
    run: Callable[[Any], None],
    arguments: Sequence[str] | None = None,
) -> None:
    """Runs a module as a program, `python -m NAME`. Raises SystemExit unless its exit status is 0.

    Args:
      name: name of the module.
      description: first line of its --help.
      add_flags: function that adds the flags to a parser.
      run: function of the parsed flags that does the work.
      arguments: the command line without the program's name; None: `sys.argv[1:]`.
    """

    def parse(arguments: Sequence[str]) -> Command:
        parser = OneLineParser(prog=f"python -m {name}", description=description)
        add_flags(parser)
        flags = parser.parse_args(arguments)
        # A list: `run` may remove flags from the namespace.
        return Command(parser.prog, functools.partial(run, flags), flags=list(vars(flags)))

    if status := run_command(parse, sys.argv[1:] if arguments is None else arguments):
        sys.exit(status)


class OneLineParser(argparse_flags.ArgumentParser):
    """A parser whose errors are one line, without the usage above it.

    It accepts no abbreviations, since absl has flags, too, and no empty values: if a variable of the shell is
    not set, an empty path would mean the current folder.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(allow_abbrev=False, **kwargs)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses as argparse does. Wrong flags of absl and empty values are errors."""
        try:
            parsed, others = super().parse_known_args(args, namespace)
        except flags.Error as error:
            self.error(" ".join(str(error).split()))
        for action in self._actions:
            value = getattr(parsed, action.dest, None)
            if value == "" or (isinstance(value, list) and "" in value):
                self.error(f"{'/'.join(action.option_strings) or action.dest} is empty: give it a value")
        return parsed, others

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses as argparse does. Unknown arguments are errors."""
        parsed, others = self.parse_known_args(args, namespace)
        self.refuse(others)
        return parsed

    def refuse(self, others: Sequence[str]) -> None:
        """Ends the program if there are arguments that no flag takes. The message suggests similar flags."""
        words = [word.partition("=")[0] for word in others if word.startswith("-")]
        if others:
            similar = suggestion(self._option_string_actions, *words)
            self.error(f"unrecognized arguments: {shlex.join(others)}{similar}")

    def error(self, message: str) -> NoReturn:
        """Ends the program with status 2."""
        self.exit(2, f"{self.prog}: {message} (--help lists the flags)\n")


def _start_log() -> None:
    """Directs absl.logging to stderr, or to a file in absl's --log_dir, which has absl's prefixes."""
    logging.use_absl_handler()  # app.run has done it once, but a library may have undone it
    handler = logging.get_absl_handler()
    handler.addFilter(_is_visible)
    if flags.FLAGS.log_dir:
        handler.use_absl_log_file("albert-tf")
    else:
        handler.setFormatter(_PlainFormatter())
        flags.FLAGS["logtostderr"].value = True  # to the present sys.stderr, not that of absl's import


class _PlainFormatter(logging.PythonFormatter):
    """Formats lines of this project without a prefix, and other lines with absl's prefix."""

    def format(self, record: python_logging.LogRecord) -> str:
        """The line of a record."""
        formatter = python_logging.Formatter if _is_ours(record) else logging.PythonFormatter
        return formatter.format(self, record)


def _is_visible(record: python_logging.LogRecord) -> bool:
    """True for lines of this project and for errors of libraries; with --verbosity 1 for all lines."""
    return _is_ours(record) or record.levelno >= python_logging.ERROR or logging.get_verbosity() > 0


def _is_ours(record: python_logging.LogRecord) -> bool:
    return record.pathname.startswith(_PACKAGES)
