"""What a run says of itself: metrics.jsonl, TensorBoard, and a progress bar or plain lines."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from absl import logging
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tqdm import tqdm

from albert_tf.checkpoints.figures import METRICS, read_figures
from albert_tf.files import write_file

FIGURES = {
    # How the figures that are shown are written; the others go to the files only.
    **dict.fromkeys(("num_hidden_layers", "seq_length", "batch_size"), "{}"),
    "loss": "{:.4f}",
    **dict.fromkeys(("accuracy", "accuracy_matched", "accuracy_mismatched", "label_accuracy"), "{:.3f}"),
    **dict.fromkeys(
        ("f1", "micro_f1", "macro_f1", "matthews_correlation", "pearson", "spearman", "exact_match", "exact"),
        "{:.3f}",
    ),
    "mlm_loss": "{:.4f}",
    "mlm_accuracy": "{:.3f}",
    "mlm_perplexity": "{:.1f}",
    "sop_loss": "{:.4f}",
    "sop_accuracy": "{:.3f}",
    "nsp_loss": "{:.4f}",
    "nsp_accuracy": "{:.3f}",
    "learning_rate": "{:.2e}",
    "gradient_norm": "{:.2f}",
    "examples_per_second": "{:.1f}",
    "tokens_per_second": "{:.0f}",
    "input_wait": "{:.1%}",
}


class Logbook:
    """Writes a run's figures, for people and for programs.

    Args:
      run: the run directory. What metrics.jsonl and TensorBoard have of steps after `first_step` is dropped:
        it was written by a process that died before its next checkpoint, and will be written again.
      first_step: updates done so far.
      last_step: updates when the run is done.
      stream: where a progress bar goes, if it is a terminal. Lines are logged, above the bar.
      until: updates when a stage of the run is done, which the bar and the time left are of; None: the last.
    """

    def __init__(
        self,
        run: Path,
        first_step: int,
        last_step: int,
        stream: TextIO = sys.stderr,
        until: int | None = None,
    ):
        self._last_step, self._until = last_step, last_step if until is None else until
        self._started = (time.monotonic(), first_step)
        self._jsonl = _open_jsonl(run, first_step)
        self._tensorboard = EventFileWriter(str(run / "tensorboard"))
        restart = SessionLog(status=SessionLog.START)  # drops what is there from this step on
        self._tensorboard.add_event(Event(wall_time=time.time(), step=first_step + 1, session_log=restart))
        self._stream = stream
        self._bar = (
            tqdm(total=self._until, initial=first_step, unit="step", file=stream, dynamic_ncols=True)
            if stream.isatty()
            else None
        )

    def progress(self, step: int) -> None:
        """Moves the bar, if there is one."""
        if self._bar is not None:
            self._bar.update(step - self._bar.n)

    def record(self, step: int, figures: Mapping[str, float]) -> None:
        """Writes a line of figures everywhere; the names of an evaluation begin with `eval_`."""
        # JSON has no infinity; a gradient norm of float16 may be infinite, of an update that was skipped.
        numbers = {name: value if math.isfinite(value) else None for name, value in figures.items()}
        self._jsonl.write(json.dumps({"step": step, **numbers}) + "\n")
        self._jsonl.flush()
        values = [Summary.Value(tag=name, simple_value=value) for name, value in figures.items()]
        event = Event(wall_time=time.time(), step=step, summary=Summary(value=values))
        self._tensorboard.add_event(event)
        self._tensorboard.flush()
        self.say(self._line(step, figures))

    def say(self, text: str) -> None:
        """Logs a line, above the bar if there is one."""
        with tqdm.external_write_mode(file=self._stream):
            logging.info(text)

    def _line(self, step: int, figures: Mapping[str, float]) -> str:
        shown = [
            f"{name} {FIGURES[name.removeprefix('eval_')].format(value)}"
            for name, value in figures.items()
            if name.removeprefix("eval_") in FIGURES
        ]
        eta = self._eta(step) + (f" (step {self._until})" if self._until < self._last_step else "")
        return f"step {step}/{self._last_step}  {'  '.join(shown)}  ETA {eta}"

    def _eta(self, step: int) -> str:
        """Time until that step at the speed so far, h:mm:ss."""
        started, first_step = self._started
        if step == first_step:
            return "?"
        seconds = round((time.monotonic() - started) / (step - first_step) * (self._until - step))
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"

    def __enter__(self) -> Logbook:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
        self._tensorboard.close()
        self._jsonl.close()


class NoLogbook(contextlib.nullcontext["NoLogbook"]):
    """That of a host that writes nothing."""

    def __init__(self) -> None:
        super().__init__(self)

    def progress(self, step: int) -> None:
        """Nothing."""

    def record(self, step: int, figures: Mapping[str, float]) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""


def _open_jsonl(run: Path, first_step: int) -> TextIO:
    """The file, opened to append, without lines of later steps than `first_step`."""
    path = run / METRICS
    if path.exists():
        kept = [line for line in read_figures(run) if line["step"] <= first_step]
        write_file(path, "".join(json.dumps(line) + "\n" for line in kept))
    return path.open("a", encoding="utf-8")
