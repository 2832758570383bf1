"""The functions that a layer is made of against NumPy in float64, written out by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import config as albert_config
from albert_tf.models import layers
from tests.albert_tf.models.oracles import float32, numpy_attention, numpy_gelu, numpy_layer_norm, randomize
from tests.tiny import TINY

B, S, N, D = 2, 5, 4, 8
SEED = tf.constant([7, 11])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("epsilon", [1e-12, 0.5])
def test_layer_norm(rng, epsilon):
    x, gamma, beta = rng.normal(3, 2, size=(2, 3, 16)), rng.normal(size=16), rng.normal(size=16)
    expected = numpy_layer_norm(x, gamma, beta, epsilon)
    np.testing.assert_allclose(layers.layer_norm(*float32(x, gamma, beta), epsilon), expected, atol=1e-5)
    constant = layers.layer_norm(tf.fill([3, 16], 5.0), *float32(gamma, beta), epsilon)
    np.testing.assert_array_equal(constant, [beta.astype(np.float32)] * 3)


@pytest.mark.parametrize(("dtype", "tolerance"), [(tf.bfloat16, 2**-8), (tf.float16, 2**-11)])
def test_layer_norm_of_half_precision_is_computed_in_float32(rng, dtype, tolerance):
    x = tf.cast(rng.normal(20, 1, size=(4, 768)), dtype)
    result = layers.layer_norm(x, tf.ones(768), tf.zeros(768), 1e-12)
    assert result.dtype == dtype
    expected = numpy_layer_norm(np.asarray(tf.cast(x, tf.float64)), 1, 0, 1e-12)
    np.testing.assert_allclose(tf.cast(result, tf.float64), expected, rtol=tolerance, atol=1e-6)


def test_activations():
    points = np.array([-30.0, -3.0, -1.0, -0.1, 0.0, 0.1, 1.0, 3.0, 30.0])
    expected = {
        "gelu": numpy_gelu(points),
        "gelu_erf": [x * (1 + math.erf(x / math.sqrt(2))) / 2 for x in points],
        "relu": np.maximum(points, 0),
        "tanh": np.tanh(points),
        "linear": points,
    }
    assert layers.ACTIVATIONS.keys() == expected.keys() == set(albert_config.ACTIVATION_NAMES)
    for name, values in expected.items():
        np.testing.assert_allclose(layers.ACTIVATIONS[name](*float32(points)), values, atol=1e-6)


SOFTMAX = pytest.mark.parametrize("softmax", [layers.biased_softmax, layers.fused_softmax])


@SOFTMAX
def test_attention(rng, softmax):
    query, key, value = rng.normal(size=(3, B, N, S, D))
    mask = np.array([[1, 1, 1, 1, 1], [1, 0, 0, 0, 0]])
    bias = layers.attention_bias(tf.constant(mask), tf.float32)
    result = layers.attention(*float32(query, key, value), bias, softmax=softmax)
    np.testing.assert_allclose(result, numpy_attention(query, key, value, mask), atol=1e-6)
    # What is masked has no weight at all.
    np.testing.assert_allclose(result[1], np.repeat(value[1, :, :1], S, axis=1), rtol=1e-6)
    padding = layers.attention_bias(tf.zeros([B, S]), tf.float32)
    assert np.isfinite(layers.attention(*float32(query, key, value), padding, softmax=softmax)).all()


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_attention_of_half_precision(dtype):
    bias = layers.attention_bias(tf.constant([[1, 1, 0], [1, 0, 0]]), dtype)
    assert bias.shape == (2, 1, 1, 3) and bias.dtype == dtype
    values = np.asarray(tf.cast(bias, tf.float32))[:, 0, 0]
    np.testing.assert_array_equal(values < -9000, [[False, False, True], [False, True, True]])
    assert np.isfinite(values).all()
    spec = tf.TensorSpec([B, N, S, D], dtype)
    traced = tf.function(layers.attention).get_concrete_function(
        spec, spec, spec, tf.TensorSpec([B, 1, 1, S], dtype)
    )
    types = {op.type: op.outputs[0].dtype for op in traced.graph.get_operations() if op.outputs}
    assert types["Softmax"] == tf.float32
    assert types["BatchMatMulV2"] == traced.outputs[0].dtype == dtype


def test_dropout_of_the_probabilities(rng):
    query, key, value = float32(*rng.normal(size=(3, B, N, S, D)))
    bias = tf.zeros([B, 1, 1, S])
    probabilities = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) / math.sqrt(D))
    expected = tf.matmul(layers.dropout(probabilities, 0.5, SEED), value)
    np.testing.assert_allclose(layers.attention(query, key, value, bias, 0.5, SEED), expected, atol=1e-6)


@pytest.mark.parametrize(("rate", "dtype"), [(0.1, tf.bfloat16), (0.3, tf.float16), (0.5, tf.float32)])
def test_dropout_drops_the_rate_and_scales_the_rest(rate, dtype):
    count = 1_000_000
    dropped = np.asarray(tf.cast(layers.dropout(tf.ones([count], dtype), rate, SEED), tf.float32))
    kept = dropped[dropped != 0]
    deviation = math.sqrt(rate * (1 - rate) / count)
    assert abs(1 - kept.size / count - rate) < 5 * deviation
    np.testing.assert_allclose(kept, 1 / (1 - rate), rtol=2**-8 if dtype == tf.bfloat16 else 2**-10)


def test_dropout_is_its_seeds():
    x = tf.ones([1000])
    assert layers.dropout(x, 0.5, None) is x and layers.dropout(x, 0.0, SEED) is x
    with tf.GradientTape() as tape:
        tape.watch(x)
        first = layers.dropout(x, 0.5, SEED)
    np.testing.assert_array_equal(tape.gradient(first, x), first)  # both are mask / (1 - rate)
    np.testing.assert_array_equal(first, layers.dropout(x, 0.5, SEED))
    for seed in ([7, 12], [8, 11], [11, 7]):
        other = layers.dropout(x, 0.5, tf.constant(seed))
        assert 400 < np.sum(np.asarray(first) != other) < 600  # half of independent elements differ


def test_dropout_that_xla_compiled():
    drop = tf.function(lambda x, seed: layers.dropout(x, 0.25, seed), jit_compile=True)
    first, again = (np.asarray(drop(tf.ones([100, 100]), SEED)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert abs((first == 0).mean() - 0.25) < 0.03


def test_dense_and_layer_norm_layers(rng):
    dense = layers.DenseLayer("scope/some/dense", 3, 4, TINY)
    norm = layers.LayerNorm("scope/LayerNorm", 4, TINY.replace(layer_norm_eps=0.25))
    assert dense.name == "dense" and norm.name == "LayerNorm"
    values = randomize(dense, rng) | randomize(norm, rng)
    assert set(values) == {"some/dense/kernel", "some/dense/bias", "LayerNorm/gamma", "LayerNorm/beta"}
    x = rng.normal(size=(6, 3))
    inner = x @ values["some/dense/kernel"] + values["some/dense/bias"]
    expected = numpy_layer_norm(inner, values["LayerNorm/gamma"], values["LayerNorm/beta"], 0.25)
    np.testing.assert_allclose(norm(dense(*float32(x))), expected, atol=1e-5)


def test_initial_values():
    config = TINY.replace(initializer_range=0.05)
    pair = [layers.DenseLayer("scope", 256, 256, config) for _ in range(2)]
    kernels = [dense.kernel.numpy() for dense in pair]
    for kernel in kernels:
        # Keras's truncated normal is cut at two deviations: its own deviation is 0.8796 of the untruncated.
        assert abs(kernel.std() / 0.05 - 0.8796) < 0.02 and abs(kernel).max() <= 0.1
    assert not np.allclose(*kernels) and not np.any(pair[0].bias)
