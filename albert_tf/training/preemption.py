"""SIGTERM and Ctrl-C as a wish to stop: the loop saves and ends, and the same command resumes."""

from __future__ import annotations

import contextlib
import signal
from types import FrameType

from albert_tf.startup.signals import signal_handlers
from albert_tf.utils.errors import Preempted


class PreemptionNotice(contextlib.ExitStack):
    """While entered, the first SIGTERM or Ctrl-C only sets `given`; they do no more."""

    given: signal.Signals | None = None

    def __enter__(self) -> PreemptionNotice:
        self.enter_context(signal_handlers({signal.SIGTERM: self._notice, signal.SIGINT: self._notice}))
        return self

    def _notice(self, signum: int, frame: FrameType | None) -> None:
        self.given = signal.Signals(signum)

    def stopped(self, where: str) -> BaseException:
        """The exception to raise once all is saved: after which step, and where."""
        if self.given == signal.SIGINT:
            return KeyboardInterrupt(f"interrupted {where}")
        return Preempted(f"stopped by SIGTERM {where}")
