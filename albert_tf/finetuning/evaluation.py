"""Evaluation of a fine-tuned run: its task's metrics, a report, and a threshold chosen by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from absl import logging

from albert_tf.analysis.curve import curve_tables
from albert_tf.filesystem import write_json
from albert_tf.finetuning.data import digests, read_dev_sets
from albert_tf.finetuning.finetuned_model import (
    FinetunedModel,
    Predictions,
    load_finetuned,
    mean_loss,
)
from albert_tf.finetuning.reports import baseline_warning
from albert_tf.finetuning.task_table import set_metrics
from albert_tf.io import PathLike
from albert_tf.report import Report
from albert_tf.runs.run_directory import BEST_KEY, CHOSEN, EVALUATION, RECIPE_FILE, TASK_FILE, RunDirectory
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.formats import Records
from albert_tf.tasks.metrics import thresholds
from albert_tf.tasks.multi_label import THRESHOLD
from albert_tf.tasks.task_reports import ERRORS
from albert_tf.text.files import Paths

MAX_THRESHOLDS = 300  # that are tried; of more, those at equal distances in the order of the probabilities


class Evaluation(NamedTuple):
    """Records of a run's task and what the run says of them, by the name of their set."""

    trained: FinetunedModel
    sets: Mapping[str, Records]
    predicted: Mapping[str, Predictions]

    @property
    def figures(self) -> dict[str, float]:
        """`step` and `examples`, what was evaluated, and the task's metrics."""
        predictions = {name: (self.sets[name], found.predictions) for name, found in self.predicted.items()}
        examples = sum(map(len, self.sets.values()))
        metrics = set_metrics(self.trained.task, self.trained.kind, predictions)
        return {"step": self.trained.step, "examples": examples, **metrics}

    def report(self, run: PathLike) -> Report:
        """The figures, those of all sets together, and the learning curve of the run."""
        task, entries = self.trained.task, self.trained.entries
        records = [record for name in self.predicted for record in self.sets[name]]
        predictions = [x for found in self.predicted.values() for x in found.predictions]
        loss, found = mean_loss(self.predicted.values()), self.trained.kind.report(records, predictions)
        curves = curve_tables(run) if RunDirectory(run).metrics() else []
        titled = [table._replace(title=f"Learning curve: {table.title}") for table in curves]
        tables = sorted([*found.tables, *titled], key=lambda table: table.name == ERRORS)  # long texts last
        figures, best_by = self.figures, entries.get(BEST_KEY, task.best_metric).removeprefix("eval_")
        notes = [*found.notes, *self._choices(RunDirectory(run))]
        notes += baseline_warning(task, figures, best_by, self.sets)
        return Report({**figures, **loss, **found.figures}, tables, notes)

    def _choices(self, run: RunDirectory) -> list[str]:
        """Lines about the threshold of a run, if it has one, and about what was chosen on these examples."""
        entries, recipe, sets = self.trained.entries, run.recipe, digests(self.sets)
        lines = []
        if (threshold := entries.get("threshold")) is not None:
            label = "a label" if entries.get("multi_label") else repr(entries["labels"][1])
            lines = [f"threshold {threshold:.4f}: a text has {label} from that probability on"]
        is_same = recipe.get("eval_sha256") == sets
        evaluations = sum(any(name.startswith(EVALUATION) for name in line) for line in run.metrics())
        chosen = {
            "the step": is_same and evaluations > 1,
            "the threshold": recipe.get(CHOSEN, {}).get("eval_sha256") == sets,
        }
        if what := ", ".join(name for name, is_chosen in chosen.items() if is_chosen):
            lines.append(f"chosen on these very examples, so that the figures are optimistic: {what}")
        return lines

    def with_threshold(self, threshold: float) -> Evaluation:
        """The same with the labels that a threshold gives."""
        trained = self.trained._replace(entries={**self.trained.entries, "threshold": threshold})
        predicted = {
            name: found._replace(
                predictions=trained.kind.scored_predictions(np.stack([x.scores for x in found.predictions]))
            )
            for name, found in self.predicted.items()
        }
        return self._replace(trained=trained, predicted=predicted)


def evaluation(
    trained: FinetunedModel, sets: Mapping[str, Records], batch_size: int = 32, level: int = logging.DEBUG
) -> Evaluation:
    """The evaluation of a run on labelled records by the name of their set; the level is of the log."""
    found = {name: trained.predicted(x, batch_size, True, level) for name, x in sets.items()}
    return Evaluation(trained, sets, found)


def evaluate_trained(
    run: PathLike,
    folder: PathLike | None = None,
    file: Paths | None = None,
    *,
    columns: Columns | None = None,
    step: int | None = None,
    batch_size: int = 32,
    xla: bool | None = None,
    patience: int | None = None,
) -> Evaluation:
    """The evaluation of a fine-tuned run on labelled data of its task.

    Args and Raises: as `predict`; the data is the folder of a task whose original files are in one, or
    files or globs.
    """
    trained = load_finetuned(run, step, xla=xla)._replace(patience=patience)
    sets = read_dev_sets(trained.task, folder, file, columns or trained.columns)
    return evaluation(trained, sets, batch_size, logging.INFO)


def choose_threshold(path: PathLike, sets: Mapping[str, Records]) -> str:
    """Writes the threshold that is best on records by the name of their set to a run, and says so in a line.

    task.json gets the threshold, and recipe.json the figures at it with the digests of the records. Where all
    records have the label, or none has it, neither changes.

    Best is the highest value of the metric that the best step has, in place of the loss of the task's own; of
    equal ones that nearest to 0.5.
    """
    run = RunDirectory(path)
    found = evaluation(load_finetuned(run, xla=run.recipe.get("xla")), sets)  # as it was trained
    best_by = run.task[BEST_KEY].removeprefix("eval_")
    best_by = best_by if best_by in found.figures else found.trained.task.best_metric
    targets = np.concatenate([found.trained.kind.targets(records) for records in found.sets.values()])
    scores = np.stack([x.scores for part in found.predicted.values() for x in part.predictions])
    if len(np.unique(targets)) == 1:
        said = "one label alone" if targets.ndim == 1 else "all labels" if targets.any() else "no label"
        return f"threshold {THRESHOLD}: the {len(targets)} examples there have {said}: none can be chosen"
    if targets.ndim == 1:  # one of two labels
        scores = scores[:, 1]
    tried = thresholds(scores.ravel(), targets.ravel() > 0, MAX_THRESHOLDS).tolist()
    values = {threshold: found.with_threshold(threshold).figures[best_by] for threshold in tried}
    best = max(tried, key=lambda threshold: (values[threshold], -abs(threshold - 0.5)))
    figures = {**found.with_threshold(best).figures, **mean_loss(found.predicted.values())}
    step, _ = figures.pop("step"), figures.pop("examples")
    chosen = {"step": step, "eval_sha256": digests(found.sets), "figures": figures}
    # In this order: a run that is killed in between chooses again when it is resumed.
    write_json(run.file(RECIPE_FILE), {**run.recipe, CHOSEN: chosen})
    write_json(run.file(TASK_FILE), {**run.task, "threshold": best})
    found_by = f"{best_by} {values[best]:.3f} on {len(targets)} examples, {values[0.5]:.3f} at 0.5"
    return f"threshold {best:.4f} ({found_by})"
