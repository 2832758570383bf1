"""SIGTERM and Ctrl-C: the first asks a command to end in good order, the second ends its process at once."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, NamedTuple

Handler = Callable[[int, FrameType | None], Any]

_BOTH = (signal.SIGTERM, signal.SIGINT)


class _First:
    """A handler of the first signal.

    Args:
      handler: what it calls.
      then: what the next signal meets, of either kind.
    """

    def __init__(self, handler: Handler, then: Any):
        self.handler = handler
        self.then = then

    def __call__(self, number: int, frame: FrameType | None) -> None:
        for other in _BOTH:
            current = signal.getsignal(other)
            if isinstance(current, _First):
                signal.signal(other, current.then)
        self.handler(number, frame)


class End(NamedTuple):
    """How a process ends that a signal has told to."""

    status: int
    reason: str


_ends: list[End] = []


def end_in_order(status: int) -> None:
    """From now on, and for the whole process, the first signal raises what lets a command clean up.

    Args:
      status: the exit status after SIGTERM, which raises SystemExit; Ctrl-C raises KeyboardInterrupt.
    """

    def terminate(number: int, frame: FrameType | None) -> None:
        _ends.append(End(status, "stopped by SIGTERM"))
        sys.exit(status)

    def interrupt(number: int, frame: FrameType | None) -> None:
        _ends.append(End(128 + number, "interrupted"))
        raise KeyboardInterrupt

    _install(signal.SIGTERM, _First(terminate, signal.SIG_DFL))
    _install(signal.SIGINT, _First(interrupt, signal.SIG_DFL))


def told_to_end() -> End | None:
    """How the process ends if a signal has told it to, whatever a library has made of what that raised."""
    return _ends[0] if _ends else None


@contextlib.contextmanager
def first_signal(handlers: Mapping[signal.Signals, Handler]) -> Iterator[None]:
    """While entered, the first of these signals calls its handler; the second ends a command at once.

    Of a program that uses this as a library, the second meets the handler that was there before. Outside the
    main thread, where Python allows no signal handlers, nothing changes.

    Args:
      handlers: by signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.getsignal(number) for number in handlers}
    ours = {}
    for number, handler in handlers.items():
        outer = previous[number]
        ours[number] = _First(handler, outer.then if isinstance(outer, _First) else outer)
        _install(number, ours[number])
    try:
        yield
    finally:
        for number, handler in ours.items():
            if signal.getsignal(number) is handler:  # else a signal came: the next one is the second
                _install(number, previous[number])


def _install(number: signal.Signals, handler: Any) -> None:
    """Sets a handler; a signal that the process was started to ignore (nohup) stays ignored.

    A handler of Python waits until Python has its turn, which may take minutes while a C++ library computes.
    So the system itself is told to forget a _First as soon as its signal comes: the next one then ends the
    process, whatever it is doing. glibc can do this; elsewhere it takes until Python has its turn.
    """
    if signal.getsignal(number) is signal.SIG_IGN:
        return
    signal.signal(number, handler)
    system = ctypes.CDLL(None)
    if isinstance(handler, _First) and handler.then is signal.SIG_DFL and hasattr(system, "sysv_signal"):
        system.sysv_signal.restype = ctypes.c_void_p
        system.sysv_signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
        pythons = system.sysv_signal(number, None)  # gives back the handler that was there
        system.sysv_signal(number, pythons)
