"""Losses of a student's outputs against a teacher's, as pure functions; the teacher's get no gradient.

Letters: T temperature; s and t the logits of student and teacher.
Source: Hinton, Vinyals & Dean 2015, Distilling the Knowledge in a Neural Network, §2.
"""

from __future__ import annotations

import tensorflow as tf


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
