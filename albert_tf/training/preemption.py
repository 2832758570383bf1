"""SIGTERM, SIGHUP and Ctrl-C as a wish to stop: the loop saves and ends, and the same command resumes."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from albert_tf.startup.exits import RESUME
from albert_tf.startup.signals import ENDING, PATIENCE, exit_now, signal_handlers, signal_watch
from albert_tf.utils.errors import Preempted


class PreemptionNotice(contextlib.ExitStack):
    """While entered, the first SIGTERM, SIGHUP or Ctrl-C only sets `given`; they do no more.

    The program looks at it after each call of TensorFlow. Where one waits for input, and does not end in
    PATIENCE after SIGTERM or SIGHUP, the process ends.

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
            elif time.monotonic() - since > PATIENCE and self._save():
                exit_now(RESUME, f"stopped by {number.name}, waiting for input; all updates are saved")

    def stopped(self, where: str) -> BaseException:
        """The exception to raise once all is saved: after which step, and where."""
        if self.given == signal.SIGINT:
            return KeyboardInterrupt(f"interrupted {where}")
        by = "a signal to another host" if self.given is None else self.given.name
        return Preempted(f"stopped by {by} {where}")
