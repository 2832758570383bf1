"""The tasks to fine-tune for, by name: kind, reader, metrics, prediction files and hyper-parameters."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from albert_tf.errors import check_choice
from albert_tf.recipes import QuestionSettings
from albert_tf.runs.run_directory import BEST_KEY
from albert_tf.tasks.classification import Classification, Metric, label_metrics
from albert_tf.tasks.columns import TABLE, TABLE_OF_LISTS, Columns
from albert_tf.tasks.dataset_files import CONLL, QUESTIONS, RACE, squad_format
from albert_tf.tasks.formats import DataFormat, Records
from albert_tf.tasks.glue import GLUE, glue_format
from albert_tf.tasks.metrics import accuracy, f1, matthews_correlation
from albert_tf.tasks.multi_label import MultiLabel
from albert_tf.tasks.multiple_choice import MultipleChoice
from albert_tf.tasks.question_answering import QuestionAnswering
from albert_tf.tasks.regression import Regression
from albert_tf.tasks.tagging import Tagging
from albert_tf.tasks.task import FinetuningTask

Metrics = Callable[[FinetuningTask, Records, Sequence[Any]], dict[str, float]]


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """A task to fine-tune for."""

    kind: type[FinetuningTask]
    format: DataFormat
    metrics: Metrics  # of a model's task, records and their predictions: fractions or per cent by name
    metric_names: tuple[str, ...]  # of a set; the first decides on the best step
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of `FinetuningTask.model_config`
    trained_as: str | None = None  # the task of the runs that predict for this one; None: the same

    @property
    def evaluated(self) -> tuple[str, ...]:
        """Names of the metrics of an evaluation, and of its loss where there is one."""
        names = (_of_set(name, dev) for dev in self.format.dev or [""] for name in self.metric_names)
        return (*names, *(["loss"] if self.kind(self.options).has_evaluation_loss else []))

    @property
    def reported(self) -> tuple[str, ...]:
        """Names of all figures that can tell the best step: those of an evaluation, and of its report."""
        return (*self.evaluated, *self.kind(self.options).report_names)

    @property
    def best_metric(self) -> str:
        """The metric by which the best step is chosen unless another one is asked for."""
        return self.evaluated[0]


def find_task_spec(name: str) -> TaskSpec:
    """The entry of a task; an InputError names those there are."""
    check_choice("task", name, TASK_SPECS)
    return TASK_SPECS[name]


def task_entries(
    name: str,
    records: Records,
    seq_length: int,
    columns: Columns | None = None,
    questions: QuestionSettings | None = None,
    threshold: float | None = None,
    **others: Any,
) -> dict[str, Any]:
    """The entries of task.json of a model that learns these records of a task; `others` are added.

    Raises:
      InputError: there is no such task, or a record lacks its label.
    """
    task = find_task_spec(name)
    options = task.options if threshold is None else {**task.options, "threshold": threshold}
    entries = {
        **task.kind.model_config(records, **options),
        "task": name,
        "seq_length": seq_length,
        BEST_KEY: f"eval_{task.best_metric}",
    }
    if task.kind.has_windows:
        entries |= dataclasses.asdict(questions or QuestionSettings())
    if columns is not None:
        entries["columns"] = {key: value for key, value in columns._asdict().items() if value is not None}
    return {**entries, **others}


def set_metrics(
    task: TaskSpec, kind: FinetuningTask, predicted: Mapping[str, tuple[Records, Sequence[Any]]]
) -> dict[str, float]:
    """Metrics by set, as a model's task scores them; names of those of `dev_matched` end in `_matched`."""
    return {
        _of_set(metric, name): value
        for name, (records, predictions) in predicted.items()
        for metric, value in task.metrics(kind, records, predictions).items()
    }


def _of_set(metric: str, name: str) -> str:
    """The name of a metric of a set."""
    return "_".join([metric, *name.split("_")[1:]])


def _task(kind: type[FinetuningTask], data: DataFormat, **changes: Any) -> TaskSpec:
    """A task that is scored as its kind is, but for the changes."""
    return TaskSpec(kind, data, **{"metrics": kind.metrics, "metric_names": kind.metric_names, **changes})


def _glue_task(name: str, **metrics: Metric) -> TaskSpec:
    """A task of GLUE: of classification with these metrics, the first of which decides on the best step."""
    data, labels = glue_format(name), GLUE[name].labels
    if labels is None:
        return _task(Regression, data)
    trained_as = "mnli" if name == "ax" else None
    return TaskSpec(
        Classification, data, label_metrics(**metrics), tuple(metrics), {"labels": labels}, trained_as
    )


_PARAPHRASE: dict[str, Metric] = {"accuracy": accuracy, "f1": functools.partial(f1, label="1")}
_CORRELATION: dict[str, Metric] = {"matthews_correlation": matthews_correlation, "accuracy": accuracy}
_SQUAD_V2 = "f1 exact HasAns_f1 HasAns_exact NoAns_f1 NoAns_exact best_f1 best_exact"

# Metrics of GLUE are those of its paper (Wang et al. 2019, table 1); the best step is that by which
# google-research/albert's run_classifier.py chooses it.
TASK_SPECS: dict[str, TaskSpec] = {
    "cola": _glue_task("cola", **_CORRELATION),
    "sst-2": _glue_task("sst-2", accuracy=accuracy),
    "mrpc": _glue_task("mrpc", **_PARAPHRASE),
    "sts-b": _glue_task("sts-b"),
    "qqp": _glue_task("qqp", **_PARAPHRASE),
    "mnli": _glue_task("mnli", accuracy=accuracy),
    "qnli": _glue_task("qnli", accuracy=accuracy),
    "rte": _glue_task("rte", accuracy=accuracy),
    "wnli": _glue_task("wnli", accuracy=accuracy),
    "ax": _glue_task("ax", **_CORRELATION),
    "squad-v1.1": _task(QuestionAnswering, squad_format(has_impossible=False)),
    "squad-v2.0": _task(
        QuestionAnswering,
        squad_format(has_impossible=True),
        options={"answerability": True},
        metric_names=tuple(_SQUAD_V2.split()),
    ),
    "race": _task(MultipleChoice, RACE, metric_names=("accuracy", "accuracy_middle", "accuracy_high")),
    "classification": _task(Classification, TABLE),
    "multi_label": _task(MultiLabel, TABLE_OF_LISTS),
    "regression": _task(Regression, TABLE),
    "tagging": _task(Tagging, CONLL),
    "multiple_choice": _task(MultipleChoice, QUESTIONS),
}
