"""SIGTERM and Ctrl-C: the first asks a command to end in good order, the second ends it at once."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, NamedTuple

Handler = Callable[[int, FrameType | None], Any]


class End(NamedTuple):
    """Exit status and reason of a process that a signal ends."""

    status: int
    reason: str


_ends: list[End] = []


def end_in_order(status: int) -> None:
    """Makes the first signal raise an exception, so that the command cleans up.

    Args:
      status: the exit status after SIGTERM, which raises SystemExit; Ctrl-C raises KeyboardInterrupt.
    """

    def end(number: int, frame: FrameType | None) -> None:
        for each in (signal.SIGTERM, signal.SIGINT):
            _install(each, signal.SIG_DFL)
        if number == signal.SIGTERM:
            _ends.append(End(status, "stopped by SIGTERM"))
            sys.exit(status)
        _ends.append(End(128 + number, "interrupted"))
        raise KeyboardInterrupt

    _install(signal.SIGTERM, end)
    _install(signal.SIGINT, end)


def told_to_end() -> End | None:
    """Status and reason if a signal ends the process, whatever a library has made of the exception."""
    return _ends[0] if _ends else None


@contextlib.contextmanager
def first_signal(handlers: Mapping[signal.Signals, Handler]) -> Iterator[None]:
    """While entered, the first of these signals calls its handler; the second meets the previous handlers.

    Outside the main thread, where Python allows no signal handlers, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.getsignal(number) for number in handlers}

    def restore() -> None:
        for number, handler in previous.items():
            _install(number, handler)

    def first(number: int, frame: FrameType | None) -> None:
        restore()
        handlers[signal.Signals(number)](number, frame)

    for number in handlers:
        _install(number, first)
    try:
        yield
    finally:
        restore()


def _install(number: signal.Signals, handler: Any) -> None:
    """Sets a handler; a signal that the process was started to ignore (nohup) stays ignored."""
    if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, handler)
