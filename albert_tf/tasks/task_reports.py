"""What an evaluation reports of labels, answers, numbers and tags."""

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
    entity_counts,
    entity_spans,
    precision_recall,
    precision_recall_f1,
)
from albert_tf.tasks.squad_metrics import answers_score

ERRORS = "errors"  # name of the table of errors
WORST = 50  # rows in it
REPORTED = ("precision", "recall", "f1-score", "support")  # of a label, in a `classification_report`

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
    scores = [[entry[name] for name in REPORTED] for entry in found.values()]
    return table_of_labels("Labels", zip([*names, *averages], scores, strict=True))


def table_of_labels(title: str, found: Iterable[tuple[str, Sequence[float]]]) -> ReportTable:
    """The table of names with their precision, recall, F1 and support."""
    rows = [(name, *map(float, scores), int(support)) for name, (*scores, support) in found]
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


# Upper ends of classes of lengths in words; the last class is open.
CONTEXT_WORDS = (50, 100, 150, 200, 300)
ANSWER_WORDS = (1, 2, 3, 5, 10)


def answer_report(
    records: Sequence[QuestionRecord],
    predicted: Sequence[str],
    probabilities: Sequence[float],
    null_odds: Sequence[float] | None,
) -> Report:
    """The report of answers, in per cent as SQuAD's scripts have them.

    Args:
      records: the questions, with their annotated answers.
      predicted: answers; an empty one says that there is none.
      probabilities: of the best spans among the n best.
      null_odds: of SQuAD 2.0, above 0 where there is likely no answer; None: it is 1.1.
    Returns:
      `ece` of the answers that were given; of SQuAD 2.0 `auc`, of questions that have an answer; tables by
      answerability and by the words of contexts and answers, of calibration, precision and recall, and
      errors, those of the surest answers first.
    """
    from sklearn.metrics import roc_auc_score

    texts = [[answer.text for answer in record.answers] for record in records]
    pairs = zip(texts, predicted, strict=True)
    scores = np.array([answers_score(*pair, null_odds is not None) for pair in pairs])  # [Q, 2]
    given, sure = np.array([bool(text) for text in predicted]), np.array(probabilities)
    error, reliability = calibration(sure[given], scores[given, 0] == 1)
    figures, curves = {"ece": error}, []
    has_answer = np.array([bool(answers) for answers in texts])
    if null_odds is not None:
        likely = 1 / (1 + np.exp(null_odds))
        curves = [precision_recall(["has an answer"], has_answer[:, np.newaxis], likely[:, np.newaxis])]
        if len(set(has_answer.tolist())) == 2:
            figures["auc"] = float(roc_auc_score(has_answer, np.negative(null_odds)))
    order = sorted(np.flatnonzero(scores[:, 0] == 0), key=lambda row: (scores[row, 1], -sure[row]))
    columns: ShownInputs = {
        **{name: [getattr(record, name) for record in records] for name in ("where", "question", "context")},
        "answers": ["; ".join(dict.fromkeys(answers)) for answers in texts],
        "prediction": predicted,
        "f1": 100 * scores[:, 1],
        "probability": sure,
    }
    contexts = [len(record.context.split()) for record in records]
    shortest = [min((len(answer.split()) for answer in answers), default=None) for answers in texts]
    tables = [
        _parts("answerability", "Questions", ("has an answer", "has none"), ~has_answer, scores),
        _lengths("context_length", "Words of contexts", contexts, CONTEXT_WORDS, scores),
        _lengths("answer_length", "Words of answers", shortest, ANSWER_WORDS, scores),
        reliability,
        *curves,
        worst_errors(order, columns),
    ]
    return Report(figures, tables)


def _lengths(
    name: str, title: str, lengths: Sequence[int | None], ends: Sequence[int], scores: np.ndarray
) -> ReportTable:
    """Scores by classes of lengths; those of None are in none."""
    pairs = zip([0, *(end + 1 for end in ends[:-1])], ends, strict=True)
    names = [*(f"{start} to {end}" if start < end else f"{end}" for start, end in pairs), f"over {ends[-1]}"]
    classes = [-1 if length is None else int(np.searchsorted(ends, length)) for length in lengths]
    return _parts(name, title, names, classes, scores)


def _parts(name: str, title: str, names: Sequence[str], classes: Any, scores: np.ndarray) -> ReportTable:
    """Means of exact match and F1, in per cent, of the questions of each class that there is."""
    rows = []
    for number, part in enumerate(names):
        inside = np.equal(classes, number)
        if inside.any():
            rows.append((part, *(100 * scores[inside].mean(axis=0)).tolist(), int(inside.sum())))
    return ReportTable(name, title, (name, "exact", "f1", "questions"), rows, is_brief=True)


def number_figures(right: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
    """`rmse`, the root of the mean squared error, `mae`, the mean of absolute errors, and `r2`.

    The last is the share of the variance that is explained, and not there of a single number.
    """
    from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

    figures = {
        "rmse": float(np.sqrt(mean_squared_error(right, predicted))),
        "mae": float(mean_absolute_error(right, predicted)),
    }
    return {**figures, "r2": float(r2_score(right, predicted))} if len(right) > 1 else figures


def number_report(right: Sequence[float], predicted: Sequence[float], inputs: ShownInputs) -> Report:
    """The report of predictions of a number each.

    Args:
      right: N numbers.
      predicted: the same.
      inputs: columns of the table of errors.
    Returns:
      `number_figures`; tables of right and predicted numbers, and of errors, the largest first.
    """
    errors = np.subtract(predicted, right)
    order = np.argsort(-np.abs(errors), kind="stable")
    columns: ShownInputs = {**inputs, "label": right, "prediction": predicted, "error": errors.tolist()}
    points = list(zip(inputs["where"], right, predicted, strict=True))
    names = "where", "true", "predicted"
    tables = [
        ReportTable("predictions", "True and predicted numbers", names, points, POINTS),
        worst_errors(order[errors[order] != 0], columns),
    ]
    return Report(number_figures(right, predicted), tables)


MAX_KINDS = 30  # of tags in a picture, the most frequent of more


def tag_report(
    words: Tags,
    right: Tags,
    predicted: Tags,
    scores: Sequence[np.ndarray],
    inputs: ShownInputs,
    scheme: TagScheme,
) -> Report:
    """The report of sentences whose words are tagged.

    Args:
      words: of each sentence.
      right: their tags.
      predicted: the same.
      scores: probabilities of the predicted tags.
      inputs: columns of the table of errors.
      scheme: of the model's tags.
    Returns:
      `ece` of words; tables of the kinds of entities, of which tag is taken for which, of calibration, and of
      sentences with entities that are missed or wrong, those of most of them first.
    """
    of_words = [[tag for tags in sentences for tag in tags] for sentences in (right, predicted)]
    is_right = [one == other for one, other in zip(*of_words, strict=True)]
    error, reliability = calibration(np.concatenate(scores) if scores else [], is_right)
    common = [tag for tag, _ in collections.Counter(of_words[0] + of_words[1]).most_common(MAX_KINDS)]
    found = [[set(entity_spans(tags, scheme)) for tags in sentences] for sentences in (right, predicted)]
    wrong = [(one - other, other - one) for one, other in zip(*found, strict=True)]
    numbers = [len(missed) + len(made_up) for missed, made_up in wrong]
    order = sorted(np.flatnonzero(numbers), key=lambda row: -numbers[row])
    columns = {
        **inputs,
        "text": [" ".join(sentence) for sentence in words],
        "missed": [_listed(sentence, one) for sentence, (one, _) in zip(words, wrong, strict=True)],
        "wrong": [_listed(sentence, other) for sentence, (_, other) in zip(words, wrong, strict=True)],
    }
    tables = [
        _entity_table(right, predicted, scheme),
        confusion(of_words[0], of_words[1], common, common),
        reliability,
        worst_errors(order, columns),
    ]
    return Report({"ece": error}, tables, describe_tags(of_words[0], scheme))


def describe_tags(tags: Iterable[str], scheme: TagScheme) -> list[str]:
    """Lines about the right tags of all words: the scheme that they are read in, and a lack of entities."""
    names = sorted(tag for tag in set(tags) if scheme.read_tag(tag) != "O")
    if not names:
        return ["no word has a tag other than O: f1 and recall of entities are undefined"]
    if scheme == SINGLE_WORDS:
        what = f"no scheme of entities was recognised in {join_words(map(shorten, names))}"
        return [f"{what}: words are scored one by one"]
    others = [shorten(tag) for tag in names if scheme.tag is not None and not scheme.tag.fullmatch(tag)]
    singles = f"; words of {join_words(others)} are scored one by one" if others else ""
    return [f"entities: {scheme.name}{singles}"]


def _entity_table(right: Tags, predicted: Tags, scheme: TagScheme) -> ReportTable:
    """Precision, recall, F1 and support of each kind of entity, as `entity_scores` counts them."""
    by_label = entity_counts(right, predicted, scheme)
    counts = np.array([*by_label.values()]).reshape(-1, 3)
    if not len(counts):
        return table_of_labels("Entities", [])
    scores, support = precision_recall_f1(counts), counts[:, 2]
    weighted = support @ scores / max(support.sum(), 1)
    means = (precision_recall_f1(counts.sum(axis=0)), scores.mean(axis=0), weighted)
    names = [*by_label, "micro avg", "macro avg", "weighted avg"]
    supports = [*support, *[support.sum()] * 3]
    rows = ([*row, number] for row, number in zip([*scores, *means], supports, strict=True))
    return table_of_labels("Entities", zip(names, rows, strict=True))


def _listed(words: Sequence[str], entities: set[tuple[str, int, int]]) -> str:
    """Entities of a sentence in words."""
    in_order = sorted(entities, key=lambda entity: entity[1:])
    return "; ".join(f"{label}: {' '.join(words[first:last])}" for label, first, last in in_order)
