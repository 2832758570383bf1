"""Reports of evaluations, a function for each kind of task: metrics, tables and curves."""

from __future__ import annotations

import collections
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.errors import join_words, shorten
from albert_tf.report import GRID, POINTS, Report, ReportTable
from albert_tf.tasks.examples import QuestionRecord
from albert_tf.tasks.metrics import (
    SINGLE_WORDS,
    Tags,
    TagScheme,
    calibration,
    entity_labels,
    entity_spans,
    precision_recall,
)
from albert_tf.tasks.squad_metrics import answers_score

ERRORS = "errors"  # name of the table of errors
WORST = 50  # rows of that table
REPORTED = ("precision", "recall", "f1-score", "support")  # entries of a label in `classification_report`

# Columns of the inputs in the table of errors, by their names.
ShownInputs = Mapping[str, Sequence[Any] | np.ndarray]


def label_report(
    labels: Sequence[str], y_true: np.ndarray, y_pred: np.ndarray, scores: np.ndarray, inputs: ShownInputs
) -> Report:
    """The report of a classification with one label for each example.

    Args:
      labels: names of the K labels.
      y_true: numbers of the right labels, int [N].
      y_pred: numbers of the predicted labels, int [N].
      scores: probabilities of the labels, [N, K].
      inputs: columns of the table of errors.
    Returns:
      `ece` of the likeliest labels, and with two labels `auc`; tables of metrics by label, the confusion
      matrix, calibration, precision and recall, and errors, sorted by the probability of the right label.
    """
    from sklearn.metrics import roc_auc_score

    rows = np.arange(len(y_true))
    metrics, is_label = {}, y_true[:, np.newaxis] == np.arange(len(labels))
    if len(labels) == 2 and len(set(y_true.tolist())) == 2:
        metrics["auc"] = float(roc_auc_score(y_true, scores[:, 1]))
    metrics["ece"], reliability = calibration(scores.max(axis=1), scores.argmax(axis=1) == y_true)
    present = sorted({*y_true.tolist(), *y_pred.tolist()})
    names = [labels[number] for number in present]
    right_scores = scores[rows, y_true]
    errors = sorted(np.flatnonzero(y_true != y_pred), key=right_scores.__getitem__)
    answers = {
        "label": [labels[number] for number in y_true],
        "prediction": [labels[number] for number in y_pred],
        "probability": scores[rows, y_pred],
        "probability_of_label": right_scores,
    }
    tables = [
        label_table(names, y_true, y_pred, present),
        confusion_table(y_true, y_pred, present, names),
        reliability,
        precision_recall(labels, is_label, scores),
        worst_errors(errors, {**inputs, **answers}),
    ]
    return Report(metrics, tables)


def multi_label_report(
    labels: Sequence[str], y_true: np.ndarray, y_pred: np.ndarray, scores: np.ndarray, inputs: ShownInputs
) -> Report:
    """The report of a classification with any number of labels for each example.

    Args:
      labels: names of the K labels.
      y_true: True for the right labels, bool [N, K].
      y_pred: True for the predicted labels, bool [N, K].
      scores: probabilities of the labels, [N, K].
      inputs: columns of the table of errors.
    Returns:
      `ece` of all N·K decisions; tables of metrics by label, decisions by label, calibration, precision and
      recall, and errors, the largest loss first.
    """
    from sklearn.metrics import multilabel_confusion_matrix

    error, reliability = calibration(scores.ravel(), y_true.ravel())
    present = np.flatnonzero(y_true.any(axis=0) | y_pred.any(axis=0)).tolist()
    names = [labels[number] for number in present]
    # A column more, since scikit-learn reads a single column as the labels 0 and 1.
    both = [np.pad(is_label, [(0, 0), (0, 1)]) for is_label in (y_true, y_pred)]
    counts = multilabel_confusion_matrix(*both, labels=present).reshape([-1, 4]) if present else []
    decisions = [(name, *map(int, row)) for name, row in zip(names, counts, strict=True)]
    likely = np.clip(np.where(y_true, scores, 1 - scores), 1e-12, 1)
    losses = -np.log(likely).mean(axis=1)  # [N]
    errors = sorted(np.flatnonzero((y_true != y_pred).any(axis=1)), key=lambda row: -losses[row])
    answers = {
        name: ["; ".join(np.array(labels, object)[row]) for row in rows]
        for name, rows in (("labels", y_true), ("prediction", y_pred))
    }
    columns = ("label", "true negatives", "false positives", "false negatives", "true positives")
    tables = [
        label_table(names, both[0], both[1], present),
        ReportTable("confusion", "Decisions", columns, decisions),
        reliability,
        precision_recall(labels, y_true, scores),
        worst_errors(errors, {**inputs, **answers, "loss": losses}),
    ]
    return Report({"ece": error}, tables)


def label_table(
    names: Sequence[str], y_true: Any, y_pred: Any, labels: Sequence[Any], title: str = "Labels"
) -> ReportTable:
    """Precision, recall, F1 and support of labels, and their averages; precision is 0 without predictions.

    `names` are those of `labels`, values of `y_true` and `y_pred`. Without labels the table is empty.
    """
    from sklearn.metrics import classification_report

    rows: list[tuple[Any, ...]] = []
    if names:
        numbers = list(map(str, range(len(names))))  # in place of names, which may be those of averages
        options = {"labels": labels, "target_names": numbers, "output_dict": True, "zero_division": 0}
        report = classification_report(y_true, y_pred, **options)
        report.pop("accuracy", None)  # this row is a single number
        for name, entry in zip([*names, *[*report][len(names) :]], report.values(), strict=True):
            *scores, support = (entry[key] for key in REPORTED)
            rows.append((name, *map(float, scores), int(support)))
    columns = ("label", "precision", "recall", "f1", "support")
    return ReportTable("labels", title, columns, rows, is_brief=True)


def confusion_table(y_true: Any, y_pred: Any, labels: Sequence[Any], names: Sequence[str]) -> ReportTable:
    """The confusion matrix: a row for each right label, a column for each predicted label."""
    from sklearn.metrics import confusion_matrix

    with warnings.catch_warnings():  # scikit-learn warns of a single label
        warnings.simplefilter("ignore", UserWarning)
        counts = confusion_matrix(y_true, y_pred, labels=labels).tolist()
    rows = [(name, *row) for name, row in zip(names, counts, strict=True)]
    corner = "true label"
    while corner in names:  # columns of one name would be one in JSON
        corner += "s"
    return ReportTable("confusion", "Confusion matrix", (corner, *names), rows, GRID)


def worst_errors(rows: Iterable[Any], columns: ShownInputs) -> ReportTable:
    """The table of the first WORST rows of columns; NumPy's numbers become Python's."""
    worst = [int(row) for row in rows][:WORST]
    cells = [
        [x.item() if isinstance(x, np.generic) else x for x in (values[row] for row in worst)]
        for values in columns.values()
    ]
    return ReportTable(ERRORS, "Worst errors", tuple(columns), list(zip(*cells, strict=True)))


# Upper ends of classes of lengths in words; the last class is open.
CONTEXT_WORDS = (50, 100, 150, 200, 300)
ANSWER_WORDS = (1, 2, 3, 5, 10)


def answer_report(
    records: Sequence[QuestionRecord],
    y_pred: Sequence[str],
    probabilities: Sequence[float],
    null_odds: Sequence[float] | None,
) -> Report:
    """The report of question answering, in per cent as in SQuAD's scripts.

    Args:
      records: the questions, with their annotated answers.
      y_pred: predicted answers; an empty one means "no answer".
      probabilities: probabilities of the best spans among the n best.
      null_odds: for SQuAD 2.0, above 0 if there is likely no answer; None for SQuAD 1.1.
    Returns:
      `ece` of the answers that are not empty; for SQuAD 2.0 `auc` of whether a question has an answer; tables
      by answerability, by the number of words of contexts and answers, of calibration, precision and recall,
      and of errors, the lowest F1 first, then the highest probability.
    """
    from sklearn.metrics import roc_auc_score

    texts = [[answer.text for answer in record.answers] for record in records]
    pairs = zip(texts, y_pred, strict=True)
    scores = np.array([answers_score(*pair, null_odds is not None) for pair in pairs])  # [Q, 2]
    is_answered, confidence = np.array([bool(text) for text in y_pred]), np.array(probabilities)
    error, reliability = calibration(confidence[is_answered], scores[is_answered, 0] == 1)
    metrics, curves = {"ece": error}, []
    has_answer = np.array([bool(answers) for answers in texts])
    if null_odds is not None:
        likely = 1 / (1 + np.exp(null_odds))
        curves = [precision_recall(["has an answer"], has_answer[:, np.newaxis], likely[:, np.newaxis])]
        if len(set(has_answer.tolist())) == 2:
            metrics["auc"] = float(roc_auc_score(has_answer, np.negative(null_odds)))
    order = sorted(np.flatnonzero(scores[:, 0] == 0), key=lambda row: (scores[row, 1], -confidence[row]))
    columns: ShownInputs = {
        **{name: [getattr(record, name) for record in records] for name in ("where", "question", "context")},
        "answers": ["; ".join(dict.fromkeys(answers)) for answers in texts],
        "prediction": y_pred,
        "f1": 100 * scores[:, 1],
        "probability": confidence,
    }
    contexts = [len(record.context.split()) for record in records]
    shortest = [min((len(answer.split()) for answer in answers), default=None) for answers in texts]
    tables = [
        _class_table("answerability", "Questions", ("has an answer", "has none"), ~has_answer, scores),
        _length_table("context_length", "Words of contexts", contexts, CONTEXT_WORDS, scores),
        _length_table("answer_length", "Words of answers", shortest, ANSWER_WORDS, scores),
        reliability,
        *curves,
        worst_errors(order, columns),
    ]
    return Report(metrics, tables)


def _length_table(
    name: str, title: str, lengths: Sequence[int | None], ends: Sequence[int], scores: np.ndarray
) -> ReportTable:
    """The scores by classes of lengths; a length of None is in no class."""
    pairs = zip([0, *(end + 1 for end in ends[:-1])], ends, strict=True)
    names = [*(f"{start} to {end}" if start < end else f"{end}" for start, end in pairs), f"over {ends[-1]}"]
    classes = [-1 if length is None else int(np.searchsorted(ends, length)) for length in lengths]
    return _class_table(name, title, names, classes, scores)


def _class_table(
    name: str, title: str, names: Sequence[str], classes: Any, scores: np.ndarray
) -> ReportTable:
    """The mean exact match and F1, in per cent, of each class that has questions."""
    rows = []
    for number, class_name in enumerate(names):
        inside = np.equal(classes, number)
        if inside.any():
            rows.append((class_name, *(100 * scores[inside].mean(axis=0)).tolist(), int(inside.sum())))
    return ReportTable(name, title, (name, "exact", "f1", "questions"), rows, is_brief=True)


def regression_metrics(y_true: Sequence[float], y_pred: Sequence[float]) -> dict[str, float]:
    """`rmse`, the root of the mean squared error, `mae`, the mean absolute error, and `r2`.

    `r2`, the share of explained variance, needs more than one number.
    """
    from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

    metrics = {
        "rmse": float(np.sqrt(mean_squared_error(y_true, y_pred))),
        "mae": float(mean_absolute_error(y_true, y_pred)),
    }
    return {**metrics, "r2": float(r2_score(y_true, y_pred))} if len(y_true) > 1 else metrics


def number_report(y_true: Sequence[float], y_pred: Sequence[float], inputs: ShownInputs) -> Report:
    """The report of a regression.

    Args:
      y_true: the labels, N numbers.
      y_pred: the predictions, N numbers.
      inputs: columns of the table of errors.
    Returns:
      See `regression_metrics`; tables of right and predicted numbers, and of errors, the largest first.
    """
    errors = np.subtract(y_pred, y_true)
    order = np.argsort(-np.abs(errors), kind="stable")
    columns: ShownInputs = {**inputs, "label": y_true, "prediction": y_pred, "error": errors.tolist()}
    points = list(zip(inputs["where"], y_true, y_pred, strict=True))
    names = "where", "true", "predicted"
    tables = [
        ReportTable("predictions", "True and predicted numbers", names, points, POINTS),
        worst_errors(order[errors[order] != 0], columns),
    ]
    return Report(regression_metrics(y_true, y_pred), tables)


MAX_KINDS = 30  # tags in a picture; of more it shows the most frequent ones


def tag_report(
    words: Tags,
    y_true: Tags,
    y_pred: Tags,
    scores: Sequence[np.ndarray],
    inputs: ShownInputs,
    scheme: TagScheme,
) -> Report:
    """The report of tagging.

    Args:
      words: the words of each sentence.
      y_true: the right tags of each sentence.
      y_pred: the predicted tags of each sentence.
      scores: probabilities of the predicted tags.
      inputs: columns of the table of errors.
      scheme: scheme of the model's tags.
    Returns:
      `ece` of words; tables of metrics by entity label, the confusion matrix of tags, calibration, and the
      sentences with missed or wrong entities, the largest number of errors first.
    """
    right_tags, predicted_tags = ([tag for tags in rows for tag in tags] for rows in (y_true, y_pred))
    is_right = [tag == other for tag, other in zip(right_tags, predicted_tags, strict=True)]
    error, reliability = calibration(np.concatenate(scores) if scores else [], is_right)
    common = [tag for tag, _ in collections.Counter(right_tags + predicted_tags).most_common(MAX_KINDS)]
    entities = [[set(entity_spans(tags, scheme)) for tags in sentences] for sentences in (y_true, y_pred)]
    missed = [expected - answered for expected, answered in zip(*entities, strict=True)]
    wrong = [answered - expected for expected, answered in zip(*entities, strict=True)]
    counts = [len(some) + len(others) for some, others in zip(missed, wrong, strict=True)]
    order = sorted(np.flatnonzero(counts), key=lambda row: -counts[row])
    columns = {
        **inputs,
        "text": [" ".join(sentence) for sentence in words],
        "missed": [_format_entities(*pair) for pair in zip(words, missed, strict=True)],
        "wrong": [_format_entities(*pair) for pair in zip(words, wrong, strict=True)],
    }
    names, right_labels, predicted_labels = entity_labels(y_true, y_pred, scheme)
    tables = [
        label_table(names, right_labels, predicted_labels, names, title="Entities"),
        confusion_table(right_tags, predicted_tags, common, common),
        reliability,
        worst_errors(order, columns),
    ]
    return Report({"ece": error}, tables, describe_tags(right_tags, scheme))


def describe_tags(tags: Iterable[str], scheme: TagScheme) -> list[str]:
    """Lines about the right tags of all words: their scheme, or that there are no entities."""
    names = sorted(tag for tag in set(tags) if scheme.read_tag(tag) != "O")
    if not names:
        return ["no word has a tag other than O: f1 and recall of entities are undefined"]
    if scheme == SINGLE_WORDS:
        note = f"no scheme of entities was recognised in {join_words(map(shorten, names))}"
        return [f"{note}: words are scored one by one"]
    others = [shorten(tag) for tag in names if scheme.tag is not None and not scheme.tag.fullmatch(tag)]
    singles = f"; words of {join_words(others)} are scored one by one" if others else ""
    return [f"entities: {scheme.name}{singles}"]


def _format_entities(words: Sequence[str], entities: set[tuple[str, int, int]]) -> str:
    """The entities of a sentence as a text: labels and words."""
    in_order = sorted(entities, key=lambda entity: entity[1:])
    return "; ".join(f"{label}: {' '.join(words[first:last])}" for label, first, last in in_order)
