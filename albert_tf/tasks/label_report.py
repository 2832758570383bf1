"""Reports of predicted labels, one or any number a text."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.report import GRID, Report, ReportTable
from albert_tf.tasks.metrics import calibration, precision_recall

ERRORS = "errors"  # name of the table of errors
WORST = 50  # rows in it

# Columns that show what was answered, by their names.
ShownInputs = Mapping[str, Sequence[Any] | np.ndarray]


def label_report(
    labels: Sequence[str], right: np.ndarray, predicted: np.ndarray, scores: np.ndarray, inputs: ShownInputs
) -> Report:
    """The report of predictions of one label each.

    Args:
      labels: names of K labels.
      right: their numbers, int [N].
      predicted: the same, [N].
      scores: probabilities [N, K].
      inputs: columns of the table of errors.
    Returns:
      `ece`, of the likeliest labels, and `auc` of two labels; tables of labels, of which label is taken for
      which, of calibration, precision and recall, and errors, those of the least likely labels first.
    """
    from sklearn.metrics import roc_auc_score

    rows = np.arange(len(right))
    figures, is_label = {}, right[:, np.newaxis] == np.arange(len(labels))
    if len(labels) == 2 and len(set(right.tolist())) == 2:
        figures["auc"] = float(roc_auc_score(right, scores[:, 1]))
    figures["ece"], reliability = calibration(scores.max(axis=1), scores.argmax(axis=1) == right)
    there = sorted({*right.tolist(), *predicted.tolist()})
    names = [labels[number] for number in there]
    of_label = scores[rows, right]
    errors = sorted(np.flatnonzero(right != predicted), key=of_label.__getitem__)
    answers = {
        "label": [labels[number] for number in right],
        "prediction": [labels[number] for number in predicted],
        "probability": scores[rows, predicted],
        "probability_of_label": of_label,
    }
    tables = [
        label_table(names, right, predicted, there),
        confusion(right, predicted, there, names),
        reliability,
        precision_recall(labels, is_label, scores),
        worst_errors(errors, {**inputs, **answers}),
    ]
    return Report(figures, tables)


def multi_label_report(
    labels: Sequence[str], right: np.ndarray, predicted: np.ndarray, scores: np.ndarray, inputs: ShownInputs
) -> Report:
    """The report of predictions of any number of labels each.

    Args:
      labels: names of K labels.
      right: True for each label of a text, bool [N, K].
      predicted: the same.
      scores: probabilities [N, K].
      inputs: columns of the table of errors.
    Returns:
      `ece` of all N·K decisions; tables of labels, of decisions for and against each, of calibration,
      precision and recall, and errors, those of the largest losses first.
    """
    from sklearn.metrics import multilabel_confusion_matrix

    error, reliability = calibration(scores.ravel(), right.ravel())
    there = np.flatnonzero(right.any(axis=0) | predicted.any(axis=0)).tolist()
    names = [labels[number] for number in there]
    # Of a single column scikit-learn takes 0 and 1 for the labels.
    one, other = (np.pad(is_label, [(0, 0), (0, 1)]) for is_label in (right, predicted))
    counts = multilabel_confusion_matrix(one, other, labels=there).reshape([-1, 4]) if there else []
    decisions = [(name, *map(int, row)) for name, row in zip(names, counts, strict=True)]
    likely = np.clip(np.where(right, scores, 1 - scores), 1e-12, 1)
    losses = -np.log(likely).mean(axis=1)  # [N]
    errors = sorted(np.flatnonzero((right != predicted).any(axis=1)), key=lambda row: -losses[row])
    answers = {
        name: ["; ".join(np.array(labels, object)[row]) for row in rows]
        for name, rows in (("labels", right), ("prediction", predicted))
    }
    columns = ("label", "true negatives", "false positives", "false negatives", "true positives")
    tables = [
        label_table(names, one, other, there),
        ReportTable("confusion", "Decisions", columns, decisions),
        reliability,
        precision_recall(labels, right, scores),
        worst_errors(errors, {**inputs, **answers, "loss": losses}),
    ]
    return Report({"ece": error}, tables)


def label_table(names: Sequence[str], right: Any, predicted: Any, numbers: Sequence[int]) -> ReportTable:
    """Precision, recall, F1 and support of labels, and averages over them; 0 where nothing was predicted."""
    from sklearn.metrics import classification_report

    if not names:  # nothing to find, and nothing found
        return table_of_labels("Labels", [])
    found = classification_report(right, predicted, labels=numbers, output_dict=True, zero_division=0)
    found.pop("accuracy", None)  # whose row has no more; labels are called by their numbers here
    averages = [*found][len(names) :]
    return table_of_labels("Labels", zip([*names, *averages], found.values(), strict=True))


def table_of_labels(title: str, found: Iterable[tuple[str, Mapping[str, Any]]]) -> ReportTable:
    """The table of the entries of a `classification_report`."""
    numbers = ("precision", "recall", "f1-score")
    rows = [(name, *(float(row[x]) for x in numbers), int(row["support"])) for name, row in found]
    return ReportTable(
        "labels", title, ("label", "precision", "recall", "f1", "support"), rows, is_brief=True
    )


def confusion(right: Any, predicted: Any, labels: Sequence[Any], names: Sequence[str]) -> ReportTable:
    """Numbers of examples of each label, a row, that are predicted to have each, a column."""
    from sklearn.metrics import confusion_matrix

    with warnings.catch_warnings():  # of a single label, which is a matrix, too
        warnings.simplefilter("ignore", UserWarning)
        counts = confusion_matrix(right, predicted, labels=labels).tolist()
    rows = [(name, *row) for name, row in zip(names, counts, strict=True)]
    return ReportTable("confusion", "Confusion matrix", ("true label", *names), rows, GRID)


def worst_errors(rows: Iterable[Any], columns: ShownInputs) -> ReportTable:
    """The first of some rows of columns; numbers become Python's."""
    chosen = [int(row) for row in rows][:WORST]
    cells = [
        [x.item() if isinstance(x, np.generic) else x for x in (values[row] for row in chosen)]
        for values in columns.values()
    ]
    return ReportTable(ERRORS, "Worst errors", tuple(columns), list(zip(*cells, strict=True)))
