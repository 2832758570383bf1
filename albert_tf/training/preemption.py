"""SIGTERM as a wish to stop: the loop saves and ends, and the same command resumes."""

from __future__ import annotations

import signal
import threading
from types import FrameType

EXIT_STATUS = 75  # EX_TEMPFAIL of sysexits.h: try again


class Preempted(Exception):
    """The run was asked to stop; its checkpoint is written."""


class PreemptionNotice:
    """While entered, SIGTERM only sets `given`.

    Outside the main thread, where Python allows no signal handlers, it does nothing.
    """

    def __init__(self) -> None:
        self.given = False

    def __enter__(self) -> PreemptionNotice:
        self._installed = threading.current_thread() is threading.main_thread()
        if self._installed:
            self._previous = signal.signal(signal.SIGTERM, self._notice)
        return self

    def _notice(self, signum: int, frame: FrameType | None) -> None:
        self.given = True

    def __exit__(self, *_: object) -> None:
        if self._installed:
            signal.signal(signal.SIGTERM, self._previous)
