"""Losses of a batch as sums and weights, so that the mean is taken over the whole global batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.features import MLM_IDS, MLM_WEIGHTS, SENTENCE_LABELS


class Term(NamedTuple):
    """One loss over the rows of a batch.

    A replica, a microbatch or an evaluation's batch sees a part of the rows; sums can be added up and
    divided once, means cannot.
    """

    loss: tf.Tensor  # Σ weight · loss, in nats of a classification
    correct: tf.Tensor  # Σ weight · (argmax = label); not a number of what is not a classification
    weight: tf.Tensor  # Σ weight


class Objective(NamedTuple):
    """What a model is trained for: the terms of a batch, and their weights without running the model.

    The weights are also asked for of several microbatches at once, [A, B, …].
    """

    names: tuple[str, ...]
    terms: Callable[[Mapping[str, Any], Mapping[str, tf.Tensor]], dict[str, Term]]
    weights: Callable[[Mapping[str, tf.Tensor]], dict[str, tf.Tensor]]


def pretraining_objective(sentence_objective: str) -> Objective:
    """The objective of pre-training with "sop", "nsp" or "none"."""
    names = ("mlm",) if sentence_objective == "none" else ("mlm", sentence_objective)
    return Objective(
        names,
        functools.partial(pretraining_terms, sentence_objective=sentence_objective),
        functools.partial(pretraining_weights, sentence_objective=sentence_objective),
    )


def classification_term(logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> Term:
    """Softmax cross-entropy and accuracy, summed.

    Args:
      logits: float32 [..., C].
      labels: integer [...], between 0 and C - 1 wherever the weight is not 0.
      weights: float32 [...].
    Returns:
      Three float32 scalars.
    """
    counted = weights > 0
    labels = tf.where(counted, labels, 0)  # a filling row's label is -1, which no softmax knows
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    hits = tf.argmax(logits, axis=-1, output_type=labels.dtype) == labels
    return Term(
        loss=tf.reduce_sum(weights * losses),
        correct=tf.reduce_sum(tf.where(hits, weights, 0)),
        weight=tf.reduce_sum(weights),
    )


def pretraining_terms(
    outputs: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor], sentence_objective: str
) -> dict[str, Term]:
    """The losses of pre-training.

    Args:
      outputs: of AlbertPretrainer.
      batch: of `pretraining_dataset`.
      sentence_objective: "sop", "nsp" or "none".
    Returns:
      A term for `mlm`, and one for `sop` or `nsp`. Rows that fill up a last batch count nothing.
    Source: Lan et al. 2020, §3.1; both losses have the weight 1.
    """
    terms = {"mlm": classification_term(outputs["mlm_logits"], batch[MLM_IDS], batch[MLM_WEIGHTS])}
    if sentence_objective != "none":
        labels = batch[SENTENCE_LABELS[sentence_objective]]
        terms[sentence_objective] = classification_term(
            outputs[f"{sentence_objective}_logits"], labels, sentence_weights(labels)
        )
    return terms


def pretraining_weights(batch: Mapping[str, tf.Tensor], sentence_objective: str) -> dict[str, tf.Tensor]:
    """The weights of `pretraining_terms` alone, known before the model has run."""
    weights = {"mlm": tf.reduce_sum(batch[MLM_WEIGHTS])}
    if sentence_objective != "none":
        labels = batch[SENTENCE_LABELS[sentence_objective]]
        weights[sentence_objective] = tf.reduce_sum(sentence_weights(labels))
    return weights


def sentence_weights(labels: tf.Tensor) -> tf.Tensor:
    """1 for a row with a label, 0 for one that fills up the batch (label -1); float32 [B]."""
    return tf.cast(labels >= 0, tf.float32)
