"""Start and end of a program: flags and log under absl.app, exit code and the line that explains it."""

from __future__ import annotations

import contextlib
import difflib
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

from albert_tf.errors import InputError, Preempted, Terminated, WorkFailed, is_tensorflows

DONE = 0
FAILED = 1
MISTAKE = 2  # the user's
RESUME = 75  # EX_TEMPFAIL of sysexits.h: try again
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
TERMINATED = 143  # 128 + SIGTERM

# Mistakes about files. After other errors of the system (a full disk) the same command may work later.
_MISTAKES = (
    FileNotFoundError
    | FileExistsError
    | IsADirectoryError
    | NotADirectoryError
    | PermissionError
    | BlockingIOError  # of a folder that another process uses
)
_REMEDIES = {errno.ENOENT: ": correct the path", errno.ENAMETOOLONG: ": name another place"}
_MISTAKEN = (errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTEMPTY)

# What TensorFlow's runtime puts around the line that says what is wrong.
_AROUND = re.compile(
    r"\s*(Graph execution error|Detected at node|File \"|<stack traces|\d+ root error|\[\[)|\s*$"
)
_IN_LINE = re.compile(
    r"{{.*?}}|\[Op:[^]]*\]( name:)?|\[\[.*|^\s*\(0\) \w+: |"
    r"Error in user-defined function passed to .* with iterator: Iterator::\S+: "
)


def report_error(error: BaseException, prog: str, flags: Collection[str] = ()) -> int:
    """Prints the line on stderr that explains what ended a command; returns the exit status.

    Errors that nobody has foreseen are raised again; with ALBERT_TF_TRACEBACK=1 in the environment, all are.

    Args:
      error: what was raised.
      prog: the command, as the line names it.
      flags: names of arguments that are flags of the command: `name` in a message becomes --name.

    >>> report_error(InputError("name another `output`"), "it", ["output"])  # "it: name another --output"
    2
    """
    # The signal may come as TensorFlow makes an exception of its own; then only this text is left of it.
    replaced = re.search(r"REPLACED BY Terminated: (\d+)", str(error))
    told = Terminated(int(replaced[1])) if replaced else error
    status = status_of(told)
    if status is None or os.environ.get("ALBERT_TF_TRACEBACK") == "1":
        raise error
    line = re.sub(
        r"`(\w+)`", lambda found: f"--{found[1]}" if found[1] in flags else found[0], one_line(told)
    )
    with contextlib.suppress(OSError):  # after SIGHUP there is no terminal
        print(f"{prog}: {line}", file=sys.stderr)
    return status


def status_of(error: BaseException) -> int | None:
    """The exit status for what went wrong; None for what nobody has foreseen."""
    if isinstance(error, InputError | _MISTAKES) or getattr(error, "errno", None) in _MISTAKEN:
        return MISTAKE
    if isinstance(error, OSError | WorkFailed) or is_tensorflows(error):
        return FAILED
    if isinstance(error, Preempted):
        return RESUME
    if isinstance(error, Terminated):
        return int(error.code or TERMINATED)
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else None


def one_line(error: BaseException) -> str:
    """The message of an exception in one line."""
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "interrupted"
    if isinstance(error, Terminated):
        return f"stopped by {error.signal_name}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}{_REMEDIES.get(error.errno or 0, '')}"
    text = _innermost(str(getattr(error, "message", ""))) if is_tensorflows(error) else str(error)
    return " ".join(text.split()) or type(error).__name__


def _innermost(message: str) -> str:
    """The line of a message of TensorFlow's runtime that says what is wrong, without the nodes of a graph."""
    lines = (_IN_LINE.sub("", line) for line in message.splitlines() if not _AROUND.match(line))
    said = next(lines, "")
    asserted = re.match(r"\s*assertion failed: \[(.*)\]\s*$", said)  # a list of what the Assert was given
    return asserted[1].replace("] [", " ") if asserted else said


# The code of this project, of which the log shows all.
_PROJECT = Path(__file__).absolute().parents[1]
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
            with _naming_output():
                command.work()
        except BaseException as error:
            return report_error(error, command.prog, command.flags)
        return DONE

    try:
        app.run(main, argv=sys.argv[:1] + list(arguments), flags_parser=lambda argv: parse(argv[1:]))
    except SystemExit as end:
        return int(end.code or 0)


@contextlib.contextmanager
def _naming_output() -> Iterator[None]:
    """Writes what the block prints; an OSError where that fails, of which Python tells only at its end."""
    try:
        yield
    finally:
        try:
            print(end="", flush=True)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python will write it once more
            raise OSError(error.errno, error.strerror, "standard output") from error


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
