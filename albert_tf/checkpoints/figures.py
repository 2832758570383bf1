"""What metrics.jsonl of a run says, an object of numbers a line, and which of its steps is the best."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from albert_tf.errors import InputError

METRICS = "metrics.jsonl"
_EVALUATION = "eval_"
_LOSS = "eval_loss"


def read_figures(run: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The lines that a run has logged, in their order.

    Args:
      run: the run directory.
    Returns:
      Numbers by name, `step` among them; None is what was non-finite, such as a gradient of float16.
    Raises:
      FileNotFoundError: the run lacks this file.
      ValueError: a line holds something else; a last one that is cut off is passed over.
    """
    path = Path(run) / METRICS
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; is {run} the directory of a training run?")
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            break  # the process was killed while it wrote this one
        try:
            figures = json.loads(line)
        except (ValueError, RecursionError):
            figures = None
        if not _are_figures(figures):
            raise InputError(
                f"{path}, line {number}: not an object of numbers with a step, as a run writes it: mend or "
                "remove the line, or copy the file again"
            )
        found.append(figures)
    return found


def _are_figures(value: Any) -> bool:
    """Whether it is numbers by name, or None, and a step."""
    return (
        isinstance(value, dict)
        and type(value.get("step")) is int
        and 0 <= value["step"] < 2**63
        and all(number is None or _is_number(number) for number in value.values())
    )


def _is_number(value: Any) -> bool:
    """Whether it is a float, or an integer that is as small as one; True is not."""
    return type(value) is float or (type(value) is int and abs(value) < 2**63)


def evaluated_steps(run: str | os.PathLike[str]) -> set[int]:
    """The steps that a run has figures of an evaluation of."""
    return {line["step"] for line in read_figures(run) if any(name.startswith(_EVALUATION) for name in line)}


def rank(value: float, loss: float | None) -> tuple[float, float]:
    """The place of an evaluation among others, greater where it is better: of equal values, by the loss.

    Args:
      value: of which more is better.
      loss: of the same evaluation; None where it has none, which is worse than any.
    """
    return value, -math.inf if loss is None else -loss


class Best(NamedTuple):
    """What tells the best of a run's steps: a figure, of equal figures the loss, of equal losses the step.

    Attributes:
      figure: of an evaluation, as metrics.jsonl calls it.
      is_highest: whether more of it is better.
      after: only evaluations of later steps than this one compare with each other.
    """

    figure: str
    is_highest: bool
    after: int = -1

    def step(self, run: str | os.PathLike[str], steps: Collection[int]) -> int | None:
        """The best of these steps; None where the figure is known of none."""
        known = {step: place for step, place in self._ranks(run).items() if step in steps}
        return max(known, key=known.__getitem__, default=None)

    def evaluations_since(self, run: str | os.PathLike[str]) -> int:
        """How many evaluations there have been since the best; 0 as long as there is none."""
        best = self.step(run, self._ranks(run))
        return sum(step > best for step in evaluated_steps(run)) if best is not None else 0

    def _ranks(self, run: str | os.PathLike[str]) -> dict[int, tuple[float, float]]:
        """The rank by step, ascending; a non-finite figure is none."""
        found = ((line["step"], line.get(self.figure), line.get(_LOSS)) for line in read_figures(run))
        sign = 1 if self.is_highest else -1
        return {
            step: rank(sign * value, loss)
            for step, value, loss in found
            if value is not None and step > self.after
        }


LOWEST_LOSS = Best(_LOSS, is_highest=False)
