"""TASK_SPECS, the tasks to fine-tune for by name: class, file format, metrics."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from albert_tf.errors import check_choice
from albert_tf.recipes import QuestionSettings
from albert_tf.runs.run_directory import BEST_KEY, EVALUATION
from albert_tf.tasks.classification import Classification, Metric, TextTask, label_metrics
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

    task_class: type[FinetuningTask]
    format: DataFormat
    metrics: Metrics  # computes fractions or per cent by name from a model's task, records and predictions
    metric_names: tuple[str, ...]  # of one set; the first chooses the best step
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # for `FinetuningTask.model_config`
    trained_as: str | None = None  # the task whose runs predict for this one; None: this task

    @property
    def evaluation_metric_names(self) -> tuple[str, ...]:
        """Names of the metrics of an evaluation, with "loss" if the task has an evaluation loss."""
        names = (set_metric_name(name, dev) for dev in self.format.dev or [""] for name in self.metric_names)
        return (*names, *(["loss"] if self.task_class(self.options).has_evaluation_loss else []))

    @property
    def best_by_choices(self) -> tuple[str, ...]:
        """Names of all metrics that can choose the best step, from an evaluation or from its report."""
        return (*self.evaluation_metric_names, *self.task_class(self.options).report_names)

    @property
    def has_columns(self) -> bool:
        """True if the data is a table of a user, whose columns are to be named."""
        return issubclass(self.task_class, TextTask) and not self.format.is_folder

    @property
    def best_metric(self) -> str:
        """Name of the metric that chooses the best step by default."""
        return self.evaluation_metric_names[0]


def find_task_spec(name: str) -> TaskSpec:
    """The entry of a task; for an unknown task an InputError names the known ones."""
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
    """The entries of task.json of a model that learns these records of a task, with `others` added.

    Raises:
      InputError: the task is unknown, or a record has no label.
    """
    spec = find_task_spec(name)
    options = spec.options if threshold is None else {**spec.options, "threshold": threshold}
    entries = {
        **spec.task_class.model_config(records, **options),
        "task": name,
        "seq_length": seq_length,
        BEST_KEY: f"{EVALUATION}{spec.best_metric}",
    }
    if spec.task_class.has_windows:
        entries |= dataclasses.asdict(questions or QuestionSettings())
    if columns is not None:
        entries["columns"] = {key: value for key, value in columns._asdict().items() if value is not None}
    return {**entries, **others}


def set_metric_name(metric: str, name: str) -> str:
    """The name of a metric of the set `name`: "accuracy" of `dev_matched` is "accuracy_matched"."""
    return "_".join([metric, *name.split("_")[1:]])


def _task_spec(task_class: type[FinetuningTask], data: DataFormat, **changes: Any) -> TaskSpec:
    """A task with the metrics of its class, unless changed."""
    return TaskSpec(
        task_class,
        data,
        **{"metrics": task_class.metrics, "metric_names": task_class.metric_names, **changes},
    )


def _glue_task_spec(name: str, **metrics: Metric) -> TaskSpec:
    """A task of GLUE: classification with these metrics (the first chooses the best step), or regression."""
    data, labels = glue_format(name), GLUE[name].labels
    if labels is None:
        return _task_spec(Regression, data)
    trained_as = "mnli" if name == "ax" else None
    return TaskSpec(
        Classification, data, label_metrics(**metrics), tuple(metrics), {"labels": labels}, trained_as
    )


_PARAPHRASE: dict[str, Metric] = {"accuracy": accuracy, "f1": functools.partial(f1, label="1")}
_CORRELATION: dict[str, Metric] = {"matthews_correlation": matthews_correlation, "accuracy": accuracy}
_SQUAD_V2 = "f1 exact HasAns_f1 HasAns_exact NoAns_f1 NoAns_exact best_f1 best_exact"

# GLUE: the metrics of Wang et al. 2019, table 1; the first one chooses the best step, as in
# google-research/albert's run_classifier.py.
TASK_SPECS: dict[str, TaskSpec] = {
    "cola": _glue_task_spec("cola", **_CORRELATION),
    "sst-2": _glue_task_spec("sst-2", accuracy=accuracy),
    "mrpc": _glue_task_spec("mrpc", **_PARAPHRASE),
    "sts-b": _glue_task_spec("sts-b"),
    "qqp": _glue_task_spec("qqp", **_PARAPHRASE),
    "mnli": _glue_task_spec("mnli", accuracy=accuracy),
    "qnli": _glue_task_spec("qnli", accuracy=accuracy),
    "rte": _glue_task_spec("rte", accuracy=accuracy),
    "wnli": _glue_task_spec("wnli", accuracy=accuracy),
    "ax": _glue_task_spec("ax", **_CORRELATION),
    "squad-v1.1": _task_spec(QuestionAnswering, squad_format(has_impossible=False)),
    "squad-v2.0": _task_spec(
        QuestionAnswering,
        squad_format(has_impossible=True),
        options={"answerability": True},
        metric_names=tuple(_SQUAD_V2.split()),
    ),
    "race": _task_spec(MultipleChoice, RACE, metric_names=("accuracy", "accuracy_middle", "accuracy_high")),
    "classification": _task_spec(Classification, TABLE),
    "multi_label": _task_spec(MultiLabel, TABLE_OF_LISTS),
    "regression": _task_spec(Regression, TABLE),
    "tagging": _task_spec(Tagging, CONLL),
    "multiple_choice": _task_spec(MultipleChoice, QUESTIONS),
}
