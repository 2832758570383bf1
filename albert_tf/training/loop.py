"""The one training loop: steps → log → checkpoint → evaluate."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.checkpoints.figures import LOWEST_LOSS, Best, evaluated_steps
from albert_tf.checkpoints.steps import checkpoint_steps, delete_checkpoint, write_checkpoint
from albert_tf.errors import WorkFailed
from albert_tf.model.losses import Term
from albert_tf.training.interval import Interval
from albert_tf.training.logbook import Logbook, NoLogbook
from albert_tf.training.loop_settings import LoopSettings, is_due
from albert_tf.training.preemption import PreemptionNotice
from albert_tf.training.profiler import Profiler
from albert_tf.training.updates import Batch, Totals

# Updates of float16 in a row whose gradients may be non-finite. Each halves the loss scale, which starts at
# 2^15: what more than these does not help, another will not.
FLOAT16_PATIENCE = 30


class TrainingFailed(WorkFailed):
    """Training cannot go on; the message says what to do."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingState:
    """All that a checkpoint holds.

    Args:
      model: the model.
      optimizer: its optimizer, in float16 a LossScaleOptimizer around it.
      step: int64 scalar, the updates done so far.
      drawn_at: int64 scalar, the step whose seed the batches are drawn with: 0, until they are drawn anew.
      iterator: of the batches; None where it cannot be saved, or is not there yet.
    """

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    step: tf.Variable
    drawn_at: tf.Variable
    iterator: Iterator[Batch] | None = None

    def parts(self) -> dict[str, Any]:
        """The parts by the names that they have in a checkpoint, the same in all precisions."""
        optimizer, parts = self.optimizer, {"model": self.model, "step": self.step}
        if isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer):
            parts["loss_scale"] = optimizer._loss_scale  # Keras has no public name for the whole of it
            optimizer = optimizer.inner_optimizer
        # Its variables alone: Keras hangs the loss scale on the inner optimizer, too.
        parts["optimizer"] = tf.train.Checkpoint(variables=list(optimizer.variables))
        if self.iterator is None:
            return parts
        # An iterator's state does not say with which seed its batches are drawn.
        return {**parts, "iterator": self.iterator, "drawn_at": self.drawn_at}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Work:
    """What the loop calls.

    Args:
      steps: updates when all is done that is computed like this.
      last_step: updates when the run is done.
      train_steps: as `training_steps` makes it.
      evaluate: figures of the held-out data by name; a `loss` among them must be finite.
      best: which of them, with `eval_` before it, tells the best step.
      figures: those of summed terms.
      examples_per_step: rows of the global batch.
      seq_length: positions of a row; None where they are not all as long.
      shape: what lines of figures say of the updates that they are of.
      patience: updates in a row whose gradients may be non-finite: 0, or float16's.
      is_chief: whether this host writes the run directory.
      any_host: whether any host says so; all of them call it at the same steps.
    """

    steps: int
    last_step: int
    train_steps: Callable[[Iterator[Batch], tf.Tensor], Totals]
    evaluate: Callable[[], Mapping[str, float]]
    figures: Callable[[Mapping[str, Term]], dict[str, float]]
    examples_per_step: int
    seq_length: int | None
    shape: Mapping[str, int] = dataclasses.field(default_factory=dict)
    best: Best = LOWEST_LOSS
    patience: int = 0
    is_chief: bool = True
    any_host: Callable[[bool], bool] = bool


def train(
    run: Path, state: TrainingState, iterator: Iterator[Batch], settings: LoopSettings, work: Work
) -> None:
    """Trains until `work.steps` and leaves checkpoints and figures in the run directory.

    Args:
      run: the run directory.
      state: where training starts, and what checkpoints hold.
      iterator: of the batches, whether or not it is a part of the state.
      settings: when to log, save and evaluate. What is evaluated is saved before: where memory or time does
        not suffice for an evaluation, no update is lost, and a resumed run makes up for it. A checkpoint
        whose evaluation has a non-finite loss is deleted.
      work: what to do then.
    Raises:
      TrainingFailed: a loss or a gradient is non-finite.
      Preempted: SIGTERM came; the state is saved.
      KeyboardInterrupt: Ctrl-C came; the state is saved.
    """
    step = int(tf.convert_to_tensor(state.step))
    count = failed = 0  # updates of the last call, and those that have failed in a row
    with (
        Logbook(run, step, work.last_step, until=work.steps) if work.is_chief else NoLogbook() as logbook,
        PreemptionNotice() as notice,
        Profiler(run / "tensorboard", settings.profiled if work.is_chief else range(0)) as profiler,
    ):
        interval = Interval(work.figures)
        is_owed = step > 0 and is_due(settings.eval_every, step, work.steps)
        # A process that died may have saved these weights and not evaluated them; who writes knows.
        is_owed = work.any_host(work.is_chief and is_owed and step not in evaluated_steps(run))
        is_over = _stops_early(run, settings, work)
        while True:
            if is_owed:
                figures = {f"eval_{name}": value for name, value in work.evaluate().items()}
                if not math.isfinite(figures.get("eval_loss", 0.0)):
                    if work.is_chief:
                        delete_checkpoint(run, step)
                    raise TrainingFailed(
                        _advice("the loss on held-out text", step - count, step, failed, run)
                    )
                logbook.record(step, {**figures, **work.shape})
                if work.is_chief and not failed:
                    delete_old_checkpoints(run, settings.keep, work.best)
                is_over = _stops_early(run, settings, work)
            if is_over and step < work.steps:
                count = settings.early_stop
                logbook.say(
                    f"stopped at step {step}: {count} evaluations without a better {work.best.figure}"
                )
            if is_over or step >= work.steps:
                # A wish to stop that came in the evaluation; who calls this next knows nothing of it.
                if not is_over and step < work.last_step and work.any_host(notice.given):
                    raise notice.stopped(f"after step {step}, which is saved in {run}")
                break
            profiler.at(step)
            count = settings.updates_until_next(step, work.steps)
            started = time.monotonic()
            totals = tf.nest.map_structure(float, work.train_steps(iterator, tf.constant(count)))
            interval.add(totals, count * work.examples_per_step, time.monotonic() - started)
            failed = failed + count if totals.failed == count else int(totals.failed)
            step += count
            if failed > work.patience:
                raise TrainingFailed(_advice("the loss or its gradient", step - failed, step, failed, run))
            logbook.progress(step)
            if is_due(settings.log_every, step, work.steps):
                rate = {"learning_rate": float(tf.convert_to_tensor(state.optimizer.learning_rate))}
                logbook.record(step, {**interval.figures(work.seq_length), **rate, **work.shape})
                interval = Interval(work.figures)
            is_owed = is_due(settings.eval_every, step, work.steps)
            stopping = work.any_host(notice.given)
            if stopping or is_owed or is_due(settings.checkpoint_every, step, work.steps):
                # No loss has been computed with the weights of the last update yet.
                if not all_finite(state.model.trainable_variables):
                    raise TrainingFailed(_advice("a weight", step - count, step, failed, run))
                if work.is_chief:
                    write_checkpoint(run, step, **state.parts())
                    # While updates fail, the good ones may be older than those that are kept; whether this is
                    # a good one, its evaluation tells.
                    if not failed and not is_owed:
                        delete_old_checkpoints(run, settings.keep, work.best)
            if stopping and step < work.last_step:
                raise notice.stopped(f"after step {step}, which is saved in {run}")


def delete_old_checkpoints(run: Path, keep: int, best: Best) -> None:
    """Deletes all checkpoints but the newest and the one that did best in an evaluation."""
    steps = checkpoint_steps(run)
    kept = {*steps[-keep:], best.step(run, steps)}
    for step in steps:
        if step not in kept:
            delete_checkpoint(run, step)


def _stops_early(run: Path, settings: LoopSettings, work: Work) -> bool:
    """Whether too many evaluations have been no better than the best; all hosts ask at the same steps."""
    if settings.early_stop == 0:
        return False
    return work.any_host(work.is_chief and work.best.evaluations_since(run) >= settings.early_stop)


def all_finite(variables: Iterable[tf.Variable]) -> bool:
    """Whether all values are finite."""
    return all(bool(tf.reduce_all(tf.math.is_finite(tf.convert_to_tensor(x)))) for x in variables)


def _advice(what: str, first: int, last: int, failed: int, run: Path) -> str:
    """What to say when the weights that the `failed` last updates began with, or ended with, are bad."""
    steps = checkpoint_steps(run)
    saved = max((step for step in steps if step < last - failed), default=None)
    if saved is not None:
        good = f"the last good checkpoint is that of step {saved}"
    elif steps:
        good = f"the checkpoints there hold no better weights (of steps {', '.join(map(str, steps))})"
    else:
        good = "no checkpoint was written before"
    what += " became non-finite (NaN or infinity)"
    if failed > 1:
        what += f", in {failed} updates in a row,"
    return (
        f"{what} between step {first} and step {last}; {good} in {run}: train again with another --output "
        "and a lower --learning_rate, more --warmup_steps, or --precision float32 (or bfloat16, not float16)"
    )
