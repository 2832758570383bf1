"""The two blocks of a layer against NumPy in float64, written out by hand."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.models.blocks import AttentionBlock, FeedForwardBlock
from albert_tf.models.layer import attention_bias, elementwise
from tests.albert_tf.models.oracles import float32, numpy_attention, numpy_gelu, numpy_layer_norm, randomize
from tests.tiny import TINY

B, S, N, D = 2, 5, 4, 8
H, INNER = 32, 64


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_initial_values():
    config = TINY.replace(initializer_range=0.05)
    block = FeedForwardBlock("scope", config.replace(hidden_size=256, intermediate_size=256))
    kernels = [block.intermediate.kernel.numpy(), block.output_dense.kernel.numpy()]
    for kernel in kernels:
        # Keras's truncated normal is cut at two deviations: its own deviation is 0.8796 of the untruncated.
        assert abs(kernel.std() / 0.05 - 0.8796) < 0.02 and abs(kernel).max() <= 0.1
    assert not np.allclose(*kernels)
    assert not np.any(block.intermediate.bias) and not np.any(block.layer_norm.beta)
    np.testing.assert_array_equal(block.layer_norm.gamma, np.ones(256))


# The second is so large that it shows.
EPSILONS = (1e-12, 0.25)
FUSED = pytest.mark.parametrize("is_fused", [False, True])


@FUSED
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_attention_block(rng, epsilon, is_fused):
    block = AttentionBlock("scope", TINY.replace(layer_norm_eps=epsilon))
    values = randomize(block, rng)
    x = rng.normal(size=(B, S, H))
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]])

    def project(name):
        y = x @ values[f"attention_1/{name}/kernel"] + values[f"attention_1/{name}/bias"]
        return y.reshape(B, S, N, D).transpose(0, 2, 1, 3)

    context = numpy_attention(project("self/query"), project("self/key"), project("self/value"), mask)
    context = context.transpose(0, 2, 1, 3).reshape(B, S, H)
    output = context @ values["attention_1/output/dense/kernel"] + values["attention_1/output/dense/bias"]
    expected = numpy_layer_norm(output + x, values["LayerNorm/gamma"], values["LayerNorm/beta"], epsilon)
    result = block(
        tf.constant(x.reshape(-1, H), tf.float32),
        block.parameters(),
        attention_bias(tf.constant(mask), tf.float32),
        elementwise("gelu", epsilon, is_fused=is_fused),
    )
    np.testing.assert_allclose(result, expected.reshape(-1, H), atol=2e-5)


@FUSED
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_feed_forward_block(rng, epsilon, is_fused):
    block = FeedForwardBlock("scope", TINY.replace(layer_norm_eps=epsilon))
    values = randomize(block, rng)
    x = rng.normal(size=(B * S, H))
    scope = "ffn_1/intermediate"
    inner = numpy_gelu(x @ values[f"{scope}/dense/kernel"] + values[f"{scope}/dense/bias"])
    assert inner.shape == (B * S, INNER)
    output = inner @ values[f"{scope}/output/dense/kernel"] + values[f"{scope}/output/dense/bias"]
    expected = numpy_layer_norm(output + x, values["LayerNorm_1/gamma"], values["LayerNorm_1/beta"], epsilon)
    functions = elementwise("gelu", epsilon, is_fused=is_fused)
    result = block(*float32(x), block.parameters(), functions)
    np.testing.assert_allclose(result, expected, atol=2e-5)
