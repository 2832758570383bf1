"""The one table of tasks: reader, kind of model, recipe, figures and prediction files of each.

A further task is a further entry.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.data.tasks.choices import RACE_GROUPS, is_race_set, read_choices, read_race
from albert_tf.data.tasks.columns import Columns, text_records
from albert_tf.data.tasks.conll import read_conll
from albert_tf.data.tasks.glue import DEV, GLUE, TEST, read_glue_file, read_glue_split
from albert_tf.data.tasks.squad import read_squad
from albert_tf.data.tasks.tables import read_table
from albert_tf.errors import InputError
from albert_tf.finetuning.figures import (
    answer_figures,
    choice_figures,
    label_figures,
    score_figures,
    tag_figures,
)
from albert_tf.finetuning.kinds import MULTIPLE_CHOICE, REGRESSION, TAGGING, Kind, classification, spans
from albert_tf.finetuning.predictions.destination import Form
from albert_tf.finetuning.predictions.files import (
    Files,
    answer_files,
    choice_files,
    passage_files,
    table_files,
    tagged_files,
)
from albert_tf.finetuning.predictions.submissions import submission_name, submission_text
from albert_tf.finetuning.recipes import RECIPES, FinetuningRecipe
from albert_tf.training.metrics.labels import accuracy, f1, macro_f1, matthews_correlation

PathLike = str | os.PathLike[str]
Records = Sequence[Any]


class Sets(NamedTuple):
    """The sets of a task whose data is a folder.

    Attributes:
      read: the records of a set in a folder.
      train: what it is trained on.
      dev: what it is evaluated on; the first is always there.
      test: what predictions are wanted for; the first is always there.
      is_set: whether a folder is a set by itself.
    """

    read: Callable[[str, str], Records]
    train: str = "train"
    dev: tuple[str, ...] = ("dev",)
    test: tuple[str, ...] = ("test",)
    is_set: Callable[[str], bool] = lambda folder: False


@dataclasses.dataclass(frozen=True)
class Task:
    """What to do with the data of a task.

    Args:
      kind: of model, examples and predictions.
      read: the records of a file (of RACE: a folder); whether labels are needed, and which columns to take of
        one's own tables. Other tasks leave the columns alone.
      figures: of records and their predictions, a fraction or per cent by name.
      best: the figure that the best step has the highest of.
      files: from a file that is predicted for, its records and the form of the output to a function from
        predictions to the texts of files by name; it refuses what could not be written.
      recipe: hyper-parameters; None where the task is not trained for.
      sets: where the data is a folder.
      trained_as: the task of the runs that predict for this one; None: the same.
      has_windows: whether `QuestionSettings` say how long texts are read.
      needs_columns: whether its data are tables whose columns one has to name.
    """

    kind: Kind
    read: Callable[[PathLike, bool, Columns | None], Records]
    figures: Callable[[Records, Sequence[Any]], dict[str, float]]
    best: str
    files: Callable[[PathLike, Records, Form], Files]
    recipe: FinetuningRecipe | None
    sets: Sets | None = None
    trained_as: str | None = None
    has_windows: bool = False
    needs_columns: bool = False

    def read_sets(self, folder: PathLike, names: Sequence[str]) -> dict[str, Records]:
        """The records of sets by name; of the names but the first, of those that are there.

        Args:
          folder: of the task; `sets` is not None.
          names: `sets.dev` or `sets.test`.
        Raises:
          FileNotFoundError: the first set is not there.
          InputError: there are no such sets of the task, or a file is not one of it.
        """
        assert self.sets is not None
        if not names:
            raise InputError(f"{os.fspath(folder)}: the task has no set with labels, only one to predict for")
        found = {names[0]: self.sets.read(os.fspath(folder), names[0])}
        for name in names[1:]:
            try:
                found[name] = self.sets.read(os.fspath(folder), name)
            except FileNotFoundError:
                continue
        return found


def find_task(name: str) -> Task:
    """The entry of a task; an InputError names those there are."""
    if name not in TASKS:
        raise InputError(f"task={name!r} is none of {', '.join(TASKS)}")
    return TASKS[name]


def set_figures(task: Task, predicted: Mapping[str, tuple[Records, Sequence[Any]]]) -> dict[str, float]:
    """The figures of a task's sets; names of those of `dev_matched` end in `_matched`.

    Args:
      task: its entry.
      predicted: records and predictions by the name of their set.
    """
    return {
        "_".join([figure, *name.split("_")[1:]]): value
        for name, (records, predictions) in predicted.items()
        for figure, value in task.figures(records, predictions).items()
    }


def _read_own(file: PathLike, needs_labels: bool, columns: Columns | None) -> Records:
    if columns is None:
        raise InputError(f"{os.fspath(file)}: --text names the column of the texts: it is missing")
    if needs_labels and columns.label is None:
        raise InputError(f"{os.fspath(file)}: --label names the column of the labels: it is missing")
    return text_records(read_table(file), columns if needs_labels else columns._replace(label=None))


def _glue_task(name: str, figures: Callable[..., dict[str, float]], best: str) -> Task:
    glue = GLUE[name]
    dev, test = (tuple(name for name in glue.files if name.startswith(part)) for part in (DEV, TEST))

    def read(file: PathLike, needs_labels: bool, _: Columns | None) -> Records:
        return read_glue_file(name, file, needs_labels)

    def files(source: PathLike, records: Records, form: Form) -> Files:
        form.check_no_columns("GLUE")
        if form.ending not in (None, ".tsv"):
            raise InputError(f"{form.file} does not end in .tsv, the format that GLUE's server takes")
        file = submission_name(name, os.fspath(source))
        return lambda predictions: {file: submission_text(records, predictions)}

    return Task(
        kind=REGRESSION if glue.labels is None else classification(glue.labels),
        read=read,
        figures=figures,
        best=best,
        files=files,
        recipe=RECIPES.get(name),
        sets=Sets(functools.partial(read_glue_split, name), dev=dev, test=test),
        trained_as="mnli" if name == "ax" else None,
    )


def _squad_task(name: str, has_impossible: bool, best: str) -> Task:
    def read(file: PathLike, needs_labels: bool, _: Columns | None) -> Records:
        return read_squad(file, has_impossible, needs_labels)

    return Task(
        kind=spans(answerability=has_impossible),
        read=read,
        figures=answer_figures,
        best=best,
        files=answer_files,
        recipe=RECIPES[name],
        has_windows=True,
    )


_ACCURACY = label_figures(accuracy=accuracy)
_PARAPHRASE = label_figures(accuracy=accuracy, f1=functools.partial(f1, label="1"))
_CORRELATION = label_figures(matthews_correlation=matthews_correlation, accuracy=accuracy)

# Of GLUE the figures are those of its paper (Wang et al. 2019, table 1); the best step is that by which
# google-research/albert's run_classifier.py chooses it.
TASKS: dict[str, Task] = {
    "cola": _glue_task("cola", _CORRELATION, "matthews_correlation"),
    "sst-2": _glue_task("sst-2", _ACCURACY, "accuracy"),
    "mrpc": _glue_task("mrpc", _PARAPHRASE, "accuracy"),
    "sts-b": _glue_task("sts-b", score_figures, "pearson"),
    "qqp": _glue_task("qqp", _PARAPHRASE, "accuracy"),
    "mnli": _glue_task("mnli", _ACCURACY, "accuracy_matched"),
    "qnli": _glue_task("qnli", _ACCURACY, "accuracy"),
    "rte": _glue_task("rte", _ACCURACY, "accuracy"),
    "wnli": _glue_task("wnli", _ACCURACY, "accuracy"),
    "ax": _glue_task("ax", _CORRELATION, "matthews_correlation"),
    "squad-v1.1": _squad_task("squad-v1.1", has_impossible=False, best="f1"),
    "squad-v2.0": _squad_task("squad-v2.0", has_impossible=True, best="f1"),
    "race": Task(
        kind=MULTIPLE_CHOICE,
        read=lambda folder, *_: read_race(folder),
        figures=functools.partial(choice_figures, groups=RACE_GROUPS),
        best="accuracy",
        files=passage_files,
        recipe=RECIPES["race"],
        sets=Sets(lambda folder, name: read_race(f"{folder}/{name}"), is_set=is_race_set),
    ),
    "classification": Task(
        kind=classification(),
        read=_read_own,
        figures=label_figures(accuracy=accuracy, f1=macro_f1),
        best="accuracy",
        files=table_files,
        recipe=RECIPES["classification"],
        needs_columns=True,
    ),
    "regression": Task(
        kind=REGRESSION,
        read=_read_own,
        figures=score_figures,
        best="pearson",
        files=table_files,
        recipe=RECIPES["regression"],
        needs_columns=True,
    ),
    "tagging": Task(
        kind=TAGGING,
        read=lambda file, *_: read_conll(file),
        figures=tag_figures,
        best="f1",
        files=tagged_files,
        recipe=RECIPES["tagging"],
    ),
    "multiple_choice": Task(
        kind=MULTIPLE_CHOICE,
        read=lambda file, needs_labels, _: read_choices(file, needs_labels),
        figures=choice_figures,
        best="accuracy",
        files=choice_files,
        recipe=RECIPES["multiple_choice"],
    ),
}
