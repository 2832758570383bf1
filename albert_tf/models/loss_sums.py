"""Losses as sums and weights, so that the mean can be taken over a whole global batch."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.constants import Tensors
from albert_tf.models.layers import fuse


class LossSum(NamedTuple):
    """One loss over a part of a batch. Sums of all parts can be added up and divided once."""

    loss: tf.Tensor  # Σ weight · loss; nats in classification
    correct: tf.Tensor  # Σ weight · (argmax = label); NaN if it is not a classification
    weight: tf.Tensor  # Σ weight


TEACHER = "teacher"  # in a model's outputs: those of its teacher


class Loss(NamedTuple):
    """One loss of a model.

    Attributes:
      loss_sum: function of the model's outputs, a batch, and the weights of its labels.
      weights: function from a batch [B, …], or from microbatches [A, B, …], to the weights of the labels,
        float32 [...].
    """

    loss_sum: Callable[[Mapping[str, Any], Tensors, tf.Tensor], LossSum]
    weights: Callable[[Tensors], tf.Tensor]


class LossFn(NamedTuple):
    """The losses of a model. The total loss is the weighted sum of the mean of each.

    Attributes:
      losses: the losses by name.
      loss_weights: their weights in the total; a missing one is 1.
      teacher: function from a batch to the outputs of a teacher, which the losses find in the model's outputs
        under the name TEACHER. None: there is no teacher.
    """

    losses: Mapping[str, Loss]
    loss_weights: Mapping[str, float] = types.MappingProxyType({})
    teacher: Callable[[Tensors], Mapping[str, Any]] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the losses."""
        return tuple(self.losses)

    def terms(self, outputs: Mapping[str, Any], batch: Tensors) -> dict[str, LossSum]:
        """The sum of each loss over a batch [B, …]."""
        if self.teacher is not None:
            outputs = {**outputs, TEACHER: self.teacher(batch)}
        return {
            name: loss.loss_sum(outputs, batch, loss.weights(batch)) for name, loss in self.losses.items()
        }

    def weight_sums(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """The sum of the labels' weights for each loss, of a batch [B, …] or of microbatches [A, B, …]."""
        return {name: tf.reduce_sum(loss.weights(batch)) for name, loss in self.losses.items()}


def sum_losses(losses: tf.Tensor, is_correct: tf.Tensor | None, weights: tf.Tensor) -> LossSum:
    """The weighted sums of losses and of correct predictions, [...] each. None: it is no classification."""
    correct = tf.constant(np.nan) if is_correct is None else tf.reduce_sum(tf.where(is_correct, weights, 0))
    return LossSum(tf.reduce_sum(weights * losses), correct, tf.reduce_sum(weights))


def cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """-log softmax(logits)[label]: float32 [...] of logits [..., C] and integer labels [...]."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


# For a vocabulary, TensorFlow's own kernel takes as long as the matrix product that computes the logits.
fused_cross_entropy = fuse(cross_entropy)


def classification_loss_sum(
    logits: tf.Tensor,
    labels: tf.Tensor,
    weights: tf.Tensor,
    loss_function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] = cross_entropy,
) -> LossSum:
    """Sums of softmax cross-entropy and of correct predictions.

    Args:
      logits: float32 [..., C].
      labels: integer [...], from 0 to C - 1. Where the weight is 0, any integer.
      weights: float32 [...].
      loss_function: function from logits and labels to losses, such as `fused_cross_entropy`.
    """
    labels = tf.where(weights > 0, labels, 0)  # rows that fill up a batch have the label -1
    losses = loss_function(logits, labels)
    return sum_losses(losses, tf.argmax(logits, axis=-1, output_type=labels.dtype) == labels, weights)
