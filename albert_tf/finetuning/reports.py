"""Log lines about the data and the metrics of a fine-tuning run; the report on early exits."""

from __future__ import annotations

import collections
import statistics
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.constants import PUNCTUATION_WORDS, SPACE_WORDS
from albert_tf.errors import check_range, join_words, shorten
from albert_tf.finetuning.data import PreparedRun, Splits, read_dev_sets
from albert_tf.finetuning.finetuned_model import (
    FinetunedModel,
    PredictedSets,
    Predictions,
    create_predict_fn,
    load_finetuned,
)
from albert_tf.finetuning.task_table import TaskSpec
from albert_tf.io import PathLike
from albert_tf.models.early_exit import check_patience
from albert_tf.report import LINES, Report, ReportTable
from albert_tf.runs.run_directory import BEST_KEY, EVALUATION, RunDirectory, StepOrder
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.examples import TextRecord, label_of, regression_labels, tags_of, truncation_report
from albert_tf.tasks.formats import Records
from albert_tf.tasks.metrics import find_scheme
from albert_tf.tasks.regression import Regression
from albert_tf.tasks.tagging import Tagging
from albert_tf.tasks.task import FinetuningTask, Prediction
from albert_tf.tasks.task_reports import describe_tags
from albert_tf.training.metrics_logger import LOGGED_METRICS

OTHER = "{:.3f}"  # format of metrics that LOGGED_METRICS lacks

# From this number of different labels on, with more labels than half of the examples, a column may be wrong.
MIN_SUSPECT = 50

# Punctuation that ends words. If a larger share of words has it, the corpus was probably split at spaces.
_GLUED, _MAX_GLUED = ",;:!?)”»", 0.01


def describe_data(spec: TaskSpec, sets: Splits) -> list[str]:
    """Lines with the labels, scores or tags, which show a wrong column at once. Empty for other tasks."""
    if spec.task_class is Tagging:
        counts = collections.Counter(tag for record in sets.labelled_records for tag in tags_of(record))
        tags = join_words(f"{shorten(tag)} ({count})" for tag, count in counts.most_common())
        return [f"tags: {tags}", *describe_tags(counts, find_scheme(counts))]
    rows = [record for record in sets.train if isinstance(record, TextRecord)]
    if not rows:
        return []
    if spec.task_class is Regression:
        scores = regression_labels(rows)
        mean = sum(scores) / len(scores)
        lines = [f"scores: {min(scores):g} to {max(scores):g}, {mean:g} on average"]
        evaluated = regression_labels([record for dev in sets.dev.values() for record in dev])
        if len({*scores}) == 1:
            lines.append(f"warning: all scores to learn are {mean:g}: there is nothing to learn")
        if len({*evaluated}) == 1:
            problem = f"all scores that are evaluated on are {evaluated[0]:g}"
            lines.append(f"warning: {problem}: correlations are undefined")
        return lines
    counts = collections.Counter(label for record in rows for label in spec.task_class.labels_of(record))
    lines = [f"labels: {join_words(f'{shorten(label)} ({count})' for label, count in counts.most_common())}"]
    if spec.task_class is Classification and len(counts) >= MIN_SUSPECT and 2 * len(counts) > len(rows):
        problem = f"{len(counts)} different labels in {len(rows)} examples"
        lines.append(f"warning: {problem}: is that the column of the labels?")
    spellings: dict[str, list[str]] = {}
    for label in counts:
        spellings.setdefault("".join(label.casefold().split()), []).append(shorten(label))
    if alike := [" and ".join(labels) for labels in spellings.values() if len(labels) > 1]:
        lines.append(
            f"warning: labels that differ in case or spaces alone are different: {join_words(alike)}"
        )
    known = {
        label for dev in sets.dev.values() for record in dev for label in spec.task_class.labels_of(record)
    }
    if missing := [shorten(label) for label in counts if label not in known]:
        lines.append(f"evaluated on no example of {join_words(missing)}")
    return lines


def glued_words(task: FinetuningTask, records: Records) -> list[str]:
    """A warning if a tagger will split punctuation from words, and many training words end in punctuation.

    Full stops do not count: abbreviations have them in every corpus.
    """
    if not isinstance(task, Tagging) or task.words != PUNCTUATION_WORDS:
        return []
    words = [word for record in records for word in record.words]
    glued = [word for word in words if word[-1] in _GLUED and word[0].isalnum()]
    if len(glued) < _MAX_GLUED * len(words):
        return []
    problem = f"{len(glued)} of {len(words)} words end in a mark, such as {shorten(glued[0])}"
    return [f"warning: {problem}: if they were split at spaces alone, give words={SPACE_WORDS!r}"]


def data_lines(prepared: PreparedRun) -> list[str]:
    """Lines about the examples of a new run: labels, and texts that are truncated."""
    data = prepared.data
    return [
        *describe_data(data.spec, data.sets),
        *glued_words(data.task, data.sets.train),
        *truncation_report(data.rows, data.task.seq_length, prepared.contents.task.get("long")),
    ]


def best_metrics(run: RunDirectory) -> Mapping[str, float | None]:
    """The step that `load` chooses, and the metrics of its evaluation."""
    step = run.default_step()
    return {"step": step, **run.evaluation(step)}


def summary(runs: Mapping[str, RunDirectory]) -> dict[str, Any]:
    """The content of summary.json: metrics of each run's best step; their mean, median and spread."""
    order = StepOrder(next(iter(runs.values())).task[BEST_KEY])
    metric = order.metric.removeprefix(EVALUATION)
    by_run = {name: best_metrics(run) for name, run in runs.items()}
    values_by_name: dict[str, list[float]] = {}
    for metrics in by_run.values():
        for name, value in metrics.items():
            if name != "step" and value is not None:
                values_by_name.setdefault(name, []).append(value)
    ranks = {
        name: order.rank(value, metrics.get("loss"))
        for name, metrics in by_run.items()
        if (value := metrics.get(metric)) is not None
    }
    best_run = max(ranks, key=ranks.__getitem__, default=next(iter(by_run)))
    return {
        "best_by": metric,
        "best_run": best_run,
        "mean": {name: statistics.fmean(values) for name, values in values_by_name.items()},
        "median": {name: statistics.median(values) for name, values in values_by_name.items()},
        "best": {name: value for name, value in by_run[best_run].items() if name != "step"},
        "spread": {name: max(values) - min(values) for name, values in values_by_name.items()},
        "runs": by_run,
    }


def final_lines(run: RunDirectory, spec: TaskSpec, dev: Mapping[str, Records]) -> list[str]:
    """Lines about a run that is done: its best step, the metrics there, and a warning about them."""
    metrics = best_metrics(run)
    step, best_by = metrics["step"], run.task[BEST_KEY].removeprefix(EVALUATION)
    if metrics.get(best_by) is None:
        return [f"no evaluation has a {best_by}: the newest step, {step}, is taken in {run}"]
    names = [best_by, *(name for name in metrics if name in LOGGED_METRICS and name != best_by)]
    texts = [
        f"{name} {LOGGED_METRICS.get(name, OTHER).format(metrics[name])}"
        for name in names
        if metrics[name] is not None
    ]
    return [
        f"best: step {step} ({', '.join(texts)}) in {run}",
        *baseline_warning(spec, metrics, best_by, dev),
    ]


def baseline_warning(
    spec: TaskSpec, metrics: Mapping[str, float | None], best_by: str, dev: Mapping[str, Records]
) -> list[str]:
    """A line if a classifier's metrics are no better than always predicting the most frequent label."""
    if not issubclass(spec.task_class, Classification):
        return []
    (label, _), *_ = collections.Counter(label_of(x) for rows in dev.values() for x in rows).most_common()
    always = Prediction(label, np.ones(1, np.float32))
    predictions = {name: Predictions([always] * len(rows), {}) for name, rows in dev.items()}
    baseline = PredictedSets(spec, spec.task_class(spec.options), dev, predictions).metrics()
    metric = best_by if best_by in baseline else spec.best_metric
    value, expected = metrics.get(metric), baseline.get(metric)
    if value is None or expected is None or value > expected:
        return []
    comparison = "worse" if value < expected else "no better"
    return [
        f"that is {comparison} than {label!r}, the most frequent label there, "
        f"for every text ({metric} {LOGGED_METRICS.get(metric, OTHER).format(expected)}): "
        "train longer, or on more data"
    ]


MILLISECONDS = "ms_per_example"


def exit_report(
    run: PathLike,
    folder: PathLike | None = None,
    file: PathLike | None = None,
    *,
    columns: Columns | None = None,
    step: int | None = None,
    batch_size: int = 32,
) -> Report:
    """Reports metrics, number of layers and time for each patience, as a table and plots.

    A patience of L - 1 or more computes all layers. Speed-ups are relative to that.

    Args:
      run: a run that was fine-tuned with early_exit.
      folder: folder of labelled data, for tasks whose original files are a folder.
      file: file of labelled data, for all other tasks.
      columns: columns of a user's table. None: those of the run.
      step: training step of the checkpoint. None: the best.
      batch_size: number of examples at a time.
    Raises:
      FileNotFoundError: the run, its vocabulary, its checkpoint or the data is missing.
      InputError: the run has no exits, or the data is not of its task.
    """
    check_range("batch_size", batch_size, at_least=1)
    trained = load_finetuned(run, step, xla=False)
    check_patience(1, trained.entries.get("early_exit", False))
    depth = trained.model.config.num_hidden_layers
    sets = read_dev_sets(trained.spec, folder, file, trained.table_columns(columns))
    metrics = {n: _measure(trained._replace(patience=n), sets, batch_size) for n in range(1, depth - 1)}
    metrics[depth] = _measure(trained, sets, batch_size)
    for row in metrics.values():
        row["speed_up"] = metrics[depth][MILLISECONDS] / row[MILLISECONDS]
    names = [name for name in trained.spec.evaluation_metric_names if name in metrics[depth]]
    by_speed = [(name, row["speed_up"], row[name]) for row in metrics.values() for name in names]
    rows = [(n, *row.values()) for n, row in metrics.items()]
    by_patience = [("layers", n, row["layers"]) for n, row in metrics.items()]
    tables = [
        ReportTable("exits", "Early exit", ("patience", *metrics[depth]), rows, is_brief=True),
        ReportTable("exit_metrics", "Metrics by speed", ("name", "speed-up", "metric"), by_speed, LINES),
        ReportTable("exit_layers", "Layers by patience", ("name", "patience", "layers"), by_patience, LINES),
    ]
    return Report({"step": trained.step, "examples": sum(map(len, sets.values()))}, tables)


def _measure(trained: FinetunedModel, sets: Mapping[str, Records], batch_size: int) -> dict[str, float]:
    """Metrics of labelled records, and layers and milliseconds per example, from text, after tracing."""
    task = trained.task
    predict = create_predict_fn(task, trained.model, batch_size, xla=False, patience=trained.patience)

    def predict_records(records: Records) -> Predictions:
        return predict(task.encode(records, trained.tokenizer, False))

    for records in sets.values():  # two batches, since the second may be traced for any length
        predict_records(records[: 2 * batch_size])
    started = time.perf_counter()
    predictions = {name: predict_records(records) for name, records in sets.items()}
    seconds = time.perf_counter() - started
    metrics = PredictedSets(trained.spec, task, sets, predictions).metrics()
    examples, depth = sum(map(len, sets.values())), trained.model.config.num_hidden_layers
    layers = sum(
        len(sets[name]) * depth if x.layers is None else x.layers.sum() for name, x in predictions.items()
    )
    return {**metrics, "layers": layers / examples, MILLISECONDS: 1000 * seconds / examples}
