"""Losses as sums and weights, so that the mean can be taken over a whole global batch."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.models.layers import fuse


class LossSum(NamedTuple):
    """One loss over a part of a batch. Sums of all parts can be added up and divided once."""

    loss: tf.Tensor  # Σ weight · loss; nats in classification
    correct: tf.Tensor  # Σ weight · (argmax = label); NaN if it is not a classification
    weight: tf.Tensor  # Σ weight


class LossFn(NamedTuple):
    """The losses of a model. The total loss is the weighted sum of the mean of each term."""

    names: tuple[str, ...]  # names of the terms
    terms: Callable[[Mapping[str, Any], Mapping[str, tf.Tensor]], dict[str, LossSum]]  # of outputs and batch
    weight_sums: Callable[[Mapping[str, tf.Tensor]], dict[str, tf.Tensor]]  # of [B, …] or [A, B, …]
    loss_weights: Mapping[str, float] = types.MappingProxyType({})  # default: 1


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
    is_correct = tf.argmax(logits, axis=-1, output_type=labels.dtype) == labels
    return LossSum(
        loss=tf.reduce_sum(weights * losses),
        correct=tf.reduce_sum(tf.where(is_correct, weights, 0)),
        weight=tf.reduce_sum(weights),
    )
