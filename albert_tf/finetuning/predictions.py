"""What a fine-tuned model says of each example: one record an example, whatever batches it was in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data.tasks.batches import task_batches
from albert_tf.data.tasks.rows import TokenRows
from albert_tf.features import ENCODER_INPUTS, ROWS

Tensors = Mapping[str, tf.Tensor]


class LabelPrediction(NamedTuple):
    """The likeliest label of a text."""

    label: str
    scores: np.ndarray  # probability of each label, float32 [K]

    @property
    def score(self) -> np.float32:
        """The label's probability."""
        return self.scores.max()


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
    end: int  # the byte behind it
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


def row_outputs(
    model: Callable[..., Tensors],
    seq_length: int,
    batch_size: int,
    keep: Callable[[Tensors, Tensors], Tensors],
) -> Callable[[TokenRows], dict[str, np.ndarray]]:
    """A function that has a model's outputs of each example once and in their order.

    Args:
      model: called with the encoder's inputs and training=False.
      seq_length: longest sequence.
      batch_size: examples at a time; it decides about memory and speed, not about the outputs.
      keep: from the model's outputs and its inputs to what is wanted, [B, …] with static shapes but for B;
        it becomes a graph.
    Returns:
      A function of N examples. It gives arrays [N, …] by the names that `keep` has, and traces the model no
      more often when it is called again.
    """

    @tf.function(reduce_retracing=True)  # which is traced twice, the second time for any length
    def forward(batch: Tensors) -> Tensors:
        return keep(model(batch, training=False), batch)

    def outputs(rows: TokenRows) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        for batch in task_batches(rows, seq_length, batch_size, shuffle=False, repeat=False):
            numbers = batch[ROWS].numpy()
            for name, tensor in forward({name: batch[name] for name in ENCODER_INPUTS}).items():
                values = tensor.numpy()
                if name not in found:
                    found[name] = np.empty([len(rows), *values.shape[1:]], values.dtype)
                found[name][numbers[numbers >= 0]] = values[numbers >= 0]
        return found

    return outputs


def padded(values: tf.Tensor, seq_length: int, filler: Any) -> tf.Tensor:
    """Values of tokens [B, S] as [B, seq_length], with a filler behind them."""
    values = tf.pad(values, [[0, 0], [0, seq_length - tf.shape(values)[1]]], constant_values=filler)
    return tf.ensure_shape(values, [None, seq_length])
