"""Losses of fine-tuning, as sums over a batch with the sum of the weights."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import tensorflow as tf

from albert_tf.constants import (
    END_POSITIONS,
    INPUT_MASK,
    IS_IMPOSSIBLE,
    LABELS,
    START_POSITIONS,
    WEIGHTS,
    Tensors,
)
from albert_tf.models.loss_sums import Loss, LossSum, classification_loss_sum, cross_entropy, sum_losses

LossSumFn = Callable[[Tensors, Tensors, tf.Tensor], LossSum]  # see `Loss`


def label_weights(batch: Tensors, name: str, is_multi_label: bool = False) -> tf.Tensor:
    """The weight of each label, float32 [...]: the weight of its row, 1 if the batch has no weights.

    It is 0 for a missing label: an integer label below 0, or a row or position without tokens.

    Args:
      batch: for a mask [..., S], or [..., C, S] in multiple choice, the labels are [...], or [..., S] if
        tokens have labels. There may be an axis of microbatches in front.
      name: name of the labels in the batch.
      is_multi_label: True if the labels have one more axis, the classes.
    """
    labels, mask = batch[name], batch[INPUT_MASK]
    if is_multi_label:
        labels = labels[..., 0]
    counted = tf.reduce_any(mask > 0, axis=list(range(labels.shape.rank, mask.shape.rank)))
    if labels.dtype.is_integer:
        counted &= labels >= 0
    return tf.cast(counted, tf.float32) * batch.get(WEIGHTS, 1.0)


def label_loss_sum(
    outputs: Tensors,
    batch: Tensors,
    weights: tf.Tensor,
    class_weights: Sequence[float] | None = None,
    smoothing: float = 0.0,
) -> LossSum:
    """Softmax cross-entropy of `logits` [B, C] or [B, S, C].

    `class_weights` [C] multiply the losses, but not the weights: as in Keras, the mean is over examples.
    Label smoothing spreads the share `smoothing` of each label evenly over all C labels.
    """

    def compute_losses(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        losses = cross_entropy(logits, labels)
        if smoothing:
            uniform_losses = -tf.reduce_mean(tf.nn.log_softmax(logits), axis=-1)
            losses = (1 - smoothing) * losses + smoothing * uniform_losses
        return losses if class_weights is None else losses * tf.gather(class_weights, labels)

    return classification_loss_sum(outputs["logits"], batch[LABELS], weights, compute_losses)


def multi_label_loss_sum(
    outputs: Tensors, batch: Tensors, weights: tf.Tensor, class_weights: Sequence[float] | None = None
) -> LossSum:
    """Sigmoid cross-entropy of `logits` [B, K], the mean over the labels; correct if all labels are.

    `class_weights` [K] are the weights of texts that have the label; texts without it have weight 1.
    """
    logits, labels = outputs["logits"], tf.cast(batch[LABELS], tf.float32)
    if class_weights is None:
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)  # [B, K]
    else:
        losses = tf.nn.weighted_cross_entropy_with_logits(labels, logits, tf.constant(class_weights))
    losses = tf.reduce_mean(losses, axis=-1)  # [B]
    hits = tf.reduce_all((logits > 0) == (labels > 0), axis=-1)
    return sum_losses(losses, hits, weights)


def score_loss_sum(outputs: Tensors, batch: Tensors, weights: tf.Tensor) -> LossSum:
    """Squared error of `logits` [B, 1]; `correct` is NaN, since a score is not right or wrong."""
    errors = outputs["logits"][:, 0] - tf.where(weights > 0, batch[LABELS], 0.0)
    return sum_losses(tf.square(errors), None, weights)


def exits_loss_sum(loss_sum: LossSumFn, outputs: Tensors, batch: Tensors, weights: tf.Tensor) -> LossSum:
    """The mean of a term over the layers of `exit_logits` [B, L, …], weighted by their numbers from 1.

    `correct` counts the answers of the last layer.
    Source: Zhou et al. 2020, eq. 5.
    """
    layers = tf.unstack(outputs["exit_logits"], axis=1)
    terms = [loss_sum({"logits": logits}, batch, weights) for logits in layers]
    loss = tf.add_n([layer * term.loss for layer, term in enumerate(terms, start=1)])
    return terms[-1]._replace(loss=loss / sum(range(len(layers) + 1)))


def span_loss_sum(outputs: Tensors, batch: Tensors, weights: tf.Tensor) -> LossSum:
    """The mean of the cross-entropies of start and end; correct if both are.

    Source: google-research/albert, run_squad_v1.py and run_squad_v2.py.
    """
    losses, hits = [], []
    for name, positions in (("start_logits", START_POSITIONS), ("end_logits", END_POSITIONS)):
        logits, labels = outputs[name], tf.where(weights > 0, batch[positions], 0)
        losses.append(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        hits.append(tf.argmax(logits, axis=-1, output_type=labels.dtype) == labels)
    return sum_losses(tf.add_n(losses) / 2, hits[0] & hits[1], weights)


def answer_loss_sum(outputs: Tensors, batch: Tensors, weights: tf.Tensor) -> LossSum:
    """Half of the sigmoid cross-entropy of `no_answer_logits` [B].

    Source: google-research/albert, run_squad_v2.py, which takes half so that it is as large as a span's.
    """
    logits, labels = outputs["no_answer_logits"], tf.cast(batch[IS_IMPOSSIBLE], tf.float32)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
    return sum_losses(losses / 2, (logits > 0) == (labels > 0), weights)


def _loss(loss_sum: LossSumFn, labels: str, is_multi_label: bool = False) -> Loss:
    return Loss(loss_sum, functools.partial(label_weights, name=labels, is_multi_label=is_multi_label))


LABEL = {"label": _loss(label_loss_sum, LABELS)}
MULTI_LABEL = {"label": _loss(multi_label_loss_sum, LABELS, is_multi_label=True)}
SCORE = {"score": _loss(score_loss_sum, LABELS)}
SPAN = {"span": _loss(span_loss_sum, START_POSITIONS)}
ANSWER = {**SPAN, "answer": _loss(answer_loss_sum, IS_IMPOSSIBLE)}
