"""Metrics of a run: computes them on held-out data, and logs them to a terminal, a file and TensorBoard."""

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
from albert_tf.constants import Tensors
from albert_tf.errors import InputError
from albert_tf.io import dump_json, reraise_with_path
from albert_tf.models.loss_sums import LossFn, LossSum
from albert_tf.runs.run_directory import METRICS_FILE, Line, read_metrics
from albert_tf.training.distribution import uses_xla
from albert_tf.training.train_step import Batch, Totals, compilation_log, divide_among_replicas

# Computes metrics from summed losses by name.
MetricsFunction = Callable[[Mapping[str, LossSum]], dict[str, float]]


def make_evaluator(
    model: keras.Model, loss_fn: LossFn, xla: bool | None = None
) -> Callable[[Iterable[Batch]], dict[str, LossSum]]:
    """Creates a function that sums the losses of a model over a finite dataset.

    The replicas of the current strategy divide the rows of each batch, whose shapes are static. The function
    traces the model once.

    Args:
      model: called with a batch and `training=False`.
      loss_fn: the losses.
      xla: True to compile the model with XLA. None: on GPUs only.
    Returns:
      `evaluate(dataset)`, which returns a LossSum of floats for each loss. It raises InputError if the
      dataset is empty.
    """
    is_compiled = uses_xla(xla)
    on_batch = compilation_log("evaluation") if is_compiled else None

    def compute(rows: Batch) -> tuple[Tensors, dict[str, LossSum]]:
        return {}, loss_fn.terms(model(rows, training=False), rows)

    forward = divide_among_replicas(compute, is_compiled)

    def evaluate(dataset: Iterable[Batch]) -> dict[str, LossSum]:
        terms = []
        for batch in dataset:
            if on_batch is not None:
                on_batch(batch)
            _, batch_terms = forward(batch)
            terms.append(tf.nest.map_structure(float, batch_terms))
        if not terms:
            raise InputError("there is nothing to evaluate on: give more documents")
        return add_up(terms)

    return evaluate


def add_up(terms: Iterable[dict[str, LossSum]]) -> dict[str, LossSum]:
    """Adds up the sums of several batches."""
    return tf.nest.map_structure(lambda *parts: sum(parts), *terms)


def loss_metrics(
    terms: Mapping[str, LossSum], loss_weights: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Mean losses and accuracies.

    Args:
      terms: summed loss of each term, by name.
      loss_weights: weight of each term in the total loss, by name. Default: 1.
    Returns:
      `loss`, the weighted sum of the mean losses, and for each term `<term>_loss` (nats) and
      `<term>_accuracy`. Regression has no accuracy. A term whose weights sum to 0 is NaN.
    """
    metrics, loss_weights = {"loss": 0.0}, loss_weights or {}
    for name, term in terms.items():
        loss, correct, weight = map(float, term)
        metrics[f"{name}_loss"] = loss / (weight or np.nan)
        metrics["loss"] += metrics[f"{name}_loss"] * loss_weights.get(name, 1)
        if not np.isnan(correct):
            metrics[f"{name}_accuracy"] = correct / (weight or np.nan)
    return metrics


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

# Formats of the metrics in the log. Other metrics are written to the files only.
LOGGED_METRICS = {name: form for form, names in _FORMATS.items() for name in names.split()}


def interval_metrics(
    updates: Iterable[tuple[Totals, int, float]], metrics: MetricsFunction, seq_length: int | None
) -> dict[str, float]:
    """Mean losses and accuracies of the steps between two log lines, the last gradient norm, and the speed.

    Args:
      updates: for each call of the training step its totals as floats, its number of examples, and seconds.
      metrics: computes metrics from the summed terms.
      seq_length: for `tokens_per_second`, which includes padding. None: lengths vary, and it is left out.
    """
    totals, examples, seconds = zip(*updates, strict=True)
    rate = sum(examples) / sum(seconds)
    return {
        **metrics(add_up(part.terms for part in totals)),
        "gradient_norm": totals[-1].gradient_norm,
        "examples_per_second": rate,
        **({} if seq_length is None else {"tokens_per_second": rate * seq_length}),
        "input_wait": min(1.0, sum(part.input_wait for part in totals) / sum(seconds)),
    }


class TensorBoardWriter:
    """Writes scalars for TensorBoard.

    Args:
      folder: folder of the event file.
      first_step: number of steps done so far. TensorBoard stops showing older values of later steps.
    """

    def __init__(self, folder: str, first_step: int):
        # Here, since TensorBoard is slow to import and not needed to read metrics.
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(folder)
        self._add(first_step + 1, session_log=SessionLog(status=SessionLog.START))

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Adds a value to the curve of each metric."""
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        self._add(step, summary=self._summary(value=values))
        self._writer.flush()

    def _add(self, step: int, **content: Any) -> None:
        self._writer.add_event(self._event(wall_time=time.time(), step=step, **content))

    def close(self) -> None:
        """Closes the file."""
        self._writer.close()


class MetricsLogger(contextlib.ExitStack):
    """Writes the metrics of a run to the log, metrics.jsonl and TensorBoard. A context manager.

    Args:
      run: run directory. Metrics of steps after `first_step` are dropped: the process that wrote them died
        before its next checkpoint, and these steps are computed again.
      first_step: number of steps done so far.
      last_step: number of steps of the run.
      stream: stream of the progress bar, which is shown on a terminal if the log shows INFO. None: stderr.
      until: last step of the current stage, for the bar and the time left. None: `last_step`.
    """

    def __init__(
        self,
        run: str | os.PathLike[str],
        first_step: int,
        last_step: int,
        stream: TextIO | None = None,
        until: int | None = None,
    ):
        super().__init__()
        self._first_step, self._last_step, self._until = first_step, last_step, until or last_step
        self._started, self._stream = time.monotonic(), stream or sys.stderr
        metrics_file = filesystem.join(run, METRICS_FILE)
        self.lines: list[Line] = []
        if filesystem.exists(metrics_file):
            self.lines = [line for line in read_metrics(run) if line["step"] <= first_step]
            filesystem.write_text(metrics_file, "".join(dump_json(line) + "\n" for line in self.lines))
        self._metrics_file, self._jsonl = Path(metrics_file), filesystem.open_to_append(metrics_file)
        self.callback(self._close)
        self._tensorboard = TensorBoardWriter(filesystem.join(run, "tensorboard"), first_step)
        self.callback(self._tensorboard.close)
        is_shown = logging.get_absl_logger().isEnabledFor(python_logging.INFO)
        disable = None if is_shown else True  # None: disabled unless the stream is a terminal
        bar = tqdm(
            total=self._until,
            initial=first_step,
            unit="step",
            file=self._stream,
            dynamic_ncols=True,
            disable=disable,
        )
        self._bar = self.enter_context(bar)

    def _close(self) -> None:
        with contextlib.suppress(OSError):  # the error of a line that could not be written has been raised
            self._jsonl.close()

    def progress(self, step: int) -> None:
        """Moves the progress bar, if it is shown."""
        self._bar.update(step - self._bar.n)

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Logs metrics and writes them to both files. Names of an evaluation's metrics begin with `eval_`."""
        # JSON has no infinity, and a float16 step that was skipped may have an infinite gradient norm.
        numbers = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
        self.lines.append({"step": step, **numbers})
        with reraise_with_path(self._metrics_file, self._metrics_file):
            self._jsonl.write(dump_json(self.lines[-1]) + "\n")
            self._jsonl.flush()
        self._tensorboard.write(step, metrics)
        columns = [
            f"{name} {LOGGED_METRICS[name.removeprefix('eval_')].format(value)}"
            for name, value in metrics.items()
            if name.removeprefix("eval_") in LOGGED_METRICS
        ]
        self.log(f"step {step}/{self._last_step}  {'  '.join(columns)}  ETA {self._eta(step)}")

    def log(self, text: str) -> None:
        """Logs a line, above the progress bar if it is shown."""
        with tqdm.external_write_mode(file=self._stream):
            logging.info(text)

    def _eta(self, step: int) -> str:
        """Estimated time until the end of the stage, h:mm:ss."""
        stage = f" (step {self._until})" if self._until < self._last_step else ""
        if step == self._first_step:
            return f"?{stage}"
        step_seconds = (time.monotonic() - self._started) / (step - self._first_step)
        return f"{datetime.timedelta(seconds=round(step_seconds * (self._until - step)))}{stage}"
