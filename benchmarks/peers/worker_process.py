"""Processes of the compared programs: starts them, sends them requests, and waits for their responses."""

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


class WorkerError(Exception):
    """A request failed; the message names the program, the request and the reason."""


class WorkerProcess:
    """A process that responds to lines of JSON with lines of JSON, as worker.py describes.

    Args:
      name: name of the program in messages.
      command: command that starts the process.
      environment: its environment variables.
      log: file for its standard error.
      timeout: seconds to wait for the first line, and for a response.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        timeout: float = 600,
    ):
        self.name, self.log, self.timeout = name, log, timeout
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # _kill ends the whole session
            )
        self.lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read_lines, daemon=True).start()

    def read_start(self) -> dict[str, Any]:
        """The line that the process writes once it has started."""
        return self._receive("its start")

    def request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Sends a request, and returns the response.

        Raises:
          WorkerError: the program failed, has ended, or takes longer than the timeout, which ends it.
        """
        with contextlib.suppress(BrokenPipeError):  # of a process that has ended: _receive reports it
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        return self._receive(f"{request['do']} {request['case']}")

    def close(self) -> None:
        """Ends the process, which cannot be used again."""
        self._kill()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()

    def _read_lines(self) -> None:
        """Puts the lines of the process into the queue, and None at their end."""
        with contextlib.suppress(ValueError):  # the file was closed
            for line in self.process.stdout:
                self.lines.put(line)
        self.lines.put(None)

    def _kill(self) -> None:
        """Ends the process and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _receive(self, request: str) -> dict[str, Any]:
        """The response to a request, whose text is for messages."""
        try:
            line = self.lines.get(timeout=self.timeout)
        except queue.Empty:
            self._kill()
            message = f"{self.name}: no response to {request} in {self.timeout:.0f} s: ended"
            raise WorkerError(message) from None
        if line is None:
            self.lines.put(None)  # for the next request
            raise WorkerError(f"{self.name}: {self._exit_status()} at {request}{self._last_log_line()}")
        response = json.loads(line)
        if "error" in response:
            raise WorkerError(f"{self.name}: {request} failed: {response['error']}")
        return response

    def _exit_status(self) -> str:
        status = self.process.wait()
        if status >= 0:
            return f"ended with status {status}"
        name = signal.Signals(-status).name
        hint = " (out of memory?)" if name == "SIGKILL" else ""
        return f"was ended by {name}{hint}"

    def _last_log_line(self) -> str:
        lines = self.log.read_text("utf-8", "replace").strip().splitlines()
        return f"; the last line of its log: {lines[-1].strip()}" if lines else ""
