"""The process: SIGTERM, SIGHUP and Ctrl-C, and a quiet start of TensorFlow."""

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

from albert_tf.errors import Preempted, Terminated
from albert_tf.program import RESUME

Handler = Callable[[int, FrameType | None], Any]

ENDING = (signal.SIGTERM, signal.SIGHUP)  # signals that ask a command to end
GRACE_SECONDS = 3.0  # of a command after one of them, where it waits for something outside of Python


def end_in_order(status: int) -> None:
    """Makes SIGTERM and SIGHUP raise Terminated with a status, so that the command cleans up as at Ctrl-C.

    Python raises nothing while TensorFlow waits for input: a command that is still there after GRACE_SECONDS
    ends with this status at once, and leaves hidden temporary folders, as one that is killed.
    """

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise Terminated(status, signal.Signals(number).name)

    def end_at_last(number: signal.Signals) -> None:
        if number in ENDING:
            time.sleep(GRACE_SECONDS)
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


class PreemptionNotice(contextlib.ExitStack):
    """While entered, the first SIGTERM, SIGHUP or Ctrl-C only sets `given`; they do no more.

    The program looks at it after each call of TensorFlow. Where one waits for input, and does not end in
    GRACE_SECONDS after SIGTERM or SIGHUP, the process ends.

    Args:
      is_waiting: whether a call waits for input; called in a thread.
      save: what is left to do then; False if there is no need to end after all.
    """

    given: signal.Signals | None = None

    def __init__(self, is_waiting: Callable[[], bool], save: Callable[[], bool]):
        super().__init__()
        self._is_waiting, self._save, self._is_over = is_waiting, save, threading.Event()

    def __enter__(self) -> PreemptionNotice:
        self.enter_context(signal_handlers(dict.fromkeys((*ENDING, signal.SIGINT), self._notice)))
        self.enter_context(signal_watch(self._watch))
        self.callback(self._is_over.set)
        return self

    def _notice(self, signum: int, frame: FrameType | None) -> None:
        self.given = signal.Signals(signum)

    def _watch(self, number: signal.Signals) -> None:
        """Ends the process at last, in a thread."""
        since = time.monotonic()
        while number in ENDING and not self._is_over.wait(0.1):
            if not self._is_waiting():
                since = time.monotonic()
            elif time.monotonic() - since > GRACE_SECONDS and self._save():
                exit_now(RESUME, f"stopped by {number.name}, waiting for input; all updates are saved")

    def stopped(self, where: str) -> BaseException:
        """The exception to raise once all is saved: after which step, and where."""
        if self.given == signal.SIGINT:
            return KeyboardInterrupt(f"interrupted {where}")
        by = "a signal to another host" if self.given is None else self.given.name
        return Preempted(f"stopped by {by} {where}")


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
