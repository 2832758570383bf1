"""Losses of a batch as sums and weights, so that the mean is taken over the whole global batch."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.models.layers import fuse


class LossSum(NamedTuple):
    """One loss over the rows of a part of a batch: sums, which can be added up and divided once."""

    loss: tf.Tensor  # Σ weight · loss, in nats of a classification
    correct: tf.Tensor  # Σ weight · (argmax = label); NaN where it is not a classification
    weight: tf.Tensor  # Σ weight


class LossFn(NamedTuple):
    """The losses of a model: the terms of a batch, and their weights without running the model.

    The weights may be those of several microbatches at once, [A, B, …]. The loss is the sum of the terms'
    means, each times its factor, which is 1 where none is named.
    """

    names: tuple[str, ...]
    terms: Callable[[Mapping[str, Any], Mapping[str, tf.Tensor]], dict[str, LossSum]]
    weights: Callable[[Mapping[str, tf.Tensor]], dict[str, tf.Tensor]]
    factors: Mapping[str, float] = types.MappingProxyType({})


def cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """-log softmax(logits)[label]: float32 [...] of logits [..., C] and integer labels [...]."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


# TensorFlow's own kernel takes as long as the product that makes the logits of a vocabulary.
fused_cross_entropy = fuse(cross_entropy)


def classification_loss_sum(
    logits: tf.Tensor,
    labels: tf.Tensor,
    weights: tf.Tensor,
    losses_of: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] = cross_entropy,
) -> LossSum:
    """Softmax cross-entropy and accuracy, summed.

    Args:
      logits: float32 [..., C].
      labels: integer [...], between 0 and C - 1 wherever the weight is not 0.
      weights: float32 [...].
      losses_of: `cross_entropy` or `fused_cross_entropy`.
    """
    counted = weights > 0
    labels = tf.where(counted, labels, 0)  # a filling row's label is -1, which no softmax knows
    losses = losses_of(logits, labels)
    hits = tf.argmax(logits, axis=-1, output_type=labels.dtype) == labels
    return LossSum(
        loss=tf.reduce_sum(weights * losses),
        correct=tf.reduce_sum(tf.where(hits, weights, 0)),
        weight=tf.reduce_sum(weights),
    )
