"""Metrics of a run: sums of losses, what is logged, and where."""

from __future__ import annotations

import contextlib
import datetime
import logging as python_logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging
from tqdm import tqdm

from albert_tf import filesystem
from albert_tf.errors import InputError
from albert_tf.io import dump_json, naming_path
from albert_tf.models.loss_sums import LossFn, LossSum
from albert_tf.runs.run_directory import METRICS_FILE, Line, read_metrics
from albert_tf.training.distribution import compiles
from albert_tf.training.train_step import Batch, Totals, compilation_log, replica_rows


def evaluator(
    model: keras.Model, objective: LossFn, xla: bool | None = None
) -> Callable[[Iterable[Batch]], dict[str, LossSum]]:
    """A function that sums an objective's terms over a finite data set; it traces the model once.

    The rows of a batch, of static shape, are divided among the replicas of the strategy that is current now.
    `xla` is that of `Execution`. It raises a ValueError if there is no batch.
    """
    strategy = tf.distribute.get_strategy()
    is_compiled = compiles(xla)
    before_batch = compilation_log("evaluation") if is_compiled else None

    @tf.function(autograph=False, jit_compile=is_compiled or None)
    def rows_terms(rows: Batch) -> dict[str, LossSum]:
        return objective.terms(model(rows, training=False), rows)

    def replica_terms(batch: Batch) -> dict[str, LossSum]:
        replica = tf.distribute.get_replica_context()
        rows = {name: tensor[0] for name, tensor in replica_rows(batch, replica).items()}
        return replica.all_reduce("SUM", rows_terms(rows))

    @tf.function(autograph=False)
    def batch_terms(batch: Batch) -> dict[str, LossSum]:
        replicas = strategy.run(replica_terms, (batch,))
        return tf.nest.map_structure(lambda part: strategy.experimental_local_results(part)[0], replicas)

    def evaluate(dataset: Iterable[Batch]) -> dict[str, LossSum]:
        found = []
        for batch in dataset:
            if before_batch is not None:
                before_batch(batch)
            found.append(tf.nest.map_structure(float, batch_terms(batch)))
        if not found:
            raise InputError("there is nothing to evaluate on: give more documents")
        return _add_up(found)

    return evaluate


def _add_up(terms: Iterable[dict[str, LossSum]]) -> dict[str, LossSum]:
    """The sums of several batches as one."""
    return tf.nest.map_structure(lambda *parts: sum(parts), *terms)


def loss_metrics(
    terms: Mapping[str, LossSum], factors: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Mean losses and accuracies of summed terms.

    Args:
      terms: of an objective by name.
      factors: of that objective; None: all are 1.
    Returns:
      `loss`, the sum of the means times their factors, and `<term>_loss` (nats) and `<term>_accuracy` for
      each term, but for regression only the loss. A term without any weight is NaN.
    """
    figures, factors = {"loss": 0.0}, factors or {}
    for name, term in terms.items():
        loss, correct, weight = map(float, term)
        figures[f"{name}_loss"] = loss / (weight or np.nan)
        figures["loss"] += figures[f"{name}_loss"] * factors.get(name, 1)
        if not np.isnan(correct):
            figures[f"{name}_accuracy"] = correct / (weight or np.nan)
    return figures


_FORMATS = {
    "{}": "num_hidden_layers seq_length batch_size",
    "{:.4f}": "loss mlm_loss sop_loss nsp_loss soft_loss cosine_loss",
    "{:.3f}": "accuracy accuracy_matched accuracy_mismatched label_accuracy f1 micro_f1 macro_f1 exact "
    "exact_match matthews_correlation pearson spearman auc ece rmse mae r2 "
    "mlm_accuracy sop_accuracy nsp_accuracy",
    "{:.1f}": "mlm_perplexity examples_per_second",
    "{:.2e}": "learning_rate",
    "{:.2f}": "gradient_norm",
    "{:.0f}": "tokens_per_second",
    "{:.1%}": "input_wait",
}

# The format of the metrics that are shown; the others go to the files only.
LOGGED_METRICS = {name: form for form, names in _FORMATS.items() for name in names.split()}


class MetricAccumulator:
    """The metrics of the updates since the last line of the log, as a function makes them of summed terms."""

    def __init__(self, metrics: Callable[[Mapping[str, LossSum]], dict[str, float]] = loss_metrics) -> None:
        self._metrics = metrics
        self._updates: list[tuple[Totals, int, float]] = []

    def add(self, totals: Totals, examples: int, seconds: float) -> None:
        """Counts in the totals of some updates, as numbers."""
        self._updates.append((totals, examples, seconds))

    def figures(self, seq_length: int | None) -> dict[str, float]:
        """Mean losses and accuracies, the last update's gradient norm, and the speed.

        Tokens are positions, padding included; unknown where examples are not all as long (None).
        """
        totals, examples, seconds = zip(*self._updates, strict=True)
        rate = sum(examples) / sum(seconds)
        return {
            **self._metrics(_add_up(part.terms for part in totals)),
            "gradient_norm": totals[-1].gradient_norm,
            "examples_per_second": rate,
            **({} if seq_length is None else {"tokens_per_second": rate * seq_length}),
            "input_wait": min(1.0, sum(part.input_wait for part in totals) / sum(seconds)),
        }


class EventFile:
    """The scalars that TensorBoard shows.

    Args:
      folder: what it is in.
      first_step: updates done so far; what is there of later ones is no longer shown.
    """

    def __init__(self, folder: str, first_step: int):
        # TensorBoard's imports are no matter of who only reads metrics.
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(folder)
        self._add(first_step + 1, session_log=SessionLog(status=SessionLog.START))

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Adds a value to each curve."""
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in figures.items()]
        self._add(step, summary=self._summary(value=values))
        self._writer.flush()

    def _add(self, step: int, **content: Any) -> None:
        self._writer.add_event(self._event(wall_time=time.time(), step=step, **content))

    def close(self) -> None:
        """Closes the file."""
        self._writer.close()


class MetricsLogger(contextlib.ExitStack):
    """Writes a run's metrics, for people and for programs, while entered.

    Args:
      run: the run directory. What metrics.jsonl and TensorBoard have of steps after `first_step` is dropped:
        it was written by a process that died before its next checkpoint, and will be written again.
      first_step: updates done so far.
      last_step: updates when the run is done.
      stream: where a progress bar goes, if it is a terminal and the log shows INFO. Lines are logged, above
        the bar.
      until: updates when a stage of the run is done, which the bar and the time left are of; None: the last.
    """

    def __init__(
        self,
        run: str | os.PathLike[str],
        first_step: int,
        last_step: int,
        stream: TextIO = sys.stderr,
        until: int | None = None,
    ):
        super().__init__()
        self._first_step, self._last_step, self._until = first_step, last_step, until or last_step
        self._started, self._stream = time.monotonic(), stream
        metrics = filesystem.join(run, METRICS_FILE)
        self.lines: list[Line] = []
        if filesystem.exists(metrics):
            self.lines = [line for line in read_metrics(run) if line["step"] <= first_step]
            filesystem.write_text(metrics, "".join(dump_json(line) + "\n" for line in self.lines))
        self._metrics, self._jsonl = Path(metrics), filesystem.append_to(metrics)
        self.callback(self._close)
        self._events = EventFile(filesystem.join(run, "tensorboard"), first_step)
        self.callback(self._events.close)
        is_shown = logging.get_absl_logger().isEnabledFor(python_logging.INFO)
        disable = None if is_shown else True  # None: where the stream is no terminal
        bar = tqdm(
            total=self._until,
            initial=first_step,
            unit="step",
            file=stream,
            dynamic_ncols=True,
            disable=disable,
        )
        self._bar = self.enter_context(bar)

    def _close(self) -> None:
        with contextlib.suppress(OSError):  # of a line that could not be written, which has been raised
            self._jsonl.close()

    def progress(self, step: int) -> None:
        """Moves the bar, if there is one."""
        self._bar.update(step - self._bar.n)

    def record(self, step: int, figures: Mapping[str, float]) -> None:
        """Writes a line of figures everywhere; the names of an evaluation begin with `eval_`."""
        # JSON has no infinity; a gradient norm of float16 may be infinite, of an update that was skipped.
        numbers = {name: value if math.isfinite(value) else None for name, value in figures.items()}
        self.lines.append({"step": step, **numbers})
        with naming_path(self._metrics, self._metrics):
            self._jsonl.write(dump_json(self.lines[-1]) + "\n")
            self._jsonl.flush()
        self._events.write(step, figures)
        shown = [
            f"{name} {LOGGED_METRICS[name.removeprefix('eval_')].format(value)}"
            for name, value in figures.items()
            if name.removeprefix("eval_") in LOGGED_METRICS
        ]
        self.say(f"step {step}/{self._last_step}  {'  '.join(shown)}  ETA {self._eta(step)}")

    def say(self, text: str) -> None:
        """Logs a line, above the bar if there is one."""
        with tqdm.external_write_mode(file=self._stream):
            logging.info(text)

    def _eta(self, step: int) -> str:
        """Time until the stage is done at the speed so far, h:mm:ss."""
        stage = f" (step {self._until})" if self._until < self._last_step else ""
        if step == self._first_step:
            return f"?{stage}"
        pace = (time.monotonic() - self._started) / (step - self._first_step)
        return f"{datetime.timedelta(seconds=round(pace * (self._until - step)))}{stage}"
