"""Exceptions: mistakes of the user, work that failed, work that was stopped."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable


class InputError(ValueError):
    """An argument, setting or file is wrong; the message names the value and the remedy.

    Commands show it as one line. Any other ValueError is a bug and keeps its traceback.
    """


class Missing(FileNotFoundError, InputError):
    """A file that the user named does not exist."""


class WorkFailed(RuntimeError):
    """The work went wrong on its way, though nothing was wrong with what was asked for; as one line, too."""


class Preempted(BaseException):
    """The work was asked to stop, or lost another host; the same command goes on from what is saved.

    Like KeyboardInterrupt it is not an Exception, so that no library's handler takes it for one of its own.
    """


class Terminated(SystemExit):
    """SIGTERM or SIGHUP has come: the command is to clean up and end with this status."""

    def __init__(self, status: int, signal_name: str = "SIGTERM"):
        super().__init__(status)
        self.signal_name = signal_name


def exists_already(path: object, remedy: str = "name another place") -> FileExistsError:
    """The error of something that is in the way of what is to be written."""
    return FileExistsError(f"{path} exists already: {remedy}")


def shown(value: object) -> str:
    """A value in an error's one line, cut where it is long; a text keeps its closing quote."""
    text = repr(value)
    if len(text) <= 60:
        return text
    return f"{text[:57]}…{text[-1]}" if isinstance(value, str) else f"{text[:57]}…"


def listed(words: Iterable[str], most: int = 10) -> str:
    """Words in an error's or a log's one line: the first ones of many."""
    first = [*words]
    more = f" and {len(first) - most} more" if len(first) > most else ""
    return ", ".join(first[:most]) + more


def is_tensorflows(error: BaseException) -> bool:
    """True for an error of TensorFlow's runtime; TensorFlow is not imported to find out."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(error, tensorflow.errors.OpError)


def system_error(error: BaseException) -> OSError | None:
    """The error of the system that an error of TensorFlow's runtime tells of, with its file; else None.

    TensorFlow knows it only as text, `path; No space left on device`, wherever in its message.
    """
    message = str(getattr(error, "message", "")) if is_tensorflows(error) else ""
    for number in errno.errorcode:
        around = r"(?:.*}} )?(?:Error in user-defined function .* with iterator: \S+: )?"
        if found := re.search(f"^{around}(.*); {re.escape(os.strerror(number))}", message, re.MULTILINE):
            return OSError(number, os.strerror(number), found[1])
    return None
