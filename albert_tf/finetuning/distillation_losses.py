"""The losses of a student: soft targets, hidden states, and those of the labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.constants import INPUT_MASK, MLM_WEIGHTS, Tensors
from albert_tf.finetuning.soft_targets import SoftLabels, SoftTargets
from albert_tf.finetuning.teacher import Teacher
from albert_tf.models.loss_sums import LossFn, LossSum
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.multi_label import MultiLabel
from albert_tf.tasks.regression import Regression
from albert_tf.tasks.task import FinetuningTask


def softmax_divergence(student: tf.Tensor, teacher: tf.Tensor, temperature: float) -> tf.Tensor:
    """T² · KL(softmax(t / T) ‖ softmax(s / T)): float32 [...] of logits [..., C].

    T² keeps the size of the gradient, which falls as 1 / T². The divergence has the gradient of the
    cross-entropy with soft targets, and is 0 where both agree.
    """
    log_student, log_teacher = (tf.nn.log_softmax(logits / temperature) for logits in (student, teacher))
    divergence = tf.reduce_sum(tf.exp(log_teacher) * (log_teacher - log_student), axis=-1)
    return temperature**2 * divergence


def sigmoid_divergence(student: tf.Tensor, teacher: tf.Tensor, temperature: float) -> tf.Tensor:
    """T² · KL(σ(t / T) ‖ σ(s / T)), the mean over the labels: float32 [...] of logits [..., K]."""
    soft, student = teacher / temperature, student / temperature
    targets = tf.sigmoid(soft)
    cross_entropy, entropy = (
        tf.nn.sigmoid_cross_entropy_with_logits(targets, logits) for logits in (student, soft)
    )
    return temperature**2 * tf.reduce_mean(cross_entropy - entropy, axis=-1)


def squared_difference(student: tf.Tensor, teacher: tf.Tensor, temperature: float) -> tf.Tensor:
    """(s - t)², the mean over the last axis: float32 [...] of scores [..., 1], which have no temperature."""
    return tf.reduce_mean(tf.math.squared_difference(student, teacher), axis=-1)


def cosine_distance(student: tf.Tensor, teacher: tf.Tensor) -> tf.Tensor:
    """1 - cos(student, teacher): float32 [...] of hidden states [..., H].

    Source: Sanh et al. 2019, DistilBERT, §3.
    """
    directions = (tf.math.l2_normalize(tf.cast(x, tf.float32), axis=-1) for x in (student, teacher))
    return 1.0 - tf.reduce_sum(tf.multiply(*directions), axis=-1)


class TeacherLoss(NamedTuple):
    """One term against a teacher."""

    losses: Callable[[Tensors, Tensors], tf.Tensor]  # [...] of the outputs of student and teacher
    weights: Callable[[Tensors], tf.Tensor]  # float32 [...] of a batch


# The loss against soft labels by kind of task.
SOFT_LABELS: dict[type[FinetuningTask], Callable[[tf.Tensor, tf.Tensor, float], tf.Tensor]] = {
    Classification: softmax_divergence,
    MultiLabel: sigmoid_divergence,
    Regression: squared_difference,
}


def pretraining_loss_sums(own: LossFn, teacher: Teacher, targets: SoftTargets) -> LossFn:
    """The objective of pre-training, and the terms `soft` and `cosine`.

    Source: Sanh et al. 2019, DistilBERT, §3.
    Note: `soft` is the mean over the masked tokens, whose logits alone are computed (their code's
      `restrict_ce_to_mask`, which is off there by default).
    """

    def soft(student: Tensors, taught: Tensors) -> tf.Tensor:
        return softmax_divergence(student["mlm_logits"], taught["mlm_logits"], targets.temperature)

    def cosine(student: Tensors, taught: Tensors) -> tf.Tensor:
        return cosine_distance(student["sequence_output"], taught["sequence_output"])

    added = {"soft": TeacherLoss(soft, lambda batch: batch[MLM_WEIGHTS])}
    if targets.cosine_weight:
        added["cosine"] = TeacherLoss(cosine, lambda batch: tf.cast(batch[INPUT_MASK], tf.float32))
    factors = {"mlm": targets.mlm_weight, "soft": targets.soft_weight, "cosine": targets.cosine_weight}
    return _with_terms(own, teacher, added, factors)


def task_loss_sums(kind: FinetuningTask, teacher: Teacher, targets: SoftLabels) -> LossFn:
    """The objective of fine-tuning for a kind in SOFT_LABELS, and the term `soft`."""
    own, divergence = kind.objective(), SOFT_LABELS[type(kind)]
    (labels,) = kind.losses.values()

    def soft(student: Tensors, taught: Tensors) -> tf.Tensor:
        return divergence(student["logits"], taught["logits"], targets.temperature)

    factors = {"soft": targets.soft_weight, **dict.fromkeys(own.names, targets.label_weight)}
    return _with_terms(own, teacher, {"soft": TeacherLoss(soft, labels.weights)}, factors)


def _with_terms(
    own: LossFn,
    teacher: Teacher,
    added: Mapping[str, TeacherLoss],
    factors: Mapping[str, float],
) -> LossFn:
    """An objective with further terms, whose teacher is called once a batch."""

    def terms(outputs: Tensors, batch: Tensors) -> dict[str, LossSum]:
        taught, found = teacher(batch), own.terms(outputs, batch)
        for name, loss in added.items():
            weights = loss.weights(batch)
            total = tf.reduce_sum(weights * loss.losses(outputs, taught))
            found[name] = LossSum(total, tf.constant(np.nan), tf.reduce_sum(weights))
        return found

    def weights(batch: Tensors) -> dict[str, tf.Tensor]:
        return own.weights(batch) | {name: tf.reduce_sum(x.weights(batch)) for name, x in added.items()}

    return LossFn((*own.names, *added), terms, weights, factors)
