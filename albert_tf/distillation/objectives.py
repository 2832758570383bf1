"""Objectives with a teacher: the terms of a student's own training, and those of the teacher's outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.distillation.losses import (
    cosine_distance,
    sigmoid_divergence,
    softmax_divergence,
    squared_difference,
)
from albert_tf.distillation.targets import SoftLabels, SoftTargets
from albert_tf.distillation.teacher import Teacher
from albert_tf.features import MASK, MLM_WEIGHTS
from albert_tf.models.losses import Objective, Term
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.kind import FinetunedKind
from albert_tf.tasks.multi_label import MultiLabel
from albert_tf.tasks.regression import Regression

Tensors = Mapping[str, tf.Tensor]


class TeacherLoss(NamedTuple):
    """One term against a teacher."""

    losses: Callable[[Tensors, Tensors], tf.Tensor]  # [...] of the outputs of student and teacher
    weights: Callable[[Tensors], tf.Tensor]  # float32 [...] of a batch


# The loss against soft labels by kind of task.
SOFT_LABELS: dict[type[FinetunedKind], Callable[[tf.Tensor, tf.Tensor, float], tf.Tensor]] = {
    Classification: softmax_divergence,
    MultiLabel: sigmoid_divergence,
    Regression: squared_difference,
}


def pretraining_terms(own: Objective, teacher: Teacher, targets: SoftTargets) -> Objective:
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
        added["cosine"] = TeacherLoss(cosine, lambda batch: tf.cast(batch[MASK], tf.float32))
    factors = {"mlm": targets.mlm_weight, "soft": targets.soft_weight, "cosine": targets.cosine_weight}
    return _with_terms(own, teacher, added, factors)


def task_terms(kind: FinetunedKind, teacher: Teacher, targets: SoftLabels) -> Objective:
    """The objective of fine-tuning for a kind in SOFT_LABELS, and the term `soft`."""
    own, divergence = kind.objective(), SOFT_LABELS[type(kind)]
    (labels,) = kind.losses.values()

    def soft(student: Tensors, taught: Tensors) -> tf.Tensor:
        return divergence(student["logits"], taught["logits"], targets.temperature)

    factors = {"soft": targets.soft_weight, **dict.fromkeys(own.names, targets.label_weight)}
    return _with_terms(own, teacher, {"soft": TeacherLoss(soft, labels.weights)}, factors)


def _with_terms(
    own: Objective,
    teacher: Teacher,
    added: Mapping[str, TeacherLoss],
    factors: Mapping[str, float],
) -> Objective:
    """An objective with further terms, whose teacher is called once a batch."""

    def terms(outputs: Tensors, batch: Tensors) -> dict[str, Term]:
        taught, found = teacher(batch), own.terms(outputs, batch)
        for name, loss in added.items():
            weights = loss.weights(batch)
            total = tf.reduce_sum(weights * loss.losses(outputs, taught))
            found[name] = Term(total, tf.constant(np.nan), tf.reduce_sum(weights))
        return found

    def weights(batch: Tensors) -> dict[str, tf.Tensor]:
        return own.weights(batch) | {name: tf.reduce_sum(x.weights(batch)) for name, x in added.items()}

    return Objective((*own.names, *added), terms, weights, factors)
