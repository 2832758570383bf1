"""The one training loop: steps → log → evaluate → checkpoint."""

from __future__ import annotations

import dataclasses
import math
import operator
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.checkpoints.steps import (
    checkpoint_steps,
    delete_checkpoint,
    newest_checkpoint,
    write_checkpoint,
)
from albert_tf.training.logbook import Logbook
from albert_tf.training.losses import Term
from albert_tf.training.metrics import term_metrics
from albert_tf.training.preemption import Preempted, PreemptionNotice
from albert_tf.training.step import Batch, Totals

# Updates in one call of the training function at most: enough to hide the cost of a call, few enough to
# answer SIGTERM soon.
STEPS_PER_CALL = 10


class TrainingFailed(RuntimeError):
    """Training cannot go on; the message says what to do."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """When the loop does what; all numbers are updates, 0 means never, but for the last update.

    Args:
      steps: updates when the run is done.
      log_every: between two lines of figures.
      eval_every: between two evaluations.
      checkpoint_every: between two checkpoints.
      keep: checkpoints that stay on disk.

    Raises:
      ValueError: a number is below what it may be.
    """

    steps: int
    log_every: int = 100
    eval_every: int = 1000
    checkpoint_every: int = 1000
    keep: int = 5

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            least = 1 if field.name in ("steps", "keep") else 0
            if getattr(self, field.name) < least:
                raise ValueError(f"{field.name}={getattr(self, field.name)} must be at least {least}")

    def is_due(self, every: int, step: int) -> bool:
        """Whether what happens `every` so many updates happens after `step` updates."""
        return step == self.steps or (every > 0 and step % every == 0)

    def updates_until_next(self, step: int) -> int:
        """Updates from `step` until something is due, at most STEPS_PER_CALL."""
        intervals = (self.log_every, self.eval_every, self.checkpoint_every)
        to_events = [every - step % every for every in intervals if every]
        return min(*to_events, self.steps - step, STEPS_PER_CALL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingState:
    """All that a checkpoint holds."""

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    step: tf.Variable
    iterator: Iterator[Batch]

    def parts(self) -> dict[str, Any]:
        """The parts by the names that they have in a checkpoint."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def train(
    run: Path,
    state: TrainingState,
    settings: LoopSettings,
    train_steps: Callable[[Iterator[Batch], tf.Tensor], Totals],
    *,
    examples_per_step: int,
    evaluate: Callable[[], dict[str, Term]],
) -> None:
    """Trains until `settings.steps` and leaves checkpoints and figures in the run directory.

    Args:
      run: the run directory.
      state: where training starts, and what checkpoints hold.
      settings: when to log, evaluate and save.
      train_steps: as `training_steps` makes it.
      examples_per_step: rows of the global batch.
      evaluate: the summed terms of the held-out data.
    Raises:
      TrainingFailed: a loss is not finite.
      Preempted: SIGTERM came; the state is saved.
    """
    step = int(tf.convert_to_tensor(state.step))
    with Logbook(run, step, settings.steps) as logbook, PreemptionNotice() as notice:
        interval = Interval()
        while step < settings.steps:
            count = settings.updates_until_next(step)
            started = time.monotonic()
            totals = tf.nest.map_structure(float, train_steps(state.iterator, tf.constant(count)))
            interval.add(totals, count * examples_per_step, time.monotonic() - started)
            if not interval.is_finite():
                raise TrainingFailed(_advice(step, count, run))
            step += count
            logbook.progress(step)
            if settings.is_due(settings.log_every, step):
                rate = {"learning_rate": float(state.optimizer.learning_rate)}
                logbook.record(step, {**interval.figures(), **rate})
                interval = Interval()
            if settings.is_due(settings.eval_every, step):
                logbook.record(step, term_metrics(evaluate(), prefix="eval_"))
            if settings.is_due(settings.checkpoint_every, step) or notice.given:
                write_checkpoint(run, step, **state.parts())
                for old in checkpoint_steps(run)[: -settings.keep]:
                    delete_checkpoint(run, old)
            if notice.given and step < settings.steps:
                raise Preempted(f"stopped by SIGTERM after step {step}, which is saved in {run}")


class Interval:
    """What the updates since the last line of the log amount to."""

    def __init__(self) -> None:
        self._terms: dict[str, Term] | None = None
        self._gradient_norm = math.nan
        self._examples = 0
        self._seconds = 0.0

    def add(self, totals: Totals, examples: int, seconds: float) -> None:
        """Counts in the totals of some updates, as numbers."""
        terms = totals.terms
        if self._terms is not None:
            terms = tf.nest.map_structure(operator.add, self._terms, terms)
        self._terms, self._gradient_norm = terms, totals.gradient_norm
        self._examples += examples
        self._seconds += seconds

    def is_finite(self) -> bool:
        """Whether all losses so far are numbers."""
        return all(math.isfinite(term.loss) for term in (self._terms or {}).values())

    def figures(self) -> dict[str, float]:
        """Mean losses and accuracies, the last update's gradient norm, and the speed."""
        return {
            **term_metrics(self._terms or {}),
            "gradient_norm": self._gradient_norm,
            "examples_per_second": self._examples / self._seconds,
        }


def _advice(step: int, count: int, run: Path) -> str:
    """What to say when the loss is not finite after `step` or any of the next `count` updates."""
    saved = newest_checkpoint(run)
    good = (
        "no checkpoint was written yet"
        if saved is None
        else f"the last good checkpoint is that of step {saved}"
    )
    return (
        f"the loss is not a number any more between step {step} and step {step + count}; {good} in {run}: "
        "train again with another --output and a lower --learning_rate, more --warmup_steps or --precision "
        "float32"
    )
