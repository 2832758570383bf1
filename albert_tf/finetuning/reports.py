"""The lines that tell what a fine-tuned run begins with, and what it has at its end."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.checkpoints.directory import BEST_KEY, RunDirectory
from albert_tf.checkpoints.growth import Growth
from albert_tf.checkpoints.names import variable_names
from albert_tf.config import AlbertConfig
from albert_tf.finetuning.tasks import Task, set_metrics
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.examples.predictions import LabelPrediction
from albert_tf.tasks.examples.records import label_of
from albert_tf.training.logbook import FIGURES


def origin_line(origin: object, growth: Growth, config: AlbertConfig, entries: Mapping[str, Any]) -> str:
    """A line with the parts of a model that are copied, and those that begin at random.

    Args:
      origin: the name of what the weights are from.
      growth: where each variable comes from.
      config: the network.
      entries: what task.json says.
    """
    encoder = {names.ours for names in variable_names(config, {"model": "encoder"})}
    fresh = [name.rpartition("/")[0] for name in growth.fresh if name in encoder]
    new = [f"new {scope}" for scope in dict.fromkeys(fresh)]
    if encoder.issuperset(growth.fresh):
        return ", ".join([f"encoder and head from {str(origin)!r}", *new])
    labels = f" of {len(entries['labels'])} labels" if "labels" in entries else ""
    return ", ".join([f"encoder from {str(origin)!r}", *new, f"new head{labels}"])


def best_figures(run: RunDirectory) -> Mapping[str, float | None]:
    """The step that `load` takes of a run, and the metrics of its evaluation."""
    step = run.default_step()
    lines = [line for line in run.metrics() if line["step"] == step]
    evaluated = {name: value for line in lines for name, value in line.items() if name.startswith("eval_")}
    return {"step": step, **{name.removeprefix("eval_"): value for name, value in evaluated.items()}}


def ending(run: RunDirectory, task: Task, dev: Mapping[str, Sequence[Any]]) -> list[str]:
    """Lines about a run that is done: its best step, the metrics there, and a baseline if that is as good.

    Args:
      run: the run directory.
      task: its entry.
      dev: what it was evaluated on, by the name of the set.
    """
    figures = best_figures(run)
    step, best_by = figures["step"], run.task[BEST_KEY].removeprefix("eval_")
    value = figures.get(best_by)
    if value is None:
        return [f"no evaluation has a {best_by}: the newest step, {step}, is taken in {run}"]
    names = [best_by, *(name for name in figures if name in FIGURES and name != best_by)]
    shown = ", ".join(_shown(name, number) for name in names if (number := figures[name]) is not None)
    lines = [f"best: step {step} ({shown}) in {run}"]
    if issubclass(task.kind, Classification):
        labels = collections.Counter(label_of(record) for records in dev.values() for record in records)
        label = labels.most_common(1)[0][0]
        always = LabelPrediction(label, np.ones(1, np.float32))
        constant = {name: (records, [always] * len(records)) for name, records in dev.items()}
        if value <= (baseline := set_metrics(task, constant)[best_by]):
            lines.append(
                f"that is no better than {label!r}, the most frequent label there, for every text "
                f"({_shown(best_by, baseline)}): train longer, on more data, or from a better start"
            )
    return lines


def _shown(name: str, value: float) -> str:
    return f"{name} {FIGURES[name].format(value)}"
