"""The training loop: steps → log → checkpoint → evaluate.

A checkpoint is written before each evaluation. If the evaluation runs out of memory or time, no step is lost,
and a resumed run evaluates first.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable

import tensorflow as tf

from albert_tf.errors import WorkFailed
from albert_tf.runs.checkpoints import delete_checkpoint, write_checkpoint
from albert_tf.runs.run_directory import RunDirectory, evaluated_steps
from albert_tf.signals import PreemptionNotice
from albert_tf.training.distribution import get_hosts, make_all_gather
from albert_tf.training.metrics_logger import MetricsLogger, interval_metrics
from albert_tf.training.stages import Training, TrainingStage, TrainingState
from albert_tf.training.train_step import Totals

# Most steps in a row whose float16 gradients may be non-finite. Each halves the loss scale, which starts at
# 2^15. If this many do not help, more will not.
MAX_FAILED_FLOAT16 = 30


class TrainingFailed(WorkFailed):
    """Training cannot continue. The message names the remedy."""


def train_stage(run: RunDirectory, training: Training, stage: TrainingStage, state: TrainingState) -> None:
    """Trains to the end of a stage, and writes checkpoints and metrics to the run directory.

    The batches of the stage must be in `state` already. See `trainer.train` for the errors.
    """
    strategy, settings = tf.distribute.get_strategy(), training.loop
    is_chief, all_gather = get_hosts(strategy).is_chief, make_all_gather(strategy)

    def any_host(flag: object) -> bool:
        return any(all_gather(float(bool(flag))))

    with contextlib.ExitStack() as stack:
        logger = None
        if is_chief:
            logger = stack.enter_context(
                MetricsLogger(run, state.steps_done, training.steps, until=stage.end)
            )
        loop = _Loop(run, training, stage, state, logger)
        notice = stack.enter_context(PreemptionNotice(loop.is_waiting, loop.save_finished_steps))
        stack.callback(loop.profile, is_wanted=False)
        # A process that died may have saved these weights without evaluating them. Only the chief can tell.
        if any_host(loop.step > 0 and loop.is_due(settings.eval_every) and not loop.is_evaluated()):
            loop.evaluate()
        while loop.step < stage.end and not (settings.early_stop and any_host(loop.stops_early())):
            loop.profile(is_wanted=is_chief and loop.step in settings.profile_steps)
            loop.train()
            if loop.is_due(settings.log_every):
                loop.log()
            evaluating, stopping = loop.is_due(settings.eval_every), any_host(notice.received)
            if stopping or evaluating or loop.is_due(settings.checkpoint_every):
                loop.save(is_evaluated=evaluating)
            if stopping and loop.step < training.steps:
                raise notice.stop_exception(f"after step {loop.step}, which is saved in {run}")
            if evaluating:
                loop.evaluate()
        # A request to stop that came during the evaluation: the next stage or seed would not see it.
        if any_host(notice.received):
            raise notice.stop_exception(f"after step {loop.step}, which is saved in {run}")


class _Loop:
    """The parts of the loop and the state that they share. Only the chief has a `logger`."""

    def __init__(
        self,
        run: RunDirectory,
        training: Training,
        stage: TrainingStage,
        state: TrainingState,
        logger: MetricsLogger | None,
    ):
        self.run, self.training, self.stage, self.state, self.logger = run, training, stage, state, logger
        self.train_step = training.make_train_step(stage, state.batches, state.step)
        self.step = self.previous_step = state.steps_done  # now, and before the last call of train
        self.failed = 0  # number of failed steps in a row at the end
        self.updates: list[tuple[Totals, int, float]] = []  # since the last log line, for interval_metrics
        # Only evaluations in the last stage compare: earlier stages evaluated other networks or lengths.
        last_begins = max((x.end for x in training.stages[:-1]), default=-1)
        self.best = training.best._replace(after=max(training.best.after, last_begins))
        self.is_profiling = self.is_evaluating = False

    def is_waiting(self) -> bool:
        """True while all steps done can be saved: while the loop waits for a batch, or evaluates."""
        return self.is_evaluating or bool(self.train_step.input_wait)

    def is_due(self, every: int) -> bool:
        """True if an event is due now: at multiples of `every` (0: none) and at the end of the stage."""
        return self.step == self.stage.end or (every > 0 and self.step % every == 0)

    def is_evaluated(self) -> bool:
        return self.logger is None or self.step in evaluated_steps(self.logger.lines)

    def stops_early(self) -> bool:
        """True on the chief after too many evaluations without a better one."""
        count = self.training.loop.early_stop
        if self.logger is None or self.best.evaluations_without_gain(self.logger.lines) < count:
            return False
        metric = self.best.metric
        self.logger.log(f"stopped at step {self.step}: {count} evaluations without a better {metric}")
        return True

    def profile(self, *, is_wanted: bool) -> None:
        """Starts or stops TensorFlow's profiler."""
        if is_wanted and not self.is_profiling:
            tf.profiler.experimental.start(self.run.file("tensorboard"))
        elif self.is_profiling and not is_wanted:
            tf.profiler.experimental.stop()
        self.is_profiling = is_wanted

    def train(self) -> None:
        """Trains until the next event is due, but at most STEPS_PER_CALL (compute_settings.py) steps."""
        assert self.state.iterator is not None
        self.previous_step = self.step
        count = self.training.loop.steps_until_next(self.step, self.stage.end)
        started = time.monotonic()
        try:
            totals = tf.nest.map_structure(float, self.train_step(self.state.iterator, count))
        except tf.errors.OpError:
            is_saved = self.train_step.input_wait and self.save_finished_steps() and self.state.steps_done > 0
            if is_saved and self.logger is not None:
                self.logger.log(
                    f"the input failed after step {self.state.steps_done}, which is saved in {self.run}"
                )
            raise
        self.updates.append((totals, count * self.stage.batch_size, time.monotonic() - started))
        self.failed = self.failed + count if totals.failed == count else int(totals.failed)
        self.step += count
        if self.failed > (MAX_FAILED_FLOAT16 if self.training.compute.precision == "float16" else 0):
            raise self._failure("the loss or its gradient", self.step - self.failed)
        if self.logger is not None:
            self.logger.progress(self.step)

    def log(self) -> None:
        rate = {"learning_rate": float(tf.convert_to_tensor(self.state.optimizer.learning_rate))}
        metrics = interval_metrics(self.updates, self.training.metrics, self.stage.seq_length)
        self._record({**metrics, **rate})
        self.updates.clear()

    def save(self, *, is_evaluated: bool) -> None:
        # No loss has been computed with these weights yet.
        if not all_finite(self.state.model.trainable_variables):
            raise self._failure("a weight", self.previous_step)
        if self.logger is not None:
            self.run.check_lock()
            write_checkpoint(self.run, self.step, **self.state.parts())
            if not is_evaluated:  # otherwise the evaluation first tells how good it is
                self._delete_old_checkpoints(self.logger)

    def save_finished_steps(self) -> bool:
        """Saves the steps of a call that waits for input, or whose input failed, without the iterator.

        A resumed run draws new batches. If the call has continued meanwhile, saves nothing, returns False.
        """
        step = self.state.steps_done
        is_needed = self.logger is not None and step not in (0, *self.run.steps())
        if is_needed and all_finite(self.state.model.trainable_variables):
            self.run.check_lock()
            write_checkpoint(self.run, step, **self.state.parts(with_iterator=False))
        if self.is_waiting() and self.state.steps_done == step:
            return True
        if is_needed:
            delete_checkpoint(self.run, step)
        return False

    def evaluate(self) -> None:
        self.is_evaluating = True
        metrics = {f"eval_{name}": value for name, value in self.stage.evaluate().items()}
        self.is_evaluating = False
        if not math.isfinite(metrics.get("eval_loss", 0.0)):
            if self.logger is not None:
                delete_checkpoint(self.run, self.step)
            raise self._failure("the loss on held-out text", self.previous_step)
        self._record(metrics)
        if self.logger is not None:
            self._delete_old_checkpoints(self.logger)

    def _record(self, metrics: dict[str, float]) -> None:
        if self.logger is not None:
            self.logger.record(self.step, {**metrics, **self.stage.description})

    def _delete_old_checkpoints(self, logger: MetricsLogger) -> None:
        """Deletes all checkpoints except the newest and the one with the best evaluation."""
        if self.failed:  # the newest may be bad, and the last good one older
            return
        steps = self.run.steps()
        kept = {*steps[-self.training.loop.keep :], self.best.step(logger.lines, steps)}
        for step in steps:
            if step not in kept:
                delete_checkpoint(self.run, step)

    def _failure(self, name: str, first: int) -> TrainingFailed:
        """The error for a value that became non-finite after step `first`."""
        good = max((step for step in self.run.steps() if step < self.step - self.failed), default=None)
        return TrainingFailed(
            f"{name} became non-finite (NaN or infinity) between step {first} and step {self.step}; the last "
            f"good checkpoint in {self.run} is {'none' if good is None else f'that of step {good}'}: train "
            "again with another `output` and a lower `learning_rate`, more `warmup_steps`, or `precision` "
            "float32 (or bfloat16, not float16)"
        )


def all_finite(variables: Iterable[tf.Variable]) -> bool:
    """True if all values are finite."""
    return all(bool(tf.reduce_all(tf.math.is_finite(tf.convert_to_tensor(x)))) for x in variables)
