"""Losses against a teacher, and their gradients, against NumPy by hand."""

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import expit, softmax

from albert_tf.finetuning.distill import (
    cosine_distance,
    sigmoid_divergence,
    softmax_divergence,
    squared_difference,
)

RNG = np.random.default_rng(0)
STUDENT, TEACHER = (3 * RNG.normal(size=[2, 3, 5]) for _ in range(2))
GIVEN = RNG.normal(size=[2, 3])  # the gradient of a loss [2, 3]


def computed(function, *arguments):
    """The losses, and the gradient at the student's outputs."""
    student, teacher = (tf.constant(x, tf.float32) for x in (STUDENT, TEACHER))
    with tf.GradientTape() as tape:
        tape.watch(student)
        losses = function(student, teacher, *arguments)
    return losses, tape.gradient(losses, student, tf.constant(GIVEN, tf.float32))


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_softmax_divergence(temperature):
    p, q = (softmax(x / temperature, axis=-1) for x in (TEACHER, STUDENT))
    losses, gradient = computed(softmax_divergence, temperature)
    np.testing.assert_allclose(losses, temperature**2 * (p * np.log(p / q)).sum(axis=-1), rtol=1e-5)
    np.testing.assert_allclose(gradient, GIVEN[..., None] * temperature * (q - p), atol=1e-5)
    np.testing.assert_allclose(softmax_divergence(TEACHER, TEACHER, temperature), np.zeros([2, 3]), atol=1e-9)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_sigmoid_divergence(temperature):
    p, q = expit(TEACHER / temperature), expit(STUDENT / temperature)
    losses, gradient = computed(sigmoid_divergence, temperature)
    divergences = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    np.testing.assert_allclose(losses, temperature**2 * divergences.mean(axis=-1), rtol=1e-4)
    np.testing.assert_allclose(gradient, GIVEN[..., None] * temperature * (q - p) / 5, atol=1e-5)


def test_squared_difference_knows_no_temperature():
    for temperature in (1.0, 2.0):
        losses, gradient = computed(squared_difference, temperature)
        np.testing.assert_allclose(losses, ((STUDENT - TEACHER) ** 2).mean(axis=-1), rtol=1e-5)
        np.testing.assert_allclose(gradient, GIVEN[..., None] * 2 * (STUDENT - TEACHER) / 5, atol=1e-5)


def test_cosine_distance():
    s, t = (np.linalg.norm(x, axis=-1, keepdims=True) for x in (STUDENT, TEACHER))
    cosine = (STUDENT * TEACHER).sum(axis=-1, keepdims=True) / (s * t)
    losses, gradient = computed(cosine_distance)
    np.testing.assert_allclose(losses, 1 - cosine[..., 0], atol=1e-6)
    np.testing.assert_allclose(
        gradient, GIVEN[..., None] * (cosine * STUDENT / s**2 - TEACHER / (s * t)), atol=1e-6
    )


def test_cosine_distance_of_padding_is_finite():
    zeros = tf.zeros([1, 2, 4])
    with tf.GradientTape() as tape:
        tape.watch(zeros)
        losses = cosine_distance(zeros, zeros)
    assert np.isfinite(tape.gradient(losses, zeros)).all()
    assert cosine_distance(tf.ones([1, 4], tf.bfloat16), tf.ones([1, 4], tf.bfloat16)).dtype == tf.float32
