"""Who asks: starts programs and waits for their answers, at most so long."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class NoAnswer(Exception):
    """A program did not do what it was asked; the text says which, what and why."""


class Asked:
    """A process that answers a line of JSON by a line of JSON, see worker.py.

    Args:
      name: for messages.
      command: that starts it.
      environment: its variables.
      log: file for its standard error.
      patience: seconds to wait for its first line, and for an answer where nobody says.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        patience: float = 600,
    ):
        self.name, self.log, self.patience = name, log, patience
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # so that it can be ended with all that it has started
            )
        self.lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def first(self) -> dict[str, Any]:
        """What it says of itself once it has started."""
        return self._answer("its start", self.patience)

    def ask(self, question: Mapping[str, Any], patience: float | None = None) -> dict[str, Any]:
        """Its answer to a question.

        Raises:
          NoAnswer: it says that it failed, has ended, or takes longer than `patience` seconds; in the last
            case it is ended.
        """
        asked = f"{question['do']} {question['case']}"
        with contextlib.suppress(BrokenPipeError):  # it has ended: the answer says so
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
        return self._answer(asked, patience or self.patience)

    def close(self) -> None:
        """Ends it; it is not to be asked again."""
        self._kill()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()

    def _listen(self) -> None:
        """Hands on its lines, and None at their end."""
        with contextlib.suppress(ValueError):  # closed meanwhile
            for line in self.process.stdout:
                self.lines.put(line)
        self.lines.put(None)

    def _kill(self) -> None:
        """Ends the process and all that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _answer(self, asked: str, patience: float) -> dict[str, Any]:
        try:
            line = self.lines.get(timeout=patience)
        except queue.Empty:
            self._kill()
            raise NoAnswer(f"{self.name}: no answer to {asked} in {patience:.0f} s: ended") from None
        if line is None:
            self.lines.put(None)  # for the next question
            raise NoAnswer(f"{self.name}: {self._end()} at {asked}{self._last_words()}")
        answer = json.loads(line)
        if "error" in answer:
            raise NoAnswer(f"{self.name}: {asked} failed: {answer['error']}")
        return answer

    def _end(self) -> str:
        status = self.process.wait()
        if status >= 0:
            return f"ended with status {status}"
        killed = signal.Signals(-status).name
        hint = " (is there memory enough?)" if killed == "SIGKILL" else ""
        return f"was ended by {killed}{hint}"

    def _last_words(self) -> str:
        lines = self.log.read_text("utf-8", "replace").strip().splitlines()
        return f"; it last said: {lines[-1].strip()}" if lines else ""
