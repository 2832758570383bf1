"""SIGTERM and Ctrl-C: a command ends in good order."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, NoReturn

from albert_tf.utils.errors import Terminated

Handler = Callable[[int, FrameType | None], Any]


def end_in_order(status: int) -> None:
    """Makes SIGTERM raise Terminated with an exit status, so that the command cleans up as at Ctrl-C."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise Terminated(status)

    signal.signal(signal.SIGTERM, end)


@contextlib.contextmanager
def signal_handlers(handlers: Mapping[signal.Signals, Handler]) -> Iterator[None]:
    """While entered, these signals call these handlers, but for one that the process ignores (nohup).

    Outside the main thread, where Python allows no signal handlers, nothing changes.
    """
    previous = {}
    if threading.current_thread() is threading.main_thread():
        previous = {
            number: signal.signal(number, handler)
            for number, handler in handlers.items()
            if signal.getsignal(number) is not signal.SIG_IGN
        }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
