"""SIGTERM, SIGHUP and Ctrl-C: a command ends in good order."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, NoReturn

from albert_tf.utils.errors import Terminated

Handler = Callable[[int, FrameType | None], Any]

ENDING = (signal.SIGTERM, signal.SIGHUP)  # signals that ask a command to end
PATIENCE = 3.0  # seconds that a command has after one of them, where it waits for something outside of Python


def end_in_order(status: int) -> None:
    """Makes SIGTERM and SIGHUP raise Terminated with a status, so that the command cleans up as at Ctrl-C.

    Python raises nothing while TensorFlow waits for input: a command that is still there after PATIENCE ends
    with this status at once, and leaves hidden temporary folders, as one that is killed.
    """

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise Terminated(status, signal.Signals(number).name)

    def end_at_last(number: signal.Signals) -> None:
        if number in ENDING:
            time.sleep(PATIENCE)
            if signal.getsignal(number) is end:
                exit_now(status, f"stopped by {number.name}")

    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, end)
    watch = signal_watch(end_at_last)
    watch.__enter__()
    atexit.register(watch.__exit__, None, None, None)  # which keeps it alive


def exit_now(status: int, line: str) -> NoReturn:
    """Ends the process, from any thread, without a clean-up."""
    with contextlib.suppress(OSError):  # the terminal may be gone
        os.write(2, f"{line}\n".encode())
    os._exit(status)


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


@contextlib.contextmanager
def signal_watch(react: Callable[[signal.Signals], None]) -> Iterator[None]:
    """While entered, a thread calls a function for each signal that has a handler, whatever the program does.

    Handlers wait until the main thread is back in Python. Outside the main thread nothing is watched.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def watch() -> None:
        while number := os.read(reading, 1):
            react(signal.Signals(number[0]))
        os.close(reading)

    threading.Thread(target=watch, daemon=True).start()
    previous = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous)
        os.close(writing)
