"""What is told about data, metrics, and early exits of a fine-tuning run."""

from __future__ import annotations

import collections
import statistics
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.constants import PUNCTUATION_WORDS, SPACE_WORDS
from albert_tf.errors import join_words, shorten
from albert_tf.finetuning.data import PreparedRun, Splits, read_dev_sets
from albert_tf.finetuning.finetuned_model import (
    FinetunedModel,
    Predictions,
    create_predict_fn,
    load_finetuned,
)
from albert_tf.finetuning.task_table import TaskSpec, set_metrics
from albert_tf.io import PathLike
from albert_tf.models.early_exit import check_patience
from albert_tf.report import LINES, Report, ReportTable
from albert_tf.runs.run_directory import BEST_KEY, RunDirectory, best_by, rank
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.examples import TextRecord, label_of, scores, tags_of, truncation_report
from albert_tf.tasks.formats import Records
from albert_tf.tasks.metrics import find_scheme
from albert_tf.tasks.regression import Regression
from albert_tf.tasks.tagging import Tagging
from albert_tf.tasks.task import FinetuningTask, Prediction
from albert_tf.tasks.task_reports import describe_tags
from albert_tf.training.metrics_logger import LOGGED_METRICS

OTHER = "{:.3f}"  # format of metrics that the log does not show

# So many labels, and for more than half of the examples another one, are rarely meant.
MIN_SUSPECT = 50

# Marks that end words, and the share of such words above which a corpus was likely split at spaces alone.
_GLUED, _MAX_GLUED = ",;:!?)”»", 0.01


def describe_data(task: TaskSpec, sets: Splits) -> list[str]:
    """Lines that show a wrong column at a glance: labels, scores, or tags; none for other tasks."""
    if task.kind is Tagging:
        counts = collections.Counter(tag for record in sets.labelled for tag in tags_of(record))
        tags = join_words(f"{shorten(tag)} ({count})" for tag, count in counts.most_common())
        return [f"tags: {tags}", *describe_tags(counts, find_scheme(counts))]
    rows = [record for record in sets.train if isinstance(record, TextRecord)]
    if not rows:
        return []
    if task.kind is Regression:
        wanted = scores(rows)
        mean = sum(wanted) / len(wanted)
        lines = [f"scores: {min(wanted):g} to {max(wanted):g}, {mean:g} on average"]
        evaluated = scores([record for dev in sets.dev.values() for record in dev])
        if len({*wanted}) == 1:
            lines.append(f"warning: all scores to learn are {mean:g}: there is nothing to learn")
        if len({*evaluated}) == 1:
            found = f"all scores that are evaluated on are {evaluated[0]:g}"
            lines.append(f"warning: {found}: correlations are undefined")
        return lines
    counts = collections.Counter(label for record in rows for label in task.kind.labels_of(record))
    lines = [f"labels: {join_words(f'{shorten(label)} ({count})' for label, count in counts.most_common())}"]
    if task.kind is Classification and len(counts) >= MIN_SUSPECT and 2 * len(counts) > len(rows):
        found = f"{len(counts)} different labels in {len(rows)} examples"
        lines.append(f"warning: {found}: is that the column of the labels?")
    spellings: dict[str, list[str]] = {}
    for label in counts:
        spellings.setdefault("".join(label.casefold().split()), []).append(shorten(label))
    if alike := [" and ".join(labels) for labels in spellings.values() if len(labels) > 1]:
        lines.append(
            f"warning: labels that differ in case or spaces alone are different: {join_words(alike)}"
        )
    there = {label for dev in sets.dev.values() for record in dev for label in task.kind.labels_of(record)}
    if missing := [shorten(label) for label in counts if label not in there]:
        lines.append(f"evaluated on no example of {join_words(missing)}")
    return lines


def glued_words(kind: FinetuningTask, records: Records) -> list[str]:
    """A line if a tagger is to split marks from words of plain text, and many words to learn from have some.

    Full stops do not count: abbreviations have them in every corpus.
    """
    if not isinstance(kind, Tagging) or kind.words != PUNCTUATION_WORDS:
        return []
    words = [word for record in records for word in record.words]
    glued = [word for word in words if word[-1] in _GLUED and word[0].isalnum()]
    if len(glued) < _MAX_GLUED * len(words):
        return []
    found = f"{len(glued)} of {len(words)} words end in a mark, such as {shorten(glued[0])}"
    return [f"warning: {found}: if they were split at spaces alone, give words={SPACE_WORDS!r}"]


def data_lines(prepared: PreparedRun) -> list[str]:
    """Lines about the examples of a new run: what they are, and what of them its model does not see."""
    data = prepared.data
    return [
        *describe_data(data.task, data.sets),
        *glued_words(data.kind, data.sets.train),
        *truncation_report(data.rows, data.kind.seq_length, prepared.contents.task.get("long")),
    ]


def best_figures(run: RunDirectory) -> Mapping[str, float | None]:
    """The step that `load` takes of a run, and the metrics of its evaluation."""
    step = run.default_step()
    return {"step": step, **run.evaluation(step)}


def summary(runs: Mapping[str, RunDirectory]) -> dict[str, Any]:
    """The content of summary.json: metrics of the best steps of runs by name, mean, median and spread."""
    order = best_by(next(iter(runs.values())).task[BEST_KEY])
    metric, sign = order.metric.removeprefix("eval_"), 1 if order.is_highest else -1
    by_run = {name: best_figures(run) for name, run in runs.items()}
    known: dict[str, list[float]] = {}
    for found in by_run.values():
        for name, value in found.items():
            if name != "step" and value is not None:
                known.setdefault(name, []).append(value)
    ranks = {
        name: rank(sign * value, found.get("loss"))
        for name, found in by_run.items()
        if (value := found.get(metric)) is not None
    }
    best_run = max(ranks, key=ranks.__getitem__, default=next(iter(by_run)))
    return {
        "best_by": metric,
        "best_run": best_run,
        "mean": {name: statistics.fmean(values) for name, values in known.items()},
        "median": {name: statistics.median(values) for name, values in known.items()},
        "best": {name: value for name, value in by_run[best_run].items() if name != "step"},
        "spread": {name: max(values) - min(values) for name, values in known.items()},
        "runs": by_run,
    }


def final_lines(run: RunDirectory, task: TaskSpec, dev: Mapping[str, Records]) -> list[str]:
    """Lines about a run that is done: its best step, the metrics there, and a warning about them."""
    figures = best_figures(run)
    step, best_by = figures["step"], run.task[BEST_KEY].removeprefix("eval_")
    if figures.get(best_by) is None:
        return [f"no evaluation has a {best_by}: the newest step, {step}, is taken in {run}"]
    names = [best_by, *(name for name in figures if name in LOGGED_METRICS and name != best_by)]
    metrics = [
        f"{name} {LOGGED_METRICS.get(name, OTHER).format(figures[name])}"
        for name in names
        if figures[name] is not None
    ]
    return [
        f"best: step {step} ({', '.join(metrics)}) in {run}",
        *baseline_warning(task, figures, best_by, dev),
    ]


def baseline_warning(
    task: TaskSpec, figures: Mapping[str, float | None], best_by: str, dev: Mapping[str, Records]
) -> list[str]:
    """A line if figures of a classification are no better than those of the most frequent label."""
    if not issubclass(task.kind, Classification):
        return []
    (label, _), *_ = collections.Counter(label_of(x) for rows in dev.values() for x in rows).most_common()
    always = Prediction(label, np.ones(1, np.float32))
    said = {name: (rows, [always] * len(rows)) for name, rows in dev.items()}
    baseline = set_metrics(task, task.kind(task.options), said)
    metric = best_by if best_by in baseline else task.best_metric
    value, there = figures.get(metric), baseline.get(metric)
    if value is None or there is None or value > there:
        return []
    return [
        f"that is {'worse' if value < there else 'no better'} than {label!r}, the most frequent label there, "
        f"for every text ({metric} {LOGGED_METRICS.get(metric, OTHER).format(there)}): "
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
    """Metrics, layers and time of each patience that a run's exits can have, as a table and plots.

    A patience of L - 1 and more computes all layers, as runs without exits do; the speed-ups compare with it.

    Args:
      run: fine-tuned with early_exit.
      folder: of labelled data, of a task whose original files are in one.
      file: of labelled data, of any other task.
      columns: of one's own table; None: those of the run.
      step: of the checkpoint; None: the best.
      batch_size: examples at a time.
    Raises:
      FileNotFoundError: the run, its vocabulary, its checkpoint or the data is missing.
      InputError: the run has no exits, or the data is not of its task.
    """
    trained = load_finetuned(run, step, xla=False)
    check_patience(1, trained.entries.get("early_exit", False))
    depth = trained.model.config.num_hidden_layers
    sets = read_dev_sets(trained.task, folder, file, columns or trained.columns)
    figures = {n: _figures(trained._replace(patience=n), sets, batch_size) for n in range(1, depth - 1)}
    figures[depth] = _figures(trained, sets, batch_size)
    for found in figures.values():
        found["speed_up"] = figures[depth][MILLISECONDS] / found[MILLISECONDS]
    names = trained.task.evaluated
    by_speed = [
        (name, found["speed_up"], value)
        for found in figures.values()
        for name, value in found.items()
        if name in names
    ]
    rows = [(n, *found.values()) for n, found in figures.items()]
    by_patience = [("layers", n, found["layers"]) for n, found in figures.items()]
    tables = [
        ReportTable("exits", "Early exit", ("patience", *figures[depth]), rows, is_brief=True),
        ReportTable("exit_metrics", "Metrics by speed", ("name", "speed-up", "metric"), by_speed, LINES),
        ReportTable("exit_layers", "Layers by patience", ("name", "patience", "layers"), by_patience, LINES),
    ]
    return Report({"step": trained.step or 0, "examples": sum(map(len, sets.values()))}, tables)


def _figures(trained: FinetunedModel, sets: Mapping[str, Records], batch_size: int) -> dict[str, float]:
    """Metrics of labelled records, layers and time an example, from text, once all is traced."""
    kind = trained.kind
    predict = create_predict_fn(kind, trained.model, batch_size, xla=False, patience=trained.patience)

    def predicted(records: Records) -> Predictions:
        return predict(kind.encode(records, trained.tokenizer, False))

    for records in sets.values():  # two batches, since the second may be traced for any length
        predicted(records[: 2 * batch_size])
    started = time.perf_counter()
    found = {name: predicted(records) for name, records in sets.items()}
    seconds = time.perf_counter() - started
    predictions = {name: (sets[name], x.predictions) for name, x in found.items()}
    metrics = set_metrics(trained.task, kind, predictions)
    examples, depth = sum(map(len, sets.values())), trained.model.config.num_hidden_layers
    layers = sum(len(sets[name]) * depth if x.layers is None else x.layers.sum() for name, x in found.items())
    return {**metrics, "layers": layers / examples, MILLISECONDS: 1000 * seconds / examples}
