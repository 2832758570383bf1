"""Evaluation of a fine-tuned run: the metrics of its task, a report, and the choice of a threshold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from absl import logging

from albert_tf.analysis.curve import curve_tables
from albert_tf.filesystem import write_json
from albert_tf.finetuning.data import dataset_digests, read_dev_sets
from albert_tf.finetuning.finetuned_model import FinetunedModel, PredictedSets, Predictions, load_finetuned
from albert_tf.finetuning.reports import baseline_warning
from albert_tf.io import PathLike
from albert_tf.report import Report
from albert_tf.runs.run_directory import (
    BEST_KEY,
    CHOSEN_THRESHOLD_KEY,
    EVALUATION,
    RECIPE_FILE,
    TASK_FILE,
    RunDirectory,
)
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.formats import Records
from albert_tf.tasks.metrics import thresholds
from albert_tf.tasks.multi_label import THRESHOLD
from albert_tf.tasks.task_reports import ERRORS
from albert_tf.text.files import Paths

# Most thresholds to try; if there are more, these are at equal distances in the order of the probabilities.
MAX_THRESHOLDS = 300


class Evaluation(NamedTuple):
    """A fine-tuned model, and its predictions for sets of labelled records."""

    model: FinetunedModel
    sets: Mapping[str, Records]  # by the name of the set
    predictions: Mapping[str, Predictions]  # by the name of the set

    @property
    def predicted(self) -> PredictedSets:
        """The sets and their predictions."""
        return PredictedSets(self.model.spec, self.model.task, self.sets, self.predictions)

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the task, after `step` and the number of `examples`."""
        examples = sum(map(len, self.sets.values()))
        return {"step": self.model.step, "examples": examples, **self.predicted.metrics()}

    def report(self, run: PathLike) -> Report:
        """The metrics, further figures and tables of all sets together, and the run's learning curve."""
        spec, entries, directory = self.model.spec, self.model.entries, RunDirectory(run)
        loss, report = self.predicted.mean_loss(), self.predicted.task_report()
        curves = curve_tables(run) if directory.metrics() else []
        curves = [table._replace(title=f"Learning curve: {table.title}") for table in curves]
        tables = sorted([*report.tables, *curves], key=lambda table: table.name == ERRORS)  # long texts last
        metrics, best_by = self.metrics, entries.get(BEST_KEY, spec.best_metric).removeprefix(EVALUATION)
        notes = [*report.notes, *self._selection_notes(directory)]
        notes += baseline_warning(spec, metrics, best_by, self.sets)
        return Report({**metrics, **loss, **report.metrics}, tables, notes)

    def _selection_notes(self, run: RunDirectory) -> list[str]:
        """Lines about the run's threshold, and about the choices that were made on these examples."""
        entries, recipe, digests = self.model.entries, run.recipe, dataset_digests(self.sets)
        lines = []
        if (threshold := entries.get("threshold")) is not None:
            label = "a label" if entries.get("multi_label") else repr(entries["labels"][1])
            lines = [f"threshold {threshold:.4f}: a text has {label} from that probability on"]
        is_same = recipe.get("eval_sha256") == digests
        evaluations = sum(any(name.startswith(EVALUATION) for name in line) for line in run.metrics())
        is_chosen = {
            "the step": is_same and evaluations > 1,
            "the threshold": recipe.get(CHOSEN_THRESHOLD_KEY, {}).get("eval_sha256") == digests,
        }
        if choices := ", ".join(name for name in is_chosen if is_chosen[name]):
            lines.append(f"chosen on these very examples, so that the figures are optimistic: {choices}")
        return lines

    def with_threshold(self, threshold: float) -> Evaluation:
        """The same evaluation with the labels that another threshold gives."""
        model = self.model._replace(entries={**self.model.entries, "threshold": threshold})
        predictions = {
            name: found._replace(
                predictions=model.task.predictions_from_scores(
                    np.stack([x.scores for x in found.predictions])
                )
            )
            for name, found in self.predictions.items()
        }
        return self._replace(model=model, predictions=predictions)


def evaluate_records(
    model: FinetunedModel, sets: Mapping[str, Records], batch_size: int = 32, level: int = logging.DEBUG
) -> Evaluation:
    """Evaluates a model on labelled records by the name of their set; `level` is the level of its log."""
    predictions = {name: model.predict(records, batch_size, True, level) for name, records in sets.items()}
    return Evaluation(model, sets, predictions)


def evaluate_finetuned(
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
    """Evaluates a fine-tuned run on labelled data of its task.

    Args:
      run: the run directory.
      folder: folder with the original files of a task that has one (GLUE, RACE).
      file: files or globs, for any other task.
      columns: columns of your own table; None: the columns of the training data.
      step: step of the checkpoint; None: the best one.
      batch_size: examples at a time.
      xla: compile with XLA; None: only on GPUs.
      patience: for a run with early_exit, see `predict`; None: all layers.
    Raises:
      FileNotFoundError: the run, its vocabulary, its checkpoint or the data is missing.
      InputError: the run is not fine-tuned, or the data does not fit its task.
    """
    model = load_finetuned(run, step, xla=xla)._replace(patience=patience)
    sets = read_dev_sets(model.spec, folder, file, model.table_columns(columns))
    return evaluate_records(model, sets, batch_size, logging.INFO)


def choose_threshold(path: PathLike, sets: Mapping[str, Records]) -> str:
    """Writes the best threshold on labelled records to a run; returns a line about it.

    task.json gets the threshold, and recipe.json the metrics at it with the digests of the records. If all
    records have the label, or none has it, neither file changes.

    The best threshold has the highest value of the metric that chooses the best step, or of the task's own
    metric if that is the loss. Among equal thresholds it is the nearest to 0.5.
    """
    run = RunDirectory(path)
    evaluation = evaluate_records(load_finetuned(run, xla=run.recipe.get("xla")), sets)  # as in training
    best_by = run.task[BEST_KEY].removeprefix(EVALUATION)
    best_by = best_by if best_by in evaluation.metrics else evaluation.model.spec.best_metric
    targets = np.concatenate([evaluation.model.task.targets(records) for records in sets.values()])
    scores = np.stack([x.scores for found in evaluation.predictions.values() for x in found.predictions])
    if len(np.unique(targets)) == 1:
        labels = "one label alone" if targets.ndim == 1 else "all labels" if targets.any() else "no label"
        return f"threshold {THRESHOLD}: the {len(targets)} examples there have {labels}: none can be chosen"
    if targets.ndim == 1:  # one of two labels
        scores = scores[:, 1]
    candidates = thresholds(scores.ravel(), targets.ravel() > 0, MAX_THRESHOLDS).tolist()
    values = {threshold: evaluation.with_threshold(threshold).metrics[best_by] for threshold in candidates}
    best = max(candidates, key=lambda threshold: (values[threshold], -abs(threshold - 0.5)))
    metrics = {**evaluation.with_threshold(best).metrics, **evaluation.predicted.mean_loss()}
    step, _ = metrics.pop("step"), metrics.pop("examples")
    chosen = {"step": step, "eval_sha256": dataset_digests(sets), "figures": metrics}
    # In this order: a run that is killed in between chooses again when it is resumed.
    write_json(run.file(RECIPE_FILE), {**run.recipe, CHOSEN_THRESHOLD_KEY: chosen})
    write_json(run.file(TASK_FILE), {**run.task, "threshold": best})
    comparison = f"{best_by} {values[best]:.3f} on {len(targets)} examples, {values[0.5]:.3f} at 0.5"
    return f"threshold {best:.4f} ({comparison})"
