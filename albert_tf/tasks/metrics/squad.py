"""The figures of SQuAD's evaluation scripts."""

from __future__ import annotations

import collections
import json
import math
import os
import re
import string
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from albert_tf.utils.errors import InputError

Source = str | os.PathLike[str] | Mapping[str, Any]

# The scripts' own threshold, which no probability exceeds.
_CERTAIN = 1.0

_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Score(NamedTuple):
    """Agreement of a prediction with the annotated answer that is nearest to it, from 0 to 1."""

    exact: float
    f1: float


class _Question(NamedTuple):
    id: str
    answers: list[str]


def squad_scores(
    dataset: Source, predictions: Source, no_answer_probability: Source | None = None
) -> dict[str, float]:
    """Agreement of predictions with the annotated answers, in per cent.

    Args:
      dataset: SQuAD 1.1 or 2.0, as a path or as parsed JSON. It is 2.0 if its questions say `is_impossible`.
      predictions: answers by the id of the question, as a path or parsed; those of other questions are left
        alone. In 1.1 a question without one counts as wrong; in 2.0 the empty answer says that there is none.
      no_answer_probability: for 2.0, by the id of the question: the higher, the less likely is an answer, and
        above 1, which odds may be, there is none whatever the prediction. None if there are none.
    Returns:
      1.1: `exact_match` and `f1`. 2.0: `exact`, `f1` and `total` (questions), and the same of the questions
      that have an answer and of those that have none, `HasAns_…` and `NoAns_…`, where there are any. With
      probabilities also `best_exact` and `best_f1`, had every question above a threshold no answer, and the
      best thresholds, `best_exact_thresh` and `best_f1_thresh`.
    Raises:
      FileNotFoundError: the file does not exist.
      ValueError: a file is damaged or of another kind, or in 2.0 a question is missing in one.
    Source: evaluate-v1.1.py and evaluate-v2.0.py of rajpurkar.github.io/SQuAD-explorer.
    """
    content, origin = _read(dataset, "dataset")
    questions, is_second = _questions(content, origin)
    answers, answers_origin = _read(predictions, "predictions")
    for question in questions:
        if not isinstance(answers.get(question.id, ""), str):
            raise InputError(f"{answers_origin}: the answer to {question.id} is not a text")
    if not is_second:
        if no_answer_probability is not None:
            raise InputError(f"{origin} is of SQuAD 1.1, where all questions have answers: no probabilities")
        return _first_figures(questions, answers, origin)
    _check_complete(questions, answers, answers_origin)
    scores = {question.id: _second_score(question, answers[question.id]) for question in questions}
    odds = None if no_answer_probability is None else _odds(questions, no_answer_probability)
    figures = _second_figures(questions, scores, odds or {})
    if odds is not None:
        for name in Score._fields:
            best, threshold = _best_threshold(questions, answers, scores, odds, name)
            figures |= {f"best_{name}": best, f"best_{name}_thresh": threshold}
    return figures


def normalized_answer(text: str) -> str:
    """Lower case, without punctuation, articles and space that is more than one blank.

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
    words, others = annotated.split(), predicted.split()
    common = sum((collections.Counter(words) & collections.Counter(others)).values())
    f1 = 0.0
    if common:
        precision, recall = common / len(others), common / len(words)
        f1 = 2 * precision * recall / (precision + recall)
    return Score(float(annotated == predicted), f1)


def _first_figures(
    questions: list[_Question], predictions: Mapping[str, str], origin: str
) -> dict[str, float]:
    scores = []
    for question in questions:
        if not question.answers:
            raise InputError(f"{origin}: {question.id} has no answers, and does not say is_impossible")
        predicted = predictions.get(question.id)
        scores.append(Score(0.0, 0.0) if predicted is None else _best(question.answers, predicted))
    figures = _mean(scores)
    return {"exact_match": figures["exact"], "f1": figures["f1"]}


def _second_score(question: _Question, predicted: str) -> Score:
    # An annotation that normalisation leaves empty does not count.
    answers = [answer for answer in question.answers if normalized_answer(answer)] or [""]
    if answers == [""] or not normalized_answer(predicted):
        return Score(*[float(normalized_answer(predicted) == answers[0])] * 2)
    return _best(answers, predicted)


def _second_figures(
    questions: list[_Question], scores: Mapping[str, Score], odds: Mapping[str, float]
) -> dict[str, float]:
    """Means over all questions, over those with an answer and over those without."""
    kept = {
        question.id: scores[question.id]
        if odds.get(question.id, 0) <= _CERTAIN
        else Score(*[float(not question.answers)] * 2)
        for question in questions
    }
    figures = _mean(kept.values())
    for prefix, has_answer in (("HasAns", True), ("NoAns", False)):
        part = [kept[question.id] for question in questions if bool(question.answers) is has_answer]
        if part:
            figures |= {f"{prefix}_{name}": value for name, value in _mean(part).items()}
    return figures


def _best(answers: Iterable[str], predicted: str) -> Score:
    exact, f1 = zip(*(answer_score(answer, predicted) for answer in answers), strict=True)
    return Score(max(exact), max(f1))


def _mean(scores: Iterable[Score]) -> dict[str, float]:
    exact, f1 = zip(*scores, strict=True)
    return {"exact": 100 * sum(exact) / len(exact), "f1": 100 * sum(f1) / len(f1), "total": float(len(f1))}


def _best_threshold(
    questions: list[_Question],
    predictions: Mapping[str, str],
    scores: Mapping[str, Score],
    odds: Mapping[str, float],
    name: str,
) -> tuple[float, float]:
    """The best mean, in per cent, and the threshold of it: what is above has no answer.

    Note: as in the script, an answer of which normalisation leaves nothing counts as one here.
    """
    has_answer = {question.id: bool(question.answers) for question in questions}
    score = best = float(len(questions) - sum(has_answer.values()))  # where no question has an answer
    threshold = 0.0
    for key in sorted((key for key in odds if key in has_answer), key=lambda key: odds[key]):
        if has_answer[key]:
            score += getattr(scores[key], name)
        elif predictions[key]:
            score -= 1
        if score > best:
            best, threshold = score, float(odds[key])
    return 100 * best / len(questions), threshold


def _read(source: Source, what: str) -> tuple[Mapping[str, Any], str]:
    """The object in a file or given as it is, and what errors call it."""
    origin, values = what, source
    if isinstance(source, str | os.PathLike):
        origin = os.fspath(source)
        try:
            values = json.loads(Path(source).read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{origin} is not a JSON file: {error}") from error
    if not isinstance(values, Mapping):
        raise InputError(f"{origin} must hold a JSON object, not a {type(values).__name__}")
    return values, origin


def _questions(dataset: Mapping[str, Any], origin: str) -> tuple[list[_Question], bool]:
    """All questions, and whether they are of SQuAD 2.0."""
    try:
        entries = [
            entry
            for article in dataset["data"]
            for paragraph in article["paragraphs"]
            for entry in paragraph["qas"]
        ]
        questions = [
            _Question(entry["id"], [answer["text"] for answer in entry["answers"]]) for entry in entries
        ]
        is_second = any("is_impossible" in entry for entry in entries)
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{origin} is not a SQuAD file of data, paragraphs, qas, id, answers and text: {error!r}"
        ) from error
    if not questions:
        raise InputError(f"{origin} has no questions")
    return questions, is_second


def _odds(questions: list[_Question], source: Source) -> Mapping[str, float]:
    odds, origin = _read(source, "no_answer_probability")
    _check_complete(questions, odds, origin)
    for question in questions:
        value = odds[question.id]
        if not isinstance(value, int | float) or math.isnan(value):
            raise InputError(f"{origin}: {value!r} of {question.id} is not a number")
    return odds


def _check_complete(questions: list[_Question], values: Mapping[str, Any], origin: str) -> None:
    missing = [question.id for question in questions if question.id not in values]
    if missing:
        raise InputError(f"{origin} lacks {len(missing)} of {len(questions)} questions, such as {missing[0]}")
