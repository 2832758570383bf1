"""The tasks to fine-tune for, by name: kind, reader, metrics, prediction files and hyper-parameters."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.checkpoints.directory import BEST_KEY
from albert_tf.features import FIRST
from albert_tf.finetuning.recipes import RECIPES, FinetuningRecipe
from albert_tf.recipes import QuestionSettings
from albert_tf.tasks.classification import Classification, TextKind, label_metrics
from albert_tf.tasks.datasets.choices import (
    RACE_GROUPS,
    choice_files,
    is_race_set,
    passage_files,
    read_choices,
    read_race,
)
from albert_tf.tasks.datasets.columns import Columns, own_records, table_files
from albert_tf.tasks.datasets.conll import read_conll, tagged_files
from albert_tf.tasks.datasets.destination import Files, Form, PathLike
from albert_tf.tasks.datasets.glue import (
    DEV,
    GLUE,
    TEST,
    read_glue_file,
    read_glue_split,
    submission_name,
    submission_text,
)
from albert_tf.tasks.datasets.squad import answer_files, read_squad
from albert_tf.tasks.kind import FinetunedKind, Records
from albert_tf.tasks.metrics.labels import accuracy, f1, matthews_correlation
from albert_tf.tasks.multi_label import MultiLabel
from albert_tf.tasks.multiple_choice import MultipleChoice
from albert_tf.tasks.question_answering import QuestionAnswering
from albert_tf.tasks.regression import Regression
from albert_tf.tasks.tagging import Tagging
from albert_tf.utils.checks import check_choice
from albert_tf.utils.errors import InputError


class FolderSets(NamedTuple):
    """Names of the sets in the folder of a task; the first of `dev` and of `test` is always there."""

    read: Callable[[str, str], Records]  # of a folder and a name
    train: str = "train"
    dev: tuple[str, ...] = ("dev",)
    test: tuple[str, ...] = ("test",)
    is_set: Callable[[str], bool] = lambda folder: False  # True of a folder that is a set by itself


@dataclasses.dataclass(frozen=True)
class Task:
    """A task to fine-tune for.

    Args:
      kind: of task.
      read: function from a file (of RACE: a folder), whether labels are needed, and the columns of a user's
        own table to records. It raises FileNotFoundError, and InputErrors that name file and line.
      files: function from the file that is predicted for, its records and the form of the output to one from
        predictions to the texts of files by name. It is called before anything is predicted, and refuses
        what could not be written afterwards.
      metrics: function from records and their predictions to fractions or per cent by name.
      best_metric: the metric that the best step has the highest value of.
      recipe: hyper-parameters; None where the task is not trained for.
      options: of `FinetunedKind.model_config`.
      sets: where the data is a folder.
      trained_as: the task of the runs that predict for this one; None: the same.
    """

    kind: type[FinetunedKind]
    read: Callable[[PathLike, bool, Columns | None], Records]
    files: Callable[[PathLike, Records, Form], Files]
    metrics: Callable[[Records, Sequence[Any]], dict[str, float]]
    best_metric: str
    recipe: FinetuningRecipe | None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sets: FolderSets | None = None
    trained_as: str | None = None

    @property
    def needs_columns(self) -> bool:
        """True if the data are tables whose columns one has to name."""
        return self.sets is None and issubclass(self.kind, TextKind)

    def read_sets(self, folder: PathLike, names: Sequence[str]) -> dict[str, Records]:
        """The records of sets by name; of the names but the first, of those that are there.

        Args:
          folder: of the task; `sets` is not None.
          names: `sets.dev` or `sets.test`.
        Raises:
          FileNotFoundError: the first set is not there.
          InputError: the task has no such sets, or a file is not one of it.
        """
        assert self.sets is not None
        folder, found = os.fspath(folder), {}
        if not names:
            raise InputError(f"{folder}: the task has no set with labels, only one to predict for")
        for name in names:
            try:
                found[name] = self.sets.read(folder, name)
            except FileNotFoundError:
                if not found:
                    raise
        return found


def find_task(name: str) -> Task:
    """The entry of a task; an InputError names those there are."""
    check_choice("task", name, TASKS)
    return TASKS[name]


def task_entries(
    name: str,
    records: Records,
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
      InputError: there is no such task, or a record lacks its label.
    """
    task = find_task(name)
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


def set_metrics(task: Task, predicted: Mapping[str, tuple[Records, Sequence[Any]]]) -> dict[str, float]:
    """Metrics of records and predictions by set; names of those of `dev_matched` end in `_matched`."""
    return {
        "_".join([metric, *name.split("_")[1:]]): value
        for name, (records, predictions) in predicted.items()
        for metric, value in task.metrics(records, predictions).items()
    }


def _task(name: str, kind: type[FinetunedKind], read: Any, files: Any, **changes: Any) -> Task:
    """A task that is scored as its kind is, but for the changes."""
    of_kind = {"metrics": kind.metrics, "best_metric": kind.best_metric}
    return Task(kind=kind, read=read, files=files, recipe=RECIPES.get(name), **{**of_kind, **changes})


def _glue_task(name: str, metrics: Callable[..., dict[str, float]], best_metric: str) -> Task:
    glue = GLUE[name]
    dev, test = (tuple(name for name in glue.files if name.startswith(part)) for part in (DEV, TEST))

    def files(source: PathLike, records: Records, form: Form) -> Files:
        form.check_no_columns("GLUE")
        if form.ending not in (None, ".tsv"):
            raise InputError(f"{form.file} does not end in .tsv, the format that GLUE's server takes")
        file = submission_name(name, source)
        return lambda predictions: {file: submission_text(records, predictions)}

    return _task(
        name,
        Regression if glue.labels is None else Classification,
        lambda file, needs_labels, _: read_glue_file(name, file, needs_labels),
        files,
        options={} if glue.labels is None else {"labels": glue.labels},
        metrics=metrics,
        best_metric=best_metric,
        sets=FolderSets(functools.partial(read_glue_split, name), dev=dev, test=test),
        trained_as="mnli" if name == "ax" else None,
    )


def _squad_task(name: str, has_impossible: bool) -> Task:
    return _task(
        name,
        QuestionAnswering,
        lambda file, needs_labels, _: read_squad(file, has_impossible, needs_labels),
        answer_files,
        options={"answerability": has_impossible},
    )


_ACCURACY = label_metrics(accuracy=accuracy)
_PARAPHRASE = label_metrics(accuracy=accuracy, f1=functools.partial(f1, label="1"))
_CORRELATION = label_metrics(matthews_correlation=matthews_correlation, accuracy=accuracy)

# Metrics of GLUE are those of its paper (Wang et al. 2019, table 1); the best step is that by which
# google-research/albert's run_classifier.py chooses it.
TASKS: dict[str, Task] = {
    "cola": _glue_task("cola", _CORRELATION, "matthews_correlation"),
    "sst-2": _glue_task("sst-2", _ACCURACY, "accuracy"),
    "mrpc": _glue_task("mrpc", _PARAPHRASE, "accuracy"),
    "sts-b": _glue_task("sts-b", Regression.metrics, "pearson"),
    "qqp": _glue_task("qqp", _PARAPHRASE, "accuracy"),
    "mnli": _glue_task("mnli", _ACCURACY, "accuracy_matched"),
    "qnli": _glue_task("qnli", _ACCURACY, "accuracy"),
    "rte": _glue_task("rte", _ACCURACY, "accuracy"),
    "wnli": _glue_task("wnli", _ACCURACY, "accuracy"),
    "ax": _glue_task("ax", _CORRELATION, "matthews_correlation"),
    "squad-v1.1": _squad_task("squad-v1.1", has_impossible=False),
    "squad-v2.0": _squad_task("squad-v2.0", has_impossible=True),
    "race": _task(
        "race",
        MultipleChoice,
        lambda folder, *_: read_race(folder),
        passage_files,
        metrics=functools.partial(MultipleChoice.metrics, groups=RACE_GROUPS),
        sets=FolderSets(lambda folder, name: read_race(f"{folder}/{name}"), is_set=is_race_set),
    ),
    "classification": _task("classification", Classification, own_records, table_files),
    "multi_label": _task(
        "multi_label", MultiLabel, functools.partial(own_records, has_lists=True), table_files
    ),
    "regression": _task("regression", Regression, own_records, table_files),
    "tagging": _task("tagging", Tagging, lambda file, *_: read_conll(file), tagged_files),
    "multiple_choice": _task(
        "multiple_choice", MultipleChoice, lambda file, *_: read_choices(file), choice_files
    ),
}
