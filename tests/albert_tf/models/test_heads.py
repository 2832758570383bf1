"""The heads of pre-training against NumPy by hand."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.models.heads import MaskedLanguageModel, OutputLayer, mean_state
from tests.albert_tf.models.oracles import numpy_gelu, numpy_layer_norm
from tests.devices import refused_ids
from tests.tiny import TINY

B, S, P, H, E, V = 2, 5, 3, 32, 16, 200
POSITIONS = np.array([[0, 4, 2], [1, 1, 0]], np.int32)


@pytest.fixture(scope="module")
def head():
    rng = np.random.default_rng(1)
    head = MaskedLanguageModel(TINY)
    for variable in head.variables:
        variable.assign(rng.normal(0.3, 0.4, variable.shape))
    return head


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(2)
    return rng.normal(size=(B, S, H)).astype(np.float32), rng.normal(size=(V, E)).astype(np.float32)


def numpy_logits(head, sequence, table):
    values = {v.name.removesuffix(":0").rpartition("predictions/")[2]: v.numpy() for v in head.variables}
    rows = sequence[np.arange(B)[:, None], POSITIONS].astype(float)
    rows = numpy_gelu(rows @ values["transform/dense/kernel"] + values["transform/dense/bias"])
    gamma, beta = (values[f"transform/LayerNorm/{name}"] for name in ("gamma", "beta"))
    rows = numpy_layer_norm(rows, gamma, beta, 1e-12)
    return rows @ table.T + values["output_bias"]


def test_masked_language_model_eagerly_and_of_unknown_shapes(head, arrays):
    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, H]),
            tf.TensorSpec([None, None], tf.int32),
            tf.TensorSpec([V, E]),
        ]
    )
    def logits(sequence, positions, table):
        result = head(sequence, positions, table)
        assert result.shape.as_list() == [None, None, V]
        return result

    expected = numpy_logits(head, *arrays)
    np.testing.assert_allclose(head(arrays[0], tf.constant(POSITIONS), arrays[1]), expected, atol=2e-5)
    np.testing.assert_allclose(logits(arrays[0], POSITIONS, arrays[1]), expected, atol=2e-5)
    assert logits(arrays[0], POSITIONS[:, :0], arrays[1]).shape == (B, 0, V)
    with pytest.raises(tf.errors.InvalidArgumentError):
        logits(arrays[0], POSITIONS[:1], arrays[1])
    with pytest.raises(InputError, match=r"masked_lm_positions has shape \(2, 3, 1\)"):
        head(arrays[0], tf.zeros([2, 3, 1], tf.int32), arrays[1])
    with refused_ids("5 is not in"):
        head(arrays[0], tf.fill([B, P], S), arrays[1])


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_logits_are_float32(head, arrays, dtype):
    result = head(tf.cast(arrays[0], dtype), tf.constant(POSITIONS), arrays[1])
    assert result.dtype == tf.float32
    expected = numpy_logits(head, *arrays)
    assert np.abs(result - expected).max() < 0.03 * np.abs(expected).max()
    assert OutputLayer("scope", 2, TINY)(tf.cast(arrays[0][:, 0], dtype)).dtype == tf.float32


def test_the_bias_is_added_in_float32(arrays):
    head = MaskedLanguageModel(TINY)
    head.output_bias.assign(np.linspace(100, 101, V))  # bfloat16 would round to halves
    result = head(tf.cast(arrays[0], tf.bfloat16), tf.constant(POSITIONS), tf.zeros([V, E]))
    np.testing.assert_array_equal(result[0, 0], head.output_bias)


def test_output_layer(arrays):
    head = OutputLayer("scope", 2, TINY)
    head.output_bias.assign([0.5, -0.25])
    pooled = arrays[0][:, 0]
    expected = pooled.astype(float) @ head.output_weights.numpy().T + [0.5, -0.25]
    np.testing.assert_allclose(head(tf.constant(pooled)), expected, atol=1e-6)
    assert head.output_weights.shape == (2, H)


# Short, full, with a gap, and without any token.
MASK = np.array([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 1, 0], [0, 0, 0, 0, 0]], np.int32)


def numpy_means(states, mask):
    """The mean of each row's tokens, one row after the other."""
    rows = (row[is_token == 1] for row, is_token in zip(states.astype(np.float32), mask, strict=True))
    return np.stack([row.mean(axis=0) if len(row) else np.zeros(H) for row in rows])


def test_mean_state():
    states = np.random.default_rng(3).normal(size=[*MASK.shape, H]).astype(np.float32)
    expected = numpy_means(states, MASK)
    call = tf.function(
        mean_state, input_signature=[tf.TensorSpec([None, None, H]), tf.TensorSpec([None, None], tf.int32)]
    )
    for found in (mean_state(states, tf.constant(MASK)), mean_state(states, MASK > 0), call(states, MASK)):
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert not np.any(found.numpy()[3])
    np.testing.assert_allclose(mean_state(states, None), states.mean(axis=1), atol=1e-6)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_the_mean_of_many_states_is_summed_up_in_float32(dtype):
    """A sum in bfloat16 stands still at 256, where a further 1 is rounded off; one in float16 overflows."""
    states = tf.cast(tf.fill([1, 512, 2], 300.0), dtype)
    found = mean_state(states, np.ones([1, 512], np.int32))
    assert found.dtype == dtype
    np.testing.assert_array_equal(tf.cast(found, tf.float32), [[300.0, 300.0]])
