"""Compiled chains of elementwise operations: the values and gradients of the chains themselves."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import AlbertEncoder
from albert_tf.models.layers import (
    ACTIVATIONS,
    attention_bias,
    biased_softmax,
    fuse,
    fused_softmax,
    layer_ops,
)
from tests.albert_tf.models.oracles import numpy_softmax
from tests.tiny import TINY

R, W = 6, 32
EPSILON = 1e-12


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def central_differences(function, x, step=1e-5):
    """The derivative of sum(function) by each element of x, in float64."""
    changes = np.eye(x.size).reshape(x.size, *x.shape) * step
    values = [function(x + change).sum() - function(x - change).sum() for change in changes]
    return np.reshape(values, x.shape) / (2 * step)


def test_softmax_and_its_derivative(rng):
    scores, weights = rng.normal(size=(2, 2, 3, 4, 5))  # [B, N, S, S] each, but of fewer queries than keys
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    bias = attention_bias(tf.constant(mask), tf.float32)
    function = layer_ops("gelu", EPSILON, is_fused=True).softmax
    tensor = tf.constant(scores, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch([tensor, bias])
        y = function(tensor, bias)
        total = tf.reduce_sum(y * tf.constant(weights, tf.float32))
    of_scores, of_bias = tape.gradient(total, [tensor, bias])
    masked = np.where(mask[:, None, None], 0, -np.inf)
    np.testing.assert_allclose(y, numpy_softmax(scores + masked), atol=1e-6)
    differences = central_differences(lambda value: weights * numpy_softmax(value + masked), scores)
    np.testing.assert_allclose(of_scores, differences, atol=1e-6)
    assert of_bias is None


def test_softmax_of_bfloat16(rng):
    scores = tf.cast(rng.normal(size=(2, 3, 64, 64)), tf.bfloat16)
    gradient = tf.cast(rng.normal(size=scores.shape), tf.bfloat16)
    with tf.GradientTape() as tape:
        tape.watch(scores)
        y = fused_softmax(scores, tf.zeros([2, 1, 1, 64], tf.bfloat16))
    found, of_scores = (tf.cast(each, tf.float32) for each in (y, tape.gradient(y, scores, gradient)))
    p = numpy_softmax(np.asarray(tf.cast(scores, tf.float64)))
    g = np.asarray(tf.cast(gradient, tf.float64))
    np.testing.assert_allclose(found, p, rtol=1.01 * 2**-8)  # rounded once
    # The probabilities that are kept are rounded, and so is the result.
    close = 2**-7 * p * (np.abs(g) + (p * np.abs(g)).sum(-1, keepdims=True))
    assert np.all(np.abs(of_scores - p * (g - (p * g).sum(-1, keepdims=True))) < close)


@pytest.mark.parametrize(("dtype", "precision"), [(tf.bfloat16, 2**-8), (tf.float16, 2**-11)])
def test_narrow_types_are_rounded_once(rng, dtype, precision):
    x = tf.cast(rng.normal(0, 2, (R, W)), dtype)
    y = fuse(ACTIVATIONS["gelu"])(x)
    expected = ACTIVATIONS["gelu"](tf.cast(x, tf.float32))
    assert y.dtype == dtype
    np.testing.assert_allclose(tf.cast(y, tf.float32), expected, rtol=1.01 * precision, atol=1e-6)


def test_softmax_of_unknown_shapes_and_padding(rng):
    spec = [tf.TensorSpec([None] * 4), tf.TensorSpec([None, 1, 1, None])]
    call = tf.function(fused_softmax, input_signature=spec)
    for length in (3, 5):
        scores = tf.constant(rng.normal(size=(2, 1, length, length)), tf.float32)
        bias = attention_bias(tf.constant([[1] * length, [1] * (length - 1) + [0]]), tf.float32)
        found = call(scores, bias)
        assert not np.any(found[1, ..., -1])
        np.testing.assert_allclose(found, biased_softmax(scores, bias), atol=1e-6)


def learn(encoder, inputs):
    """The sequence output and the gradients of a loss, of a training step of one encoder."""

    @tf.function
    def step(inputs):
        with tf.GradientTape() as tape:
            states = encoder(inputs, training=True, seed=tf.constant([3, 4]))["sequence_output"]
            loss = tf.reduce_mean(tf.cast(states, tf.float32)[:, :, ::3] ** 3)
        gradients = tape.gradient(loss, encoder.trainable_variables)
        return states, [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]

    return step(inputs)


@pytest.mark.slow
def test_a_network_learns_the_same_and_only_training_is_compiled(rng):
    """With recomputation, which uses the compiled functions, too."""
    config = TINY.replace(
        num_hidden_layers=2, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.1, initializer_range=0.2
    )
    plain, compiled = (AlbertEncoder(config, remat=True, fused=fused) for fused in (False, True))
    for a, b in zip(plain.variables, compiled.variables, strict=True):
        b.assign(a)
    inputs = {"input_word_ids": tf.constant(rng.integers(5, TINY.vocab_size, (3, 7)), tf.int32)}
    expected, found = learn(plain, inputs), learn(compiled, inputs)
    for a, b in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-5 * max(1, np.abs(b).max()))
    evaluated = [encoder(inputs, training=False)["pooled_output"] for encoder in (plain, compiled)]
    np.testing.assert_array_equal(*evaluated)
    call = tf.function(lambda inputs, training: compiled(inputs, training)["pooled_output"])
    for training in (False, True):
        library = call.get_concrete_function(inputs, training).graph.as_graph_def().library
        names = [f.signature.name for f in library.function if f.attr["_XlaMustCompile"].b]
        assert [any(part in name for name in names) for part in ("_compute_in_float32_", "_softmax_")] == [
            training
        ] * 2
