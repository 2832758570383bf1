"""The lines that tell what a fine-tuned run begins with, and what it has at its end."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping

from albert_tf.checkpoints.directory import BEST_KEY, RunDirectory
from albert_tf.finetuning.task_table import Records, Task
from albert_tf.tasks.examples.records import TextRecord, scores
from albert_tf.tasks.regression import Regression
from albert_tf.utils.errors import shown

MAX_LABELS = 10  # that are told, of many


def origin_line(origin: object, fresh: Iterable[str]) -> str:
    """A line with the start of the weights, and the parts of the model that are new.

    Args:
      origin: the name of what the weights are from.
      fresh: names of the variables that begin at random.
    """
    new = ", ".join(dict.fromkeys(name.partition("/")[0] for name in fresh))
    return f"weights from {str(origin)!r}" + (f"; new: {new}" if new else "")


def described(task: Task, records: Records) -> list[str]:
    """A line that shows a wrong column at a glance: the labels or scores of texts; none for other tasks."""
    rows = [record for record in records if isinstance(record, TextRecord)]
    if not rows:
        return []
    if task.kind is Regression:
        wanted = scores(rows)
        mean = sum(wanted) / len(wanted)
        return [f"scores: {min(wanted):g} to {max(wanted):g}, {mean:g} on average"]
    counts = collections.Counter(label for record in rows for label in task.kind.labels_of(record))
    told = [f"{shown(label)} ({count})" for label, count in counts.most_common(MAX_LABELS)]
    more = f" and {len(counts) - len(told)} more" if len(counts) > len(told) else ""
    return [f"labels: {', '.join(told)}{more}"]


def best_figures(run: RunDirectory) -> Mapping[str, float | None]:
    """The step that `load` takes of a run, and the metrics of its evaluation."""
    step = run.default_step()
    lines = [line for line in run.metrics() if line["step"] == step]
    evaluated = {name: value for line in lines for name, value in line.items() if name.startswith("eval_")}
    return {"step": step, **{name.removeprefix("eval_"): value for name, value in evaluated.items()}}


def ending(run: RunDirectory) -> str:
    """A line about a run that is done: its best step, and the metric there."""
    figures = best_figures(run)
    step, best_by = figures["step"], run.task[BEST_KEY].removeprefix("eval_")
    if (value := figures.get(best_by)) is None:
        return f"no evaluation has a {best_by}: the newest step, {step}, is taken in {run}"
    return f"best: step {step} ({best_by} {value:.4g}) in {run}"
