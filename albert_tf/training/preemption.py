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
    """While entered, SIGTERM raises Preempted: there is nothing to save before training begins.

    Outside the main thread, where Python allows no signal handlers, it does nothing.

    Args:
      run: the run directory, for the message.
    """

    def stop(signum: int, frame: FrameType | None) -> None:
        saved = (
            f"goes on from what is saved in {run}" if run.is_begun else "begins anew: nothing is saved yet"
        )
        raise Preempted(f"stopped by SIGTERM; the same command {saved}")

    with signal_handlers({signal.SIGTERM: stop}):
        yield


class PreemptionNotice:
    """While entered, SIGTERM and Ctrl-C only set `given`.

    Outside the main thread, where Python allows no signal handlers, it does nothing.
    """

    def __init__(self) -> None:
        self.given = False
        self._is_interrupt = False
        self._handlers = contextlib.ExitStack()

    def stopped(self, where: str) -> BaseException:
        """The exception to raise once all is saved.

        Args:
          where: after which step, and where it is saved.
        """
        if self._is_interrupt:
            return KeyboardInterrupt(f"interrupted {where}")
        return Preempted(f"stopped by SIGTERM {where}")

    def __enter__(self) -> PreemptionNotice:
        self._handlers.enter_context(
            signal_handlers({signal.SIGTERM: self._notice, signal.SIGINT: self._notice})
        )
        return self

    def _notice(self, signum: int, frame: FrameType | None) -> None:
        self.given = True
        self._is_interrupt = signum == signal.SIGINT

    def __exit__(self, *_: object) -> None:
        self._handlers.close()
