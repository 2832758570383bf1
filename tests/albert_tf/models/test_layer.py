"""The functions that a layer is made of against NumPy in float64, written out by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import config as albert_config
from albert_tf.models import layer
from tests.albert_tf.models.oracles import (
    float32,
    numpy_attention,
    numpy_gelu,
    numpy_layer_norm,
    randomize,
)
from tests.tiny import TINY

B, S, N, D = 2, 5, 4, 8
SEED = tf.constant([7, 11])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_dense(rng):
    x, kernel, bias = rng.normal(size=(6, 3)), rng.normal(size=(3, 4)), rng.normal(size=4)
    np.testing.assert_allclose(layer.dense(*float32(x, kernel, bias)), x @ kernel + bias, atol=1e-6)


@pytest.mark.parametrize("epsilon", [1e-12, 0.5])
def test_layer_norm(rng, epsilon):
    x, gamma, beta = rng.normal(3, 2, size=(2, 3, 16)), rng.normal(size=16), rng.normal(size=16)
    expected = numpy_layer_norm(x, gamma, beta, epsilon)
    np.testing.assert_allclose(layer.layer_norm(*float32(x, gamma, beta), epsilon), expected, atol=1e-5)


def test_layer_norm_of_a_constant_row_is_beta():
    beta = tf.constant([1.0, 2.0, 3.0])
    result = layer.layer_norm(tf.fill([2, 3], 5.0), tf.ones(3), beta, 1e-12)
    np.testing.assert_array_equal(result, [beta, beta])


@pytest.mark.parametrize(("dtype", "tolerance"), [(tf.bfloat16, 2**-8), (tf.float16, 2**-11)])
def test_layer_norm_of_half_precision_is_computed_in_float32(rng, dtype, tolerance):
    x = tf.cast(rng.normal(20, 1, size=(4, 768)), dtype)
    result = layer.layer_norm(x, tf.ones(768), tf.zeros(768), 1e-12)
    assert result.dtype == dtype
    expected = numpy_layer_norm(np.asarray(tf.cast(x, tf.float64)), 1, 0, 1e-12)
    np.testing.assert_allclose(tf.cast(result, tf.float64), expected, rtol=tolerance, atol=1e-6)


POINTS = np.array([-30.0, -3.0, -1.0, -0.1, 0.0, 0.1, 1.0, 3.0, 30.0])


@pytest.mark.parametrize(
    ("name", "expected"),
    {
        "gelu": numpy_gelu(POINTS),
        "gelu_erf": [x * (1 + math.erf(x / math.sqrt(2))) / 2 for x in POINTS],
        "relu": np.maximum(POINTS, 0),
        "tanh": np.tanh(POINTS),
        "linear": POINTS,
    }.items(),
)
def test_activations(name, expected):
    np.testing.assert_allclose(layer.ACTIVATIONS[name](*float32(POINTS)), expected, atol=1e-6)


def test_every_activation_of_the_config_is_there():
    assert set(layer.ACTIVATIONS) == set(albert_config.ACTIVATIONS)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16, tf.float16])
def test_attention_bias(dtype):
    bias = layer.attention_bias(tf.constant([[1, 1, 0], [1, 0, 0]]), dtype)
    assert bias.shape == (2, 1, 1, 3) and bias.dtype == dtype
    masked = np.asarray(tf.cast(bias, tf.float32))[:, 0, 0] < -9000
    np.testing.assert_array_equal(masked, [[False, False, True], [False, True, True]])
    assert np.isfinite(np.asarray(tf.cast(bias, tf.float32))).all()


SOFTMAX = pytest.mark.parametrize("softmax", [layer.biased_softmax, layer.fused_softmax])


@SOFTMAX
def test_attention(rng, softmax):
    query, key, value = rng.normal(size=(3, B, N, S, D))
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    bias = layer.attention_bias(tf.constant(mask), tf.float32)
    result = layer.attention(*float32(query, key, value), bias, softmax=softmax)
    np.testing.assert_allclose(result, numpy_attention(query, key, value, mask), atol=1e-6)


@SOFTMAX
def test_what_is_masked_has_no_weight_at_all(rng, softmax):
    query, key, value = float32(*rng.normal(size=(3, 1, 1, 2, D)))
    bias = layer.attention_bias(tf.constant([[1, 0]]), tf.float32)
    context = layer.attention(query, key, value, bias, softmax=softmax)
    np.testing.assert_array_equal(context[0, 0, 1], value[0, 0, 0])


@SOFTMAX
def test_a_row_of_padding_alone_is_finite(rng, softmax):
    query, key, value = float32(*rng.normal(size=(3, 1, 1, 2, D)))
    bias = layer.attention_bias(tf.constant([[0, 0]]), tf.float32)
    assert np.isfinite(layer.attention(query, key, value, bias, softmax=softmax)).all()


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_the_softmax_of_half_precision_is_float32(dtype):
    spec = tf.TensorSpec([B, N, S, D], dtype)
    traced = tf.function(layer.attention).get_concrete_function(
        spec, spec, spec, tf.TensorSpec([B, 1, 1, S], dtype)
    )
    types = {op.type: op.outputs[0].dtype for op in traced.graph.get_operations() if op.outputs}
    assert types["Softmax"] == tf.float32
    assert types["BatchMatMulV2"] == traced.outputs[0].dtype == dtype


def test_dropout_of_the_probabilities(rng):
    query, key, value = float32(*rng.normal(size=(3, B, N, S, D)))
    bias = tf.zeros([B, 1, 1, S])
    probabilities = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) / math.sqrt(D))
    expected = tf.matmul(layer.dropout(probabilities, 0.5, SEED), value)
    np.testing.assert_allclose(layer.attention(query, key, value, bias, 0.5, SEED), expected, atol=1e-6)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16, tf.float16])
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_dropout_drops_the_rate_and_scales_the_rest(rate, dtype):
    count = 1_000_000
    dropped = np.asarray(tf.cast(layer.dropout(tf.ones([count], dtype), rate, SEED), tf.float32))
    kept = dropped[dropped != 0]
    deviation = math.sqrt(rate * (1 - rate) / count)
    assert abs(1 - kept.size / count - rate) < 5 * deviation
    np.testing.assert_allclose(kept, 1 / (1 - rate), rtol=2**-8 if dtype == tf.bfloat16 else 2**-10)


def test_dropout_is_its_seeds():
    x = tf.ones([1000])
    first = layer.dropout(x, 0.5, SEED)
    np.testing.assert_array_equal(first, layer.dropout(x, 0.5, SEED))
    others = [layer.dropout(x, 0.5, tf.constant(seed)) for seed in ([7, 12], [8, 11], [11, 7])]
    for other in others:
        assert 400 < np.sum(np.asarray(first) != other) < 600  # half of independent elements differ


def test_without_seed_or_rate_dropout_is_nothing():
    x = tf.ones([3])
    assert layer.dropout(x, 0.5, None) is x
    assert layer.dropout(x, 0.0, SEED) is x


def test_the_gradient_of_dropout_drops_the_same_elements():
    x = tf.ones([1000])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer.dropout(x, 0.4, SEED)
    np.testing.assert_array_equal(tape.gradient(y, x), y)  # both are mask / (1 - rate)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_dropout_compiled_and_not(jit_compile):
    drop = tf.function(lambda x, seed: layer.dropout(x, 0.25, seed), jit_compile=jit_compile)
    first, again = (np.asarray(drop(tf.ones([100, 100]), SEED)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert abs((first == 0).mean() - 0.25) < 0.03


def test_dense_and_layer_norm_layers(rng):
    dense = layer.DenseLayer("scope/some/dense", 3, 4, TINY)
    norm = layer.LayerNorm("scope/LayerNorm", 4, TINY.replace(layer_norm_eps=0.25))
    assert dense.name == "dense" and norm.name == "LayerNorm"
    values = randomize(dense, rng) | randomize(norm, rng)
    assert set(values) == {"some/dense/kernel", "some/dense/bias", "LayerNorm/gamma", "LayerNorm/beta"}
    x = rng.normal(size=(6, 3))
    inner = x @ values["some/dense/kernel"] + values["some/dense/bias"]
    expected = numpy_layer_norm(inner, values["LayerNorm/gamma"], values["LayerNorm/beta"], 0.25)
    np.testing.assert_allclose(norm(dense(*float32(x))), expected, atol=1e-5)
