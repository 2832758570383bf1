"""SQuAD's metrics."""

from __future__ import annotations

import collections
import os
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from albert_tf.errors import InputError, shorten
from albert_tf.io import read_local_json

JsonSource = str | os.PathLike[str] | Mapping[str, Any]

Question = tuple[str, list[str]]  # its id and its annotated answers

_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Score(NamedTuple):
    """Agreement of a prediction with the most similar annotated answer, from 0 to 1."""

    exact: float
    f1: float


def squad_scores(
    dataset: JsonSource, predictions: JsonSource, no_answer_probability: JsonSource | None = None
) -> dict[str, float]:
    """Computes SQuAD's official metrics, in per cent.

    Args:
      dataset: SQuAD 1.1 or 2.0, as a path or as parsed JSON. It is 2.0 if its questions have `is_impossible`.
      predictions: a path or a dict from the question's id to the answer. In 1.1 a missing answer is wrong. In
        2.0 an empty answer means "no answer".
      no_answer_probability: for 2.0, a path or a dict from the question's id to a number. A higher number
        means a less likely answer; above 1 the prediction counts as "no answer".
    Returns:
      1.1: `exact_match` and `f1`. 2.0: `exact`, `f1` and `total` (the number of questions), and the same for
      questions with an answer (`HasAns_…`) and without (`NoAns_…`), if there are any. With probabilities also
      `best_exact` and `best_f1`, the metrics at the best thresholds, and the thresholds `best_exact_thresh`
      and `best_f1_thresh`.
    Raises:
      FileNotFoundError: a file does not exist.
      InputError: a file is damaged or has another format, or in 2.0 a prediction is missing.
    Source: evaluate-v1.1.py and evaluate-v2.0.py of rajpurkar.github.io/SQuAD-explorer.

    Example:
      >>> import albert_tf
      >>> answers = [{"text": "the old tower", "answer_start": 4}]
      >>> question = {"id": "q1", "question": "What stands there?", "answers": answers}
      >>> paragraph = {"context": "See the old tower.", "qas": [question]}
      >>> dataset = {"version": "1.1", "data": [{"title": "Towers", "paragraphs": [paragraph]}]}
      >>> albert_tf.squad_scores(dataset, {"q1": "Old tower"})
      {'exact_match': 100.0, 'f1': 100.0}
    """
    odds = no_answer_probability
    return answer_metrics(
        *_parse_questions(_read_json(dataset, "dataset")),
        _read_json(predictions, "predictions"),
        None if odds is None else _read_json(odds, "no_answer_probability"),
    )


def answer_metrics(
    questions: Sequence[Question],
    is_squad2: bool,
    predictions: Mapping[str, Any],
    odds: Mapping[str, Any] | None,
) -> dict[str, float]:
    """`squad_scores` of questions and predictions in memory; `is_squad2` is True for SQuAD 2.0."""
    ids = [key for key, _ in questions]
    needed_ids = ids if is_squad2 else [key for key in ids if key in predictions]
    _check_values(predictions, "predictions", needed_ids, str)
    if not is_squad2 and (odds is not None or not all(answers for _, answers in questions)):
        raise InputError("dataset is SQuAD 1.1: every question needs an answer, and takes no probability")
    pairs = np.array(
        [
            answers_score(answers, predictions[key], is_squad2) if key in predictions else Score(0, 0)
            for key, answers in questions
        ]
    )  # [Q, 2]
    if not is_squad2:
        exact, f1, _ = _mean_scores(pairs).values()
        return {"exact_match": exact, "f1": f1}
    has_answer = np.array([bool(answers) for _, answers in questions])
    if odds is None:
        return _squad2_metrics(has_answer, pairs)
    _check_values(odds, "no_answer_probability", ids, int | float)
    is_unanswered = np.array([[odds[key] > 1] for key in ids])  # 1 is the threshold of SQuAD's script
    metrics = _squad2_metrics(has_answer, np.where(is_unanswered, ~has_answer[:, np.newaxis], pairs))
    # As in SQuAD's script, an answer counts as one here even if its normalised form is empty.
    gains = np.where(has_answer[:, np.newaxis], pairs, [[-float(bool(predictions[key]))] for key in ids])
    numbers = {key: number for number, key in enumerate(ids)}
    order = sorted((key for key in odds if key in numbers), key=odds.__getitem__)
    # Row n: the sum of scores if only the n questions with the lowest odds are answered.
    totals = np.cumsum([[(~has_answer).sum()] * 2, *gains[[numbers[key] for key in order]]], axis=0)
    for column, name in zip(totals.T, Score._fields, strict=True):
        best = int(column.argmax())
        metrics[f"best_{name}"] = float(100 * column[best] / len(ids))
        metrics[f"best_{name}_thresh"] = float(odds[order[best - 1]]) if best else 0.0
    return metrics


def normalized_answer(text: str) -> str:
    """The answer in lower case, without punctuation and articles, with single spaces.

    >>> normalized_answer("The  Eiffel Tower, (Paris)!")
    'eiffel tower paris'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def answer_score(annotated: str, predicted: str) -> Score:
    """Exact match of two normalised answers, and the F1 of their words.

    >>> answer_score("the old tower", "Old tower of London")
    Score(exact=0.0, f1=0.6666666666666666)
    """
    annotated, predicted = normalized_answer(annotated), normalized_answer(predicted)
    words, predicted_words = annotated.split(), predicted.split()
    common = sum((collections.Counter(words) & collections.Counter(predicted_words)).values())
    f1 = 0.0
    if common:
        precision, recall = common / len(predicted_words), common / len(words)
        f1 = 2 * precision * recall / (precision + recall)
    return Score(float(annotated == predicted), f1)


def answers_score(answers: Sequence[str], predicted: str, is_squad2: bool) -> Score:
    """Agreement of a prediction with the annotated answers of a question; SQuAD 2.0 may have none."""
    if is_squad2:  # an annotation whose normalised form is empty does not count
        answers = [answer for answer in answers if normalized_answer(answer)] or [""]
    scores = [answer_score(answer, predicted) for answer in answers]
    exact, f1 = map(max, zip(*scores, strict=True))
    # Two empty answers have no word in common, so F1 is 0, but in SQuAD 2.0 they agree.
    return Score(exact, max(exact, f1) if is_squad2 else f1)


def _squad2_metrics(has_answer: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """Mean scores of all questions, of those with and of those without an answer; scores are [Q, 2]."""
    metrics = _mean_scores(scores)
    for prefix, part in (("HasAns_", scores[has_answer]), ("NoAns_", scores[~has_answer])):
        if len(part):
            metrics |= {prefix + name: value for name, value in _mean_scores(part).items()}
    return metrics


def _mean_scores(scores: np.ndarray) -> dict[str, float]:
    exact, f1 = (100 * scores.sum(axis=0) / len(scores)).tolist()
    return {"exact": exact, "f1": f1, "total": float(len(scores))}


def _read_json(source: JsonSource, name: str) -> Mapping[str, Any]:
    """Reads a JSON object from a path, or returns a parsed one; `name` is the argument in errors."""
    if isinstance(source, str | os.PathLike):
        return read_local_json(Path(source))
    if not isinstance(source, Mapping):
        raise InputError(f"{name} must hold a JSON object, not a {type(source).__name__}")
    return source


def _parse_questions(dataset: Mapping[str, Any]) -> tuple[list[Question], bool]:
    """The ids and annotated answers of a dataset, and True if it is SQuAD 2.0."""
    try:
        paragraphs = [paragraph for article in dataset["data"] for paragraph in article["paragraphs"]]
        entries = [entry for paragraph in paragraphs for entry in paragraph["qas"]]
        questions = [(entry["id"], [answer["text"] for answer in entry["answers"]]) for entry in entries]
    except (KeyError, TypeError) as error:
        raise InputError(f"dataset is not SQuAD's (data, paragraphs, qas, answers): {error!r}") from error
    if not questions:
        raise InputError("dataset has no questions")
    for key, answers in questions:
        if wrong := [text for text in (key, *answers) if not isinstance(text, str)]:
            raise InputError(f"dataset: question {shorten(key)}: {shorten(wrong[0])} is not a text")
    return questions, any("is_impossible" in entry for entry in entries)


def _check_values(values: Mapping[str, Any], name: str, ids: Iterable[str], kind: Any) -> None:
    for key in ids:
        value = values.get(key)
        if not isinstance(value, kind) or value != value:  # NaN
            raise InputError(f"{name}: {value!r} of question {key}: a text or a number is needed of each")
