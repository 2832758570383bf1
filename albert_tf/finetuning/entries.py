"""Entries of task.json about a fine-tuned model beyond its class: the task, and how its texts are read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.checkpoints.directory import BEST_KEY
from albert_tf.features import FIRST
from albert_tf.finetuning.tasks import TASKS, find_task
from albert_tf.recipes import QuestionSettings
from albert_tf.tasks.datasets.columns import Columns
from albert_tf.utils.errors import InputError


def task_entries(
    name: str,
    records: Sequence[Any],
    seq_length: int,
    columns: Columns | None = None,
    questions: QuestionSettings | None = None,
    pooling: str = FIRST,
    threshold: float | None = None,
) -> dict[str, Any]:
    """The entries of task.json of a model for a task.

    Args:
      name: of the task.
      records: of its training data.
      seq_length: longest sequence.
      columns: of one's own table.
      questions: of tasks that read windows.
      pooling: of classifiers.
      threshold: of multi_label.
    Raises:
      InputError: there is no such task, it is not trained for, or a record lacks its label.
    """
    task = find_task(name)
    if task.trained_as:
        raise InputError(f"task={name!r} has no training data: a run of {task.trained_as} predicts for it")
    options = task.options if threshold is None else {**task.options, "threshold": threshold}
    entries = {
        **task.kind.model_config(records, **options),
        "task": name,
        "seq_length": seq_length,
        BEST_KEY: f"eval_{task.best_metric}",
    }
    if task.kind.has_windows:
        entries |= dataclasses.asdict(questions or QuestionSettings())
    if pooling != FIRST:  # the default of the models, which task.json leaves out
        entries["pooling"] = pooling
    if columns is not None:
        entries["columns"] = {key: value for key, value in columns._asdict().items() if value is not None}
    return entries


def run_task(entries: Mapping[str, Any], asked: str | None = None) -> str:
    """The task that a run is to predict for.

    Args:
      entries: what the run's task.json says.
      asked: another task that runs of this one predict for; None: the run's own.
    Raises:
      InputError: the run is not fine-tuned, or for a task that this is not.
    """
    there = entries.get("task")
    if there not in TASKS:
        raise InputError(
            f"the run is of a {entries.get('model')} that is not fine-tuned for one of {', '.join(TASKS)}: "
            "`albert-tf finetune` does"
        )
    if asked is None or asked == there:
        return str(there)
    if find_task(asked).trained_as != there:
        raise InputError(f"the run is fine-tuned for {there} and not for {asked}: name a run that is")
    return asked


def read_columns(entries: Mapping[str, Any]) -> Columns | None:
    """The columns of one's own table that task.json names; None of other tasks."""
    return Columns(**entries["columns"]) if "columns" in entries else None
