"""Seconds of calls and of processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any


def time_call(function: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """The seconds of one call, by a clock."""
    start = clock()
    function()
    return clock() - start


def time_calls(
    function: Callable[[], Any],
    count: int,
    warm_up: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """The seconds of each of `count` calls, which follow `warm_up` calls that are not timed."""
    for _ in range(warm_up):
        function()
    return [time_call(function, clock) for _ in range(count)]


def time_in_turns(
    functions: Sequence[Callable[[], Any]], rounds: int, warm_up: int = 0, *, alternate: bool = False
) -> list[list[float]]:
    """The seconds of functions that take turns, so that a machine that slows down is fair to all of them.

    Args:
      functions: each is called once a round.
      rounds: number of timed rounds.
      warm_up: number of rounds before them that are not timed.
      alternate: True: every second round has the opposite order, so that no function always finds the
        caches of the same other one.
    Returns:
      The seconds of each function, by round.
    """
    seconds: list[list[float]] = [[] for _ in functions]
    for turn in range(-warm_up, rounds):
        pairs = list(zip(functions, seconds, strict=True))
        for function, times in reversed(pairs) if alternate and turn % 2 == 0 else pairs:
            elapsed = time_call(function)
            if turn >= 0:
                times.append(elapsed)
    return seconds


def time_process(command: Sequence[Any], **options: Any) -> float:
    """The seconds of a process from its start to its end.

    Args:
      command: the program and its arguments.
      options: further arguments of `subprocess.run`.
    """
    return time_call(lambda: subprocess.run(command, capture_output=True, **options))


def run_module(module: str, *arguments: object, python: object = sys.executable, **options: Any) -> Any:
    """Runs a benchmark's module in a process of its own.

    Args:
      module: its name, such as "benchmarks.update".
      arguments: of its command line.
      python: the interpreter.
      options: further arguments of `subprocess.run`.
    Returns:
      The value that the last printed line has in JSON. None: the module printed nothing.
    """
    command = [str(python), "-m", module, *map(str, arguments)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout
    lines = output.splitlines()
    return json.loads(lines[-1]) if lines else None
