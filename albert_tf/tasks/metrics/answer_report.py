"""Reports of answers to questions on contexts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf.reports.content import Report, Table
from albert_tf.tasks.examples.records import QuestionRecord
from albert_tf.tasks.metrics.curves import calibration, precision_recall
from albert_tf.tasks.metrics.label_report import Inputs, worst_errors
from albert_tf.tasks.metrics.squad import answers_score

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
    columns: Inputs = {
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
) -> Table:
    """Scores by classes of lengths; those of None are in none."""
    pairs = zip([0, *(end + 1 for end in ends[:-1])], ends, strict=True)
    names = [*(f"{start} to {end}" if start < end else f"{end}" for start, end in pairs), f"over {ends[-1]}"]
    classes = [-1 if length is None else int(np.searchsorted(ends, length)) for length in lengths]
    return _parts(name, title, names, classes, scores)


def _parts(name: str, title: str, names: Sequence[str], classes: Any, scores: np.ndarray) -> Table:
    """Means of exact match and F1, in per cent, of the questions of each class that there is."""
    rows = []
    for number, part in enumerate(names):
        inside = np.equal(classes, number)
        if inside.any():
            rows.append((part, *(100 * scores[inside].mean(axis=0)).tolist(), int(inside.sum())))
    return Table(name, title, (name, "exact", "f1", "questions"), rows, is_brief=True)
