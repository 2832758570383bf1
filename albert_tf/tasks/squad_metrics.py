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
    """Agreement of a prediction with the annotated answer that is nearest to it, from 0 to 1."""

    exact: float
    f1: float


def squad_scores(
    dataset: JsonSource, predictions: JsonSource, no_answer_probability: JsonSource | None = None
) -> dict[str, float]:
    """Computes SQuAD's official metrics, in per cent.

    Args:
      dataset: SQuAD 1.1 or 2.0, as a path or as parsed JSON. It is 2.0 if its questions have `is_impossible`.
      predictions: a path or a dict: the answer of each question, by the question's id. In 1.1 a missing
        answer is wrong. In 2.0 the empty answer means that there is none.
      no_answer_probability: for 2.0, a path or a dict: a number for each question's id; the higher, the less
        likely is an answer. Above 1 the question counts as answered by "no answer".
    Returns:
      1.1: `exact_match` and `f1`. 2.0: `exact`, `f1` and `total` (the number of questions), and the same for
      questions with an answer (`HasAns_…`) and without (`NoAns_…`), if there are any. With probabilities also
      `best_exact` and `best_f1`, the metrics at the best thresholds, and these thresholds,
      `best_exact_thresh` and `best_f1_thresh`.
    Raises:
      FileNotFoundError: a file does not exist.
      InputError: a file is damaged or of another kind, or in 2.0 a question is missing.
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
        *_questions(_read(dataset, "dataset")),
        _read(predictions, "predictions"),
        None if odds is None else _read(odds, "no_answer_probability"),
    )


def answer_metrics(
    questions: Sequence[Question], is_second: bool, found: Mapping[str, Any], odds: Mapping[str, Any] | None
) -> dict[str, float]:
    """`squad_scores` of questions and predictions in memory; `is_second` of SQuAD 2.0."""
    ids = [key for key, _ in questions]
    _check_values(found, "predictions", ids if is_second else [key for key in ids if key in found], str)
    if not is_second and (odds is not None or not all(answers for _, answers in questions)):
        raise InputError("dataset is SQuAD 1.1: every question needs an answer, and takes no probability")
    pairs = np.array(
        [
            answers_score(answers, found[key], is_second) if key in found else Score(0, 0)
            for key, answers in questions
        ]
    )  # [Q, 2]
    if not is_second:
        exact, f1, _ = _means(pairs).values()
        return {"exact_match": exact, "f1": f1}
    has_answer = np.array([bool(answers) for _, answers in questions])
    if odds is None:
        return _second_metrics(has_answer, pairs)
    _check_values(odds, "no_answer_probability", ids, int | float)
    certain = np.array([[odds[key] > 1] for key in ids])  # the scripts' own threshold
    metrics = _second_metrics(has_answer, np.where(certain, ~has_answer[:, np.newaxis], pairs))
    # As in the script, an answer of which normalisation leaves nothing counts as one here.
    gains = np.where(has_answer[:, np.newaxis], pairs, [[-float(bool(found[key]))] for key in ids])
    numbers = {key: number for number, key in enumerate(ids)}
    order = sorted((key for key in odds if key in numbers), key=odds.__getitem__)
    right = np.cumsum([[(~has_answer).sum()] * 2, *gains[[numbers[key] for key in order]]], axis=0)
    for column, name in zip(right.T, Score._fields, strict=True):  # where all above a threshold has no answer
        best = int(column.argmax())
        metrics[f"best_{name}"] = float(100 * column[best] / len(ids))
        metrics[f"best_{name}_thresh"] = float(odds[order[best - 1]]) if best else 0.0
    return metrics


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


def answers_score(answers: Sequence[str], predicted: str, is_second: bool) -> Score:
    """Agreement of a prediction with all annotated answers of a question, in SQuAD 2.0 perhaps none."""
    if is_second:  # an annotation that normalisation leaves empty does not count
        answers = [answer for answer in answers if normalized_answer(answer)] or [""]
    scores = [answer_score(answer, predicted) for answer in answers]
    exact, f1 = map(max, zip(*scores, strict=True))
    # Two empty answers have no word in common, and agree in SQuAD 2.0.
    return Score(exact, max(exact, f1) if is_second else f1)


def _second_metrics(has_answer: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """Means over all questions, over those with an answer and over those without; scores are [Q, 2]."""
    metrics = _means(scores)
    for prefix, part in (("HasAns_", scores[has_answer]), ("NoAns_", scores[~has_answer])):
        if len(part):
            metrics |= {prefix + name: value for name, value in _means(part).items()}
    return metrics


def _means(scores: np.ndarray) -> dict[str, float]:
    exact, f1 = (100 * scores.sum(axis=0) / len(scores)).tolist()
    return {"exact": exact, "f1": f1, "total": float(len(scores))}


def _read(source: JsonSource, name: str) -> Mapping[str, Any]:
    """The object in a file or given as it is; `name` is that of the argument."""
    if isinstance(source, str | os.PathLike):
        return read_local_json(Path(source))
    if not isinstance(source, Mapping):
        raise InputError(f"{name} must hold a JSON object, not a {type(source).__name__}")
    return source


def _questions(dataset: Mapping[str, Any]) -> tuple[list[Question], bool]:
    """Ids and annotated answers, and True if they are of SQuAD 2.0."""
    try:
        paragraphs = [paragraph for article in dataset["data"] for paragraph in article["paragraphs"]]
        entries = [entry for paragraph in paragraphs for entry in paragraph["qas"]]
        questions = [(entry["id"], [answer["text"] for answer in entry["answers"]]) for entry in entries]
    except (KeyError, TypeError) as error:
        raise InputError(f"dataset is not SQuAD's (data, paragraphs, qas, answers): {error!r}") from error
    if not questions:
        raise InputError("dataset has no questions")
    for name, answers in questions:
        if wrong := [text for text in (name, *answers) if not isinstance(text, str)]:
            raise InputError(f"dataset: question {shorten(name)}: {shorten(wrong[0])} is not a text")
    return questions, any("is_impossible" in entry for entry in entries)


def _check_values(values: Mapping[str, Any], name: str, ids: Iterable[str], kind: Any) -> None:
    for key in ids:
        value = values.get(key)
        if not isinstance(value, kind) or value != value:  # NaN
            raise InputError(f"{name}: {value!r} of question {key}: a text or a number is needed of each")
