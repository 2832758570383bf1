"""Exit statuses of commands, and the line on stderr that explains them."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Collection

from albert_tf.utils.errors import InputError, Preempted, Terminated, WorkFailed, is_tensorflows

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
        remedy = ": correct the path" if isinstance(error, FileNotFoundError) else ""
        return f"{os.fsdecode(error.filename)}: {error.strerror}{remedy}"
    text = _innermost(str(getattr(error, "message", ""))) if is_tensorflows(error) else str(error)
    return " ".join(text.split()) or type(error).__name__


def _innermost(message: str) -> str:
    """The line of a message of TensorFlow's runtime that says what is wrong, without the nodes of a graph."""
    lines = (_IN_LINE.sub("", line) for line in message.splitlines() if not _AROUND.match(line))
    said = next(lines, "")
    asserted = re.match(r"\s*assertion failed: \[(.*)\]\s*$", said)  # a list of what the Assert was given
    return asserted[1].replace("] [", " ") if asserted else said
