"""The lines that tell what a fine-tuned run begins with, and what it has at its end."""

from __future__ import annotations

import collections
from collections.abc import Mapping

import numpy as np

from albert_tf.checkpoints.directory import BEST_KEY, RunDirectory
from albert_tf.finetuning.data import Sets
from albert_tf.finetuning.task_table import Task, set_metrics
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.datasets.formats import Records
from albert_tf.tasks.examples.records import TextRecord, label_of, scores, tags_of
from albert_tf.tasks.kind import FinetunedKind, Prediction
from albert_tf.tasks.metrics.tag_report import describe_tags
from albert_tf.tasks.regression import Regression
from albert_tf.tasks.tagging import Tagging
from albert_tf.training.logbook import FIGURES
from albert_tf.utils.choices import PUNCTUATION_WORDS, SPACE_WORDS
from albert_tf.utils.errors import listed, shown

OTHER = "{:.3f}"  # format of metrics that the log does not show

# So many labels, and for more than half of the examples another one, are rarely meant.
MIN_SUSPECT = 50

# Marks that end words, and the share of such words above which a corpus was likely split at spaces alone.
_GLUED, _MAX_GLUED = ",;:!?)”»", 0.01


def described(task: Task, sets: Sets) -> list[str]:
    """Lines that show a wrong column at a glance: labels, scores, or tags; none for other tasks."""
    if task.kind is Tagging:
        counts = collections.Counter(tag for record in sets.labelled for tag in tags_of(record))
        tags = listed(f"{shown(tag)} ({count})" for tag, count in counts.most_common())
        return [f"tags: {tags}", *describe_tags(counts)]
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
    lines = [f"labels: {listed(f'{shown(label)} ({count})' for label, count in counts.most_common())}"]
    if task.kind is Classification and len(counts) >= MIN_SUSPECT and 2 * len(counts) > len(rows):
        found = f"{len(counts)} different labels in {len(rows)} examples"
        lines.append(f"warning: {found}: is that the column of the labels?")
    spellings: dict[str, list[str]] = {}
    for label in counts:
        spellings.setdefault("".join(label.casefold().split()), []).append(shown(label))
    if alike := [" and ".join(labels) for labels in spellings.values() if len(labels) > 1]:
        lines.append(f"warning: labels that differ in case or spaces alone are different: {listed(alike)}")
    there = {label for dev in sets.dev.values() for record in dev for label in task.kind.labels_of(record)}
    if missing := [shown(label) for label in counts if label not in there]:
        lines.append(f"evaluated on no example of {listed(missing)}")
    return lines


def glued_words(kind: FinetunedKind, records: Records) -> list[str]:
    """A line if a tagger is to split marks from words of plain text, and many words to learn from have some.

    Full stops do not count: abbreviations have them in every corpus.
    """
    if not isinstance(kind, Tagging) or kind.words != PUNCTUATION_WORDS:
        return []
    words = [word for record in records for word in record.words]
    glued = [word for word in words if word[-1] in _GLUED and word[0].isalnum()]
    if len(glued) < _MAX_GLUED * len(words):
        return []
    found = f"{len(glued)} of {len(words)} words end in a mark, such as {shown(glued[0])}"
    return [f"warning: {found}: if they were split at spaces alone, give words={SPACE_WORDS!r}"]


def best_figures(run: RunDirectory) -> Mapping[str, float | None]:
    """The step that `load` takes of a run, and the metrics of its evaluation."""
    step = run.default_step()
    return {"step": step, **run.evaluation(step)}


def ending(run: RunDirectory, task: Task, dev: Mapping[str, Records]) -> list[str]:
    """Lines about a run that is done: its best step, the metrics there, and a warning about them."""
    figures = best_figures(run)
    step, best_by = figures["step"], run.task[BEST_KEY].removeprefix("eval_")
    if figures.get(best_by) is None:
        return [f"no evaluation has a {best_by}: the newest step, {step}, is taken in {run}"]
    names = [best_by, *(name for name in figures if name in FIGURES and name != best_by)]
    metrics = [
        f"{name} {FIGURES.get(name, OTHER).format(figures[name])}"
        for name in names
        if figures[name] is not None
    ]
    return [
        f"best: step {step} ({', '.join(metrics)}) in {run}",
        *baseline_warning(task, figures, best_by, dev),
    ]


def baseline_warning(
    task: Task, figures: Mapping[str, float | None], best_by: str, dev: Mapping[str, Records]
) -> list[str]:
    """A line if figures of a classification are no better than those of the most frequent label."""
    if not issubclass(task.kind, Classification):
        return []
    (label, _), *_ = collections.Counter(label_of(x) for rows in dev.values() for x in rows).most_common()
    always = Prediction(label, np.ones(1, np.float32))
    baseline = set_metrics(task, {name: (rows, [always] * len(rows)) for name, rows in dev.items()})
    metric = best_by if best_by in baseline else task.best_metric
    value, there = figures.get(metric), baseline.get(metric)
    if value is None or there is None or value > there:
        return []
    return [
        f"that is {'worse' if value < there else 'no better'} than {label!r}, the most frequent label there, "
        f"for every text ({metric} {FIGURES.get(metric, OTHER).format(there)}): train longer, or on more data"
    ]
