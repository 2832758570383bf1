"""What pipelines answer: predictions as plain dicts, places in texts as characters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.applications.inputs import TaggedText
from albert_tf.data.tasks.records import ChoiceRecord, QuestionRecord, TextRecord
from albert_tf.data.tasks.rows import utf8
from albert_tf.errors import InputError
from albert_tf.finetuning.predictions.records import (
    AnswerPrediction,
    ChoicePrediction,
    LabelPrediction,
    ScorePrediction,
    TagPrediction,
)
from albert_tf.text.vocabulary import MASK
from albert_tf.training.metrics.labels import known_tag


class FillPrediction(NamedTuple):
    """What fills the masks of a text."""

    tokens: Sequence[Sequence[str]]  # [M, K], the likeliest first
    scores: np.ndarray  # their probabilities, float32 [M, K]


def fillings(record: TextRecord, found: FillPrediction, *_: Any) -> list[Any]:
    """The likeliest tokens of the one mask, or a list of them for each of several."""
    masks = record.text.count(MASK)
    if len(found.tokens) < masks:
        raise InputError(f"{record.file}: a {MASK} stands behind the tokens that are read")
    filled = [
        [{"token": token, "score": float(score)} for token, score in zip(*mask, strict=True)]
        for mask in zip(found.tokens, found.scores, strict=True)
    ]
    return filled[0] if masks == 1 else filled


def labelled(_: TextRecord, found: LabelPrediction, labels: Sequence[str], top_k: int | None) -> Any:
    """The likeliest label, or of `top_k` asked for a list of so many."""
    order = np.argsort(-found.scores, kind="stable")[: top_k or 1]
    best = [{"label": labels[number], "score": float(found.scores[number])} for number in order]
    return best[0] if top_k is None else best


def scored(_: TextRecord, found: ScorePrediction, *__: Any) -> dict[str, Any]:
    """The number of regression."""
    return {"score": float(found.score)}


def chosen(_: ChoiceRecord, found: ChoicePrediction, *__: Any) -> dict[str, Any]:
    """The number of the likeliest option, from 0."""
    return {"label": found.choice, "score": float(found.score)}


def answered(record: QuestionRecord, found: AnswerPrediction, *_: Any) -> dict[str, Any]:
    """A span of the context; an empty one where there is likely no answer, with the probability of that."""
    best, odds = found.answers[0], found.null_odds
    if odds is not None and odds > 0:
        return {"answer": "", "score": float(1 / (1 + np.exp(-odds))), "start": 0, "end": 0}
    start, end = (characters(record.context, place) for place in (best.start, best.end))
    return {
        "answer": record.context[start:end],
        "score": float(best.probability),
        "start": start,
        "end": end,
    }


def characters(text: str, place: int) -> int:
    """How many characters stand before a byte of a text in UTF-8.

    >>> characters("für", 3)
    2
    """
    return len(utf8(text)[:place].decode("utf-8", "ignore"))


def entities(record: TaggedText, found: TagPrediction, *_: Any) -> list[dict[str, Any]]:
    """The spans of words that are of one entity, with the mean of their scores."""
    spans = []
    for label, first, behind in entity_spans(found.tags):
        start = record.starts[first]
        end = record.starts[behind - 1] + len(record.record.words[behind - 1])
        score = float(np.mean(found.scores[first:behind]))
        text = record.text[start:end]
        spans.append({"label": label, "score": score, "start": start, "end": end, "text": text})
    return spans


def entity_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """The entities of a sentence: label, first word, and the word behind the last.

    Args:
      tags: of its words, read as for the figures (`entity_scores`): "O" is no entity; a label behind B-, I-
        and, where there are, E- or L-, S- or U- is a part of one; a label alone is that of a single word.

    >>> entity_spans(["B-PER", "I-PER", "B-PER", "O", "I-LOC", "NOUN", "NOUN"])
    [('PER', 0, 2), ('PER', 2, 3), ('LOC', 4, 5), ('NOUN', 5, 6), ('NOUN', 6, 7)]
    """
    spans: list[tuple[str, int, int]] = []
    open_label = None  # of an entity that may go on
    for place, tag in enumerate(tags):
        part, _, label = known_tag(tag).partition("-")
        if part in ("I", "E") and label == open_label:
            spans[-1] = (label, spans[-1][1], place + 1)
        elif part != "O":
            spans.append((label, place, place + 1))
        open_label = label if part in ("B", "I") else None
    return spans


FORMS: dict[str, Callable[..., Any]] = {
    "fill_mask": fillings,
    "classification": labelled,
    "regression": scored,
    "question_answering": answered,
    "tagging": entities,
    "multiple_choice": chosen,
}
