"""SIGTERM and Ctrl-C as a wish to stop: the loop saves and ends, and the same command resumes."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from albert_tf.checkpoints.directory import RunDirectory
from albert_tf.startup.signals import signal_handlers
from albert_tf.utils.errors import Preempted


@contextlib.contextmanager
def stop_at_once(run: RunDirectory) -> Iterator[None]:
    """While entered, SIGTERM raises Preempted: there is nothing to save before training begins."""

    def stop(signum: int, frame: FrameType | None) -> None:
        saved = f"goes on from what is in {run}" if run.is_begun else "begins anew: nothing is saved yet"
        raise Preempted(f"stopped by SIGTERM; the same command {saved}")

    with signal_handlers({signal.SIGTERM: stop}):
        yield


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
