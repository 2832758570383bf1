"""Matrices in int8: their numbers by hand, and models whose answers are those of the dequantised weights."""

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.checkpoints.models import build_model
from albert_tf.models.exits import call_with_patience
from albert_tf.models.int8 import Int8Matrix, dequantised, matrix_for, quantise, quantised
from albert_tf.models.layer import dense
from tests.tiny import TINY

CONFIG = TINY.replace(initializer_range=0.2)
TASKS = {
    "pretrainer": {"model": "pretrainer", "sentence_objective": "sop"},
    "exits": {"model": "classifier", "num_labels": 3, "early_exit": True},
    "tags": {"model": "token_classifier", "num_labels": 3},
    "span": {"model": "span_labeler", "answerability": True},
    "choices": {"model": "multiple_choice", "num_choices": 2},
}
INPUTS = {
    "input_word_ids": tf.constant([[2, 9, 8, 7, 6, 3, 5, 3], [2, 11, 3, 12, 3, 0, 0, 0]]),
    "input_mask": tf.constant([[1] * 8, [1] * 5 + [0] * 3]),
    "input_type_ids": tf.constant([[0] * 6 + [1] * 2, [0] * 3 + [1] * 2 + [0] * 3]),
    "masked_lm_positions": tf.constant([[1, 2], [1, 3]]),
}


def by_hand(matrix, axis):
    """The int8 numbers and their scales, in NumPy."""
    scale = np.abs(matrix).max(axis=axis, keepdims=True) / 127
    scale = scale.astype(tf.bfloat16.as_numpy_dtype).astype(np.float32)
    scale[scale == 0] = 1
    return np.rint(matrix / scale).astype(np.int8), scale


@pytest.mark.parametrize("axis", [-2, -1])
def test_quantised_by_hand(axis):
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=[2, 5, 4]).astype(np.float32)
    matrix[0, 2] = matrix[0, :, 1] = 0  # scales of nothing
    values, scale = quantised(tf.constant(matrix), axis)
    expected, expected_scale = by_hand(matrix, axis)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(scale, expected_scale)
    assert scale.dtype == tf.bfloat16
    assert np.abs(values).max() == 127
    assert (np.abs(dequantised(values, scale) - matrix) <= expected_scale * 0.5001).all()


def test_a_matrix_is_taken_for_its_floats():
    rng = np.random.default_rng(0)
    matrix = Int8Matrix(*quantised(tf.constant(rng.normal(size=[6, 4]), tf.float32), -1))
    floats = dequantised(matrix.values, matrix.scale).numpy()
    np.testing.assert_array_equal(tf.gather(matrix, [[5, 0]]), floats[[[5, 0]]])
    np.testing.assert_array_equal(tf.slice(matrix, [0, 0], [3, -1]), floats[:3])
    np.testing.assert_array_equal(matrix[1], floats[1])
    x, bias = tf.constant(rng.normal(size=[3, 6]), tf.float32), tf.ones([4])
    np.testing.assert_allclose(dense(x, matrix, bias), x.numpy() @ floats + 1, rtol=1e-5, atol=1e-5)
    assert matrix_for(tf.cast(x, tf.bfloat16), matrix).dtype == tf.bfloat16


@pytest.mark.parametrize("name", TASKS)
def test_answers_are_those_of_the_dequantised_weights(name):
    task, config = TASKS[name], CONFIG.replace(sharing="ffn" if name == "tags" else "all")
    model, expected = build_model(config, task), build_model(config, task)
    for ours, theirs in zip(model.variables, expected.variables, strict=True):
        value = ours.numpy()
        if value.ndim > 1 and not ours.name.endswith("bias:0"):
            value = np.prod(np.broadcast_arrays(*by_hand(value, -2 if "kernel" in ours.name else -1)), axis=0)
        theirs.assign(value)
    quantise(model)
    assert not model.trainable_variables
    sizes = [sum(variable.numpy().nbytes for variable in m.variables) for m in (model, expected)]
    assert sizes[0] < 0.4 * sizes[1]  # vectors, and scales of narrow tables, are floats
    inputs = INPUTS if name != "choices" else {k: x[tf.newaxis] for k, x in list(INPUTS.items())[:3]}
    wanted = expected(inputs)
    for call in (model, tf.function(model.__call__)):
        tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), call(inputs), wanted)
    if name == "exits":
        found, wanted = (call_with_patience(m, INPUTS, 1) for m in (model, expected))
        tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), found, wanted)


def test_floats_of_a_graph_come_one_after_the_other():
    """Each product's come from an op that waits for what it multiplies."""
    model = albert_tf.AlbertEncoder(CONFIG)
    quantise(model)
    traced = tf.function(lambda ids: model({"input_word_ids": ids})).get_concrete_function(
        INPUTS["input_word_ids"]
    )
    nodes = {node.name: node for node in traced.graph.as_graph_def().node}
    int8 = tf.int8.as_datatype_enum
    casts = [node for node in nodes.values() if node.op == "Cast" and node.attr["SrcT"].type == int8]
    casts = [node for node in casts if "/embeddings/" not in node.name]  # rows of tables
    # Query, key and value; output; both of the feed-forward; and the projection of embeddings, the pooler.
    assert len(casts) == 4 * CONFIG.num_hidden_layers + 2
    for node in casts:
        inputs = list(node.input)
        while inputs and not inputs[0].startswith("^"):  # back to what reads the matrix
            inputs = list(reversed(nodes[name].input)) if (name := inputs[0].split(":")[0]) in nodes else []
        assert inputs, node
