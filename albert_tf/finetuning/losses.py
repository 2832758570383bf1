"""Losses of labelled examples as sums and weights: what each kind of model is fine-tuned for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.features import END_POSITIONS, IS_IMPOSSIBLE, LABELS, MASK, START_POSITIONS
from albert_tf.training.losses import Objective, Term, classification_term

Tensors = Mapping[str, tf.Tensor]


class Part(NamedTuple):
    """One term of an objective.

    Attributes:
      labels: name of the feature whose weights count.
      term: from the model's outputs, the batch and these weights.
    """

    labels: str
    term: Callable[[Tensors, Tensors, tf.Tensor], Term]


def finetuning_objective(task: Mapping[str, Any]) -> Objective:
    """What a model is fine-tuned for.

    Args:
      task: what task.json says of the model: `model`, and as far as they apply `num_labels` and
        `answerability`.
    Returns:
      The terms `label` (of classifiers, also of tokens, and multiple choice), `score` (regression), or `span`
      and, with answerability, `answer`. Of a batch they take what `albert_tf.features` says; rows of zero
      mask, and labels below 0, count nothing.
    Raises:
      ValueError: the model is not one that is fine-tuned.
    """
    parts = _parts(task)

    def terms(outputs: Tensors, batch: Tensors) -> dict[str, Term]:
        return {
            name: part.term(outputs, batch, label_weights(batch, part.labels)) for name, part in parts.items()
        }

    def weights(batch: Tensors) -> dict[str, tf.Tensor]:
        return {name: tf.reduce_sum(label_weights(batch, part.labels)) for name, part in parts.items()}

    return Objective(tuple(parts), terms, weights)


def evaluation_objective(task: Mapping[str, Any]) -> Objective | None:
    """The losses of the outputs that predictions are made of; None where training has others.

    A span labeler with answerability learns the end of an answer given its true start, and predicts it given
    the likeliest ones.
    """
    return None if task.get("answerability") else finetuning_objective(task)


def _parts(task: Mapping[str, Any]) -> dict[str, Part]:
    kind = task["model"]
    if kind == "classifier" and task["num_labels"] == 1:
        kind = "regression"
    if kind == "span_labeler" and task.get("answerability"):
        kind = "answerability"
    if kind not in PARTS:
        raise InputError(f"a model of the kind {kind!r} is not fine-tuned: its kind must be in {list(PARTS)}")
    return PARTS[kind]


def label_weights(batch: Tensors, name: str) -> tf.Tensor:
    """1 for a label, 0 for none: an integer below 0, or where no token is.

    Args:
      batch: labels [...] and mask [..., S], or [..., C, S] of multiple choice, or [...] where tokens have
        labels. In front there may be an axis of microbatches.
      name: of the labels.
    Returns:
      float32 [...].
    """
    labels, mask = batch[name], batch[MASK]
    counted = tf.reduce_any(mask > 0, axis=list(range(labels.shape.rank, mask.shape.rank)))
    if labels.dtype.is_integer:
        counted &= labels >= 0
    return tf.cast(counted, tf.float32)


def label_term(outputs: Tensors, batch: Tensors, weights: tf.Tensor) -> Term:
    """Softmax cross-entropy of `logits` [B, C] or [B, S, C]."""
    return classification_term(outputs["logits"], batch[LABELS], weights)


def score_term(outputs: Tensors, batch: Tensors, weights: tf.Tensor) -> Term:
    """Squared error of `logits` [B, 1]. Nothing is right or wrong: `correct` is not a number."""
    counted = weights > 0
    errors = outputs["logits"][:, 0] - tf.where(counted, batch[LABELS], 0.0)
    return Term(
        loss=tf.reduce_sum(weights * tf.square(errors)),
        correct=tf.constant(np.nan),
        weight=tf.reduce_sum(weights),
    )


def span_term(outputs: Tensors, batch: Tensors, weights: tf.Tensor) -> Term:
    """The mean of the cross-entropies of start and end; correct where both are.

    Source: google-research/albert, run_squad_v1.py and run_squad_v2.py.
    """
    start, end = (
        (outputs[f"{which}_logits"], tf.where(weights > 0, batch[positions], 0))
        for which, positions in (("start", START_POSITIONS), ("end", END_POSITIONS))
    )
    losses = [
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits) for logits, labels in (start, end)
    ]
    hits = [tf.argmax(logits, axis=-1, output_type=labels.dtype) == labels for logits, labels in (start, end)]
    return Term(
        loss=tf.reduce_sum(weights * tf.add_n(losses) / 2),
        correct=tf.reduce_sum(tf.where(hits[0] & hits[1], weights, 0)),
        weight=tf.reduce_sum(weights),
    )


def answer_term(outputs: Tensors, batch: Tensors, weights: tf.Tensor) -> Term:
    """Half of the sigmoid cross-entropy of `no_answer_logits` [B].

    Source: google-research/albert, run_squad_v2.py, which halves it to be of the size of the span's.
    """
    logits, labels = outputs["no_answer_logits"], tf.cast(batch[IS_IMPOSSIBLE], tf.float32)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
    hits = (logits > 0) == (labels > 0)
    return Term(
        loss=tf.reduce_sum(weights * losses / 2),
        correct=tf.reduce_sum(tf.where(hits, weights, 0)),
        weight=tf.reduce_sum(weights),
    )


_LABEL = {"label": Part(LABELS, label_term)}
_SPAN = {"span": Part(START_POSITIONS, span_term)}

# The terms of each kind of model; of several the losses add up.
PARTS: dict[str, dict[str, Part]] = {
    "classifier": _LABEL,
    "regression": {"score": Part(LABELS, score_term)},
    "token_classifier": _LABEL,
    "multiple_choice": _LABEL,
    "span_labeler": _SPAN,
    "answerability": {**_SPAN, "answer": Part(IS_IMPOSSIBLE, answer_term)},
}
