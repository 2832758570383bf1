"""The metrics that a run has logged, metrics.jsonl, and which of its steps is the best by them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from albert_tf.checkpoints.storage import exists, join, read_bytes
from albert_tf.utils.checks import check_entries, make_check
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import json_object

METRICS = "metrics.jsonl"
_STEP, _FIGURE = make_check("int", at_least=0), make_check("float | None")
_LINE_START, _CONTROL = b'{"step": ', re.compile(rb"[\x00-\x1f]")
EVALUATION = "eval_"
MIN_GAIN = 1e-4  # of a metric, or of the loss where metrics are equal: a smaller one is rounding
_LOSS = "eval_loss"
_LOWEST = {f"eval_{name}" for name in ("loss", "ece", "rmse", "mae")}  # metrics of which less is better

# Numbers by name, `step` among them; None is what was non-finite, such as a gradient of float16.
Line = dict[str, Any]


def read_metrics(run: str | os.PathLike[str]) -> list[Line]:
    """The lines that a run has logged; an InputError if one holds something else.

    The last one may be cut off, which a process leaves that is killed while it writes it.
    """
    path = join(run, METRICS)
    if not exists(path):
        raise FileNotFoundError(f"{path}: no such file; is {os.fspath(run)} the directory of a training run?")
    found = []
    for number, line in enumerate(read_bytes(path).splitlines(keepends=True), start=1):
        if not line.endswith(b"\n") and _is_cut_off(line):
            break
        where = f"{path}, line {number}"
        values = json_object(line, where)
        try:
            check_entries({"step": None, **values}, {**dict.fromkeys(values, _FIGURE), "step": _STEP})
        except InputError as error:
            raise InputError(f"{where}: {error}: mend or remove the line") from None
        found.append(values)
    return found


def _is_cut_off(line: bytes) -> bool:
    """True for the beginning of a line of figures, which lacks its end and holds nothing else."""
    return line.startswith(_LINE_START[: len(line)]) and not line.endswith(b"}") and not _CONTROL.search(line)


def evaluated_steps(lines: Sequence[Line]) -> set[int]:
    """The steps that lines have metrics of an evaluation of."""
    return {line["step"] for line in lines if any(name.startswith(EVALUATION) for name in line)}


def rank(value: float, loss: float | None) -> tuple[float, float]:
    """The place of an evaluation among others, by its value, of equal values by its loss; more is better."""
    return value, -math.inf if loss is None else -loss


class Best(NamedTuple):
    """The order of a run's steps: by a metric, of equal metrics by the loss, of equal losses by the step."""

    metric: str  # of an evaluation, as metrics.jsonl calls it
    is_highest: bool  # True if more of it is better
    after: int = -1  # only evaluations of later steps than this one compare with each other

    def step(self, lines: Sequence[Line], steps: Collection[int]) -> int | None:
        """The best of these steps; None if the metric is known of none."""
        known = {step: place for step, place in self._ranks(lines).items() if step in steps}
        return max(known, key=known.__getitem__, default=None)

    def evaluations_since(self, lines: Sequence[Line]) -> int:
        """Number of evaluations since one was better than those before by MIN_GAIN; 0 if there is none."""
        best, there = None, (-math.inf, -math.inf)
        for step, found in self._ranks(lines).items():
            gain, gain_of_loss = found[0] - there[0], found[1] - there[1]
            if gain >= MIN_GAIN or (abs(gain) < MIN_GAIN and gain_of_loss >= MIN_GAIN):
                best, there = step, found
        return sum(step > best for step in evaluated_steps(lines)) if best is not None else 0

    def _ranks(self, lines: Sequence[Line]) -> dict[int, tuple[float, float]]:
        """The rank by step, ascending; a non-finite metric is none."""
        sign = 1 if self.is_highest else -1
        return {
            line["step"]: rank(sign * value, line.get(_LOSS))
            for line in lines
            if (value := line.get(self.metric)) is not None and line["step"] > self.after
        }


def best_by(metric: str) -> Best:
    """The order of steps by a metric of an evaluation: the highest is the best, of errors the lowest."""
    return Best(metric, is_highest=metric not in _LOWEST)


LOWEST_LOSS = best_by(_LOSS)
