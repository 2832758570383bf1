"""The one training loop: learning rate → steps → log → checkpoint → evaluate.

What is evaluated is saved before: where memory or time does not suffice for an evaluation, no update is lost,
and a resumed run makes up for it.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable

import tensorflow as tf

from albert_tf.errors import WorkFailed
from albert_tf.process import PreemptionNotice
from albert_tf.runs.checkpoints import delete_checkpoint, write_checkpoint
from albert_tf.runs.run_directory import RunDirectory, evaluated_steps
from albert_tf.training.compute_settings import is_due
from albert_tf.training.distribution import hosts_of, over_hosts
from albert_tf.training.metrics_logger import MetricAccumulator, MetricsLogger
from albert_tf.training.stages import Training, TrainingStage, TrainingState

# Updates of float16 in a row whose gradients may be non-finite. Each halves the loss scale, which starts at
# 2^15: what more than these does not help, another will not.
MAX_FAILED_FLOAT16 = 30


class TrainingFailed(WorkFailed):
    """Training cannot go on; the message says what to do."""


def train_phase(run: RunDirectory, training: Training, phase: TrainingStage, state: TrainingState) -> None:
    """Trains to the end of a phase, and leaves checkpoints and metrics in the run directory.

    The batches of `state` are drawn. Raises: as `trainer.train` does.
    """
    strategy, settings = tf.distribute.get_strategy(), training.loop
    is_chief, every_host = hosts_of(strategy).is_chief, over_hosts(strategy)

    def any_host(flag: object) -> bool:
        return any(every_host(float(bool(flag))))

    with contextlib.ExitStack() as stack:
        book = None
        if is_chief:
            book = stack.enter_context(MetricsLogger(run, state.steps_done, training.steps, until=phase.end))
        loop = _Loop(run, training, phase, state, book)
        notice = stack.enter_context(PreemptionNotice(loop.is_waiting, loop.save_updates))
        stack.callback(loop.profile, is_wanted=False)
        # A process that died may have saved these weights and not evaluated them; who writes knows.
        if any_host(loop.step > 0 and loop.due(settings.eval_every) and not loop.is_evaluated()):
            loop.evaluate()
        while loop.step < phase.end and not (settings.early_stop and any_host(loop.stops_early())):
            loop.profile(is_wanted=is_chief and loop.step in settings.profiled)
            loop.update()
            if loop.due(settings.log_every):
                loop.log()
            evaluating, stopping = loop.due(settings.eval_every), any_host(notice.given)
            if stopping or evaluating or loop.due(settings.checkpoint_every):
                loop.save(is_evaluated=evaluating)
            if stopping and loop.step < training.steps:
                raise notice.stopped(f"after step {loop.step}, which is saved in {run}")
            if evaluating:
                loop.evaluate()
        # A wish to stop that came in the evaluation; who calls this next knows nothing of it.
        if loop.step == phase.end < training.steps and any_host(notice.given):
            raise notice.stopped(f"after step {loop.step}, which is saved in {run}")


class _Loop:
    """The parts of the loop, and what one leaves for the next; the host that writes has a logbook."""

    def __init__(
        self,
        run: RunDirectory,
        training: Training,
        phase: TrainingStage,
        state: TrainingState,
        book: MetricsLogger | None,
    ):
        self.run, self.training, self.phase, self.state, self.book = run, training, phase, state, book
        self.train_step = training.train_step(phase, state.feed, state.step)
        self.step = self.before = state.steps_done  # now, and before the last call
        self.failed = 0  # updates in a row
        self.interval = MetricAccumulator(training.metrics)
        # Evaluations of earlier phases are of other networks or other text.
        self.best = training.best._replace(after=max((x.end for x in training.phases[:-1]), default=-1))
        self.is_profiling = self.is_evaluating = False

    def is_waiting(self) -> bool:
        """True while all that there is to save can be saved: it waits for a batch, or evaluates."""
        return self.is_evaluating or bool(self.train_step.input_wait)

    def due(self, every: int) -> bool:
        return is_due(every, self.step, self.phase.end)

    def is_evaluated(self) -> bool:
        return self.book is None or self.step in evaluated_steps(self.book.lines)

    def stops_early(self) -> bool:
        """True after too many evaluations without a better one; the host that writes knows."""
        count = self.training.loop.early_stop
        if self.book is None or self.best.evaluations_since(self.book.lines) < count:
            return False
        self.book.say(f"stopped at step {self.step}: {count} evaluations without a better {self.best.metric}")
        return True

    def profile(self, *, is_wanted: bool) -> None:
        """Starts or stops TensorFlow's profiler."""
        if is_wanted and not self.is_profiling:
            tf.profiler.experimental.start(self.run.file("tensorboard"))
        elif self.is_profiling and not is_wanted:
            tf.profiler.experimental.stop()
        self.is_profiling = is_wanted

    def update(self) -> None:
        """Some updates, until something is due."""
        assert self.state.iterator is not None
        self.before = self.step
        count = self.training.loop.updates_until_next(self.step, self.phase.end)
        started = time.monotonic()
        try:
            totals = tf.nest.map_structure(float, self.train_step(self.state.iterator, count))
        except tf.errors.OpError:
            is_saved = self.train_step.input_wait and self.save_updates() and self.state.steps_done > 0
            if is_saved and self.book is not None:
                self.book.say(
                    f"the input failed after step {self.state.steps_done}, which is saved in {self.run}"
                )
            raise
        self.interval.add(totals, count * self.phase.batch_size, time.monotonic() - started)
        self.failed = self.failed + count if totals.failed == count else int(totals.failed)
        self.step += count
        if self.failed > (MAX_FAILED_FLOAT16 if self.training.execution.precision == "float16" else 0):
            raise self._failure("the loss or its gradient", self.step - self.failed)
        if self.book is not None:
            self.book.progress(self.step)

    def log(self) -> None:
        rate = {"learning_rate": float(tf.convert_to_tensor(self.state.optimizer.learning_rate))}
        self._record({**self.interval.figures(self.phase.seq_length), **rate})
        self.interval = MetricAccumulator(self.training.metrics)

    def save(self, *, is_evaluated: bool) -> None:
        # No loss has been computed with the weights of the last update yet.
        if not all_finite(self.state.model.trainable_variables):
            raise self._failure("a weight", self.before)
        if self.book is not None:
            self.run.check_lock()
            write_checkpoint(self.run, self.step, **self.state.parts())
            if not is_evaluated:  # else its evaluation tells whether it is a good one
                self._delete_old(self.book)

    def save_updates(self) -> bool:
        """Saves the updates of a call that waits for input, or whose input failed, without its iterator.

        Whoever resumes draws the batches anew. False where the call has gone on meanwhile: nothing is saved.
        """
        step = self.state.steps_done
        is_wanted = self.book is not None and step not in (0, *self.run.steps())
        if is_wanted and all_finite(self.state.model.trainable_variables):
            self.run.check_lock()
            write_checkpoint(self.run, step, **self.state.parts(with_iterator=False))
        if self.is_waiting() and self.state.steps_done == step:
            return True
        if is_wanted:
            delete_checkpoint(self.run, step)
        return False

    def evaluate(self) -> None:
        self.is_evaluating = True
        metrics = {f"eval_{name}": value for name, value in self.phase.evaluate().items()}
        self.is_evaluating = False
        if not math.isfinite(metrics.get("eval_loss", 0.0)):
            if self.book is not None:
                delete_checkpoint(self.run, self.step)
            raise self._failure("the loss on held-out text", self.before)
        self._record(metrics)
        if self.book is not None:
            self._delete_old(self.book)

    def _record(self, metrics: dict[str, float]) -> None:
        if self.book is not None:
            self.book.record(self.step, {**metrics, **self.phase.description})

    def _delete_old(self, book: MetricsLogger) -> None:
        """Deletes all checkpoints but the newest and the one that did best in an evaluation."""
        if self.failed:  # the good ones may be older than those that are kept
            return
        steps = self.run.steps()
        kept = {*steps[-self.training.loop.keep :], self.best.step(book.lines, steps)}
        for step in steps:
            if step not in kept:
                delete_checkpoint(self.run, step)

    def _failure(self, what: str, first: int) -> TrainingFailed:
        """The error for weights that were bad after the last updates, or before those that failed."""
        good = max((step for step in self.run.steps() if step < self.step - self.failed), default=None)
        return TrainingFailed(
            f"{what} became non-finite (NaN or infinity) between step {first} and step {self.step}; the last "
            f"good checkpoint in {self.run} is {'none' if good is None else f'that of step {good}'}: train "
            "again with another --output and a lower --learning_rate, more --warmup_steps, or --precision "
            "float32 (or bfloat16, not float16)"
        )


def all_finite(variables: Iterable[tf.Variable]) -> bool:
    """True if all values are finite."""
    return all(bool(tf.reduce_all(tf.math.is_finite(tf.convert_to_tensor(x)))) for x in variables)
