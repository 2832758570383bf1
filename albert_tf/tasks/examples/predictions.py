"""Predictions of fine-tuned models."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from albert_tf.tasks.examples.rows import utf8


class LabelPrediction(NamedTuple):
    """The likeliest label of a text."""

    label: str
    scores: np.ndarray  # probability of each label, float32 [K]

    @property
    def score(self) -> np.float32:
        """The label's probability."""
        return self.scores.max()


class LabelsPrediction(NamedTuple):
    """The labels of a text, of any number."""

    labels: tuple[str, ...]
    scores: np.ndarray  # probability of each of them, float32 [labels]


class ScorePrediction(NamedTuple):
    """The number that regression gives a text."""

    score: np.float32


class TagPrediction(NamedTuple):
    """The likeliest tag of each word of a sentence."""

    tags: tuple[str, ...]
    scores: np.ndarray  # probability of each of them, float32 [words]


class ChoicePrediction(NamedTuple):
    """The likeliest option."""

    choice: int  # from 0
    scores: np.ndarray  # probability of each option, float32 [C]

    @property
    def score(self) -> np.float32:
        """The option's probability."""
        return self.scores.max()


class FoundAnswer(NamedTuple):
    """A span of a context that may answer a question."""

    text: str
    start: int  # its first byte in the context
    end: int  # the byte after it
    start_log_prob: float
    end_log_prob: float
    probability: float  # among those that were found


class AnswerPrediction(NamedTuple):
    """The best answers to a question."""

    answers: tuple[FoundAnswer, ...]  # at least one, the best first; an empty one where no span counts
    null_odds: float | None  # above 0 the likelier is that there is none; None where there must be one

    def text(self, threshold: float = 0.0) -> str:
        """The answer; empty where there is likely none, with odds above the threshold."""
        return "" if self.null_odds is not None and self.null_odds > threshold else self.answers[0].text


def characters(text: str, *places: int) -> list[int]:
    """Places in a text, from bytes in UTF-8 to characters.

    >>> characters("für", 1, 3)
    [1, 2]
    """
    encoded = utf8(text)
    return [len(encoded[:place].decode("utf-8", "ignore")) for place in places]
