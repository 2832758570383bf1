"""Signals of the process (SIGTERM, SIGHUP, Ctrl-C), and importing TensorFlow without its messages."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, NoReturn

from absl import logging

from albert_tf.errors import Preempted, Terminated
from albert_tf.program import INTERRUPTED, RESUME

Handler = Callable[[int, FrameType | None], Any]

TERMINATION_SIGNALS = (signal.SIGTERM, signal.SIGHUP)  # signals that ask a command to end
GRACE_SECONDS = 3.0  # after such a signal, a command that waits outside of Python is ended


def raise_on_termination(status: int) -> None:
    """Makes SIGTERM and SIGHUP raise Terminated, so that the command cleans up as after Ctrl-C.

    Python raises nothing while TensorFlow waits for input. A command that still runs after GRACE_SECONDS ends
    at once, and leaves hidden temporary folders as a killed command does.

    Args:
      status: the exit status of the command.
    """

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise Terminated(status, signal.Signals(number).name)

    def end_after_grace(number: signal.Signals) -> None:
        if number in TERMINATION_SIGNALS:
            time.sleep(GRACE_SECONDS)
            if signal.getsignal(number) is end:
                exit_now(status, f"stopped by {number.name}")

    for number in TERMINATION_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, end)
    watch = signal_watch(end_after_grace)
    watch.__enter__()
    atexit.register(watch.__exit__, None, None, None)  # the reference keeps it alive


def exit_now(status: int, line: str) -> NoReturn:
    """Prints a line on stderr and ends the process without a clean-up. Any thread may call it."""
    with contextlib.suppress(OSError):  # the terminal may be gone
        os.write(2, f"{line}\n".encode())
    os._exit(status)


@contextlib.contextmanager
def signal_handlers(handlers: Mapping[signal.Signals, Handler]) -> Iterator[None]:
    """Sets signal handlers while the block runs. Signals that the process ignores (nohup) stay ignored.

    Outside the main thread, where Python allows no signal handlers, it has no effect.
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
    """Calls a function, in a thread, for each signal that has a handler, while the block runs.

    Handlers run only when the main thread is back in Python. Outside the main thread it has no effect.
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


class PreemptionNotice(contextlib.ExitStack):
    """While entered, SIGTERM, SIGHUP and Ctrl-C only set the attribute `received`.

    The program reads it after each call of TensorFlow. If a call waits for input, and does not end within
    GRACE_SECONDS after SIGTERM, SIGHUP or a second Ctrl-C, the process ends.

    Args:
      is_waiting: function that returns True if a call waits for input. It is called in a thread.
      save: function that is called before the process ends. It returns False if the process need not end.
    """

    received: signal.Signals | None = None

    def __init__(self, is_waiting: Callable[[], bool], save: Callable[[], bool]):
        super().__init__()
        self._interrupts = 0
        self._is_waiting, self._save, self._is_over = is_waiting, save, threading.Event()

    def __enter__(self) -> PreemptionNotice:
        numbers = (*TERMINATION_SIGNALS, signal.SIGINT)
        self.enter_context(signal_handlers(dict.fromkeys(numbers, self._notice)))
        self.enter_context(signal_watch(self._watch))
        self.callback(self._is_over.set)
        return self

    def _notice(self, signum: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(signum)

    def _watch(self, number: signal.Signals) -> None:
        """Ends the process if a call waits for input too long. It runs in a thread."""
        status, since = RESUME, time.monotonic()
        if number == signal.SIGINT:
            status, self._interrupts = INTERRUPTED, self._interrupts + 1
            if self._interrupts == 1:
                logging.warning(
                    "stopping after these steps, or the evaluation; Ctrl-C again if the input hangs"
                )
        is_wanted = number in TERMINATION_SIGNALS or self._interrupts > 1
        while is_wanted and not self._is_over.wait(0.1):
            if not self._is_waiting():
                since = time.monotonic()
            elif time.monotonic() - since > GRACE_SECONDS and self._save():
                exit_now(status, f"stopped by {number.name}, waiting for input; all steps are saved")

    def stop_exception(self, where: str) -> BaseException:
        """The exception to raise once all is saved. `where` ends its message: the step and the run."""
        if self.received == signal.SIGINT:
            return KeyboardInterrupt(f"interrupted {where}")
        by = "a signal to another host" if self.received is None else self.received.name
        return Preempted(f"stopped by {by} {where}")


@contextlib.contextmanager
def quiet_start() -> Iterator[None]:
    """Holds back stderr while the block imports TensorFlow and TensorFlow finds its devices.

    No setting silences its messages about oneDNN and CUDA. They are shown only if the block raises.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # after the block
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")  # its warnings would surround the line of an error
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
