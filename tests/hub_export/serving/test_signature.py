import itertools

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.models.compiled_encoder import ROWS_AT_ONCE, map_blocks
from albert_tf.runs.build_model import MODELS
from albert_tf.tasks import TASK_CLASSES
from albert_tf.tasks.serving import without_padding
from hub_export.module_comparison import TEXT_OPS
from hub_export.modules import Module
from tests.hub_export.conftest import CONFIG
from tests.hub_export.serving.fine_tuned import served

SPAN = {"seq_length": 64, "max_query_length": 8, "doc_stride": 8}
HEADS = {
    "classifier": (albert_tf.AlbertClassifier, {"num_labels": 3}, {"seq_length": 16}),
    "mean": (albert_tf.AlbertClassifier, {"num_labels": 1, "pooling": "mean"}, {"seq_length": 16}),
    "tagger": (albert_tf.AlbertTokenClassifier, {"num_labels": 4}, {"seq_length": 16}),
    "span": (albert_tf.AlbertSpanLabeler, {}, SPAN),
    "answerability": (albert_tf.AlbertSpanLabeler, {"answerability": True}, SPAN),
    "choice": (albert_tf.AlbertMultipleChoice, {"num_choices": 2}, {"seq_length": 16}),
}


def test_every_model_of_a_run_but_the_encoder_has_a_task():
    assert {task_class.model_kind for task_class in TASK_CLASSES.values()} == MODELS.keys() - {"encoder"}


def test_columns_of_padding_alone_are_left_out():
    mask = tf.constant([[1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0]])
    assert without_padding({"input_mask": mask})["input_mask"].shape == [2, 3]
    assert without_padding({"input_mask": mask}, least=5)["input_mask"].shape == [2, 5]
    assert without_padding({"input_mask": mask[:0]}, least=2)["input_mask"].shape == [0, 2]


def test_blocks_are_small_and_all_rows_are_answered():
    sizes = []

    def double(inputs):
        sizes.append(tf.shape(inputs["input_mask"])[0].numpy())
        return 2 * inputs["input_mask"], tf.reduce_sum(inputs["input_mask"], axis=1)

    for rows in (0, 1, ROWS_AT_ONCE, ROWS_AT_ONCE + 1, 3 * ROWS_AT_ONCE - 1):
        sizes.clear()
        mask = np.arange(rows * 3, dtype=np.int32).reshape(rows, 3)
        doubled, sums = map_blocks(double, {"input_mask": tf.constant(mask)}, (tf.int32, tf.int32))
        np.testing.assert_array_equal(doubled, 2 * mask)
        np.testing.assert_array_equal(sums, mask.sum(axis=1))
        assert max(sizes) <= ROWS_AT_ONCE
        assert sum(sizes) < rows + len(sizes)


def head_of(name, tokenizer):
    """A model of a kind of one layer, and its signature."""
    network, arguments, task = HEADS[name]
    model = network(CONFIG.replace(num_hidden_layers=1), **arguments)
    return model, served(model, tokenizer, task).signatures["head"]


@pytest.mark.parametrize("name", HEADS)
def test_the_head_is_the_models(name, piece_tokenizer):
    """Padding changes nothing, and there are no ops of text."""
    model, head = head_of(name, piece_tokenizer)
    shape = [3, 2, 9] if name == "choice" else [3, 9]
    ids = np.random.default_rng(0).integers(5, 50, shape).astype(np.int32)
    types = np.broadcast_to(np.arange(9) > 3, shape).astype(np.int32)
    inputs = {"input_word_ids": ids, "input_mask": np.ones_like(ids), "input_type_ids": types}
    expected, found = model(inputs), head.function(**inputs)
    margins = [[0, 0]] * (len(shape) - 1) + [[0, 4]]
    padded = head.function(**{key: np.pad(array, margins) for key, array in inputs.items()})
    assert found.keys() == expected.keys()
    for key, tensor in expected.items():
        np.testing.assert_allclose(found[key], tensor, rtol=0, atol=1e-5)
        same = padded[key][tuple(slice(size) for size in tensor.shape)]
        np.testing.assert_allclose(same, tensor, rtol=0, atol=1e-5)
    example = {key: tf.constant(rows) for key, rows in head.example.items()}
    assert head.function(**example).keys() == found.keys()
    graph = head.function.get_concrete_function().graph.as_graph_def()
    nodes = itertools.chain(graph.node, *(function.node_def for function in graph.library.function))
    assert TEXT_OPS.isdisjoint(node.op for node in nodes)


def test_the_ranks_of_a_head_are_checked_in_the_graph(piece_tokenizer, tmp_path):
    """A server does not compare them with the signature."""
    model, head = head_of("choice", piece_tokenizer)
    functions = {"head": head.function.get_concrete_function()}
    tf.saved_model.save(Module(model.variables), str(tmp_path), signatures=functions)
    loaded = tf.saved_model.load(str(tmp_path)).signatures["head"]
    assert loaded(**{name: tf.constant(rows) for name, rows in head.example.items()})["logits"].shape == [
        1,
        2,
    ]
    for wrong in ([2, 3], [[2, 3]], [[[2, 3]] * 3]):  # of another rank, of another number of choices
        with pytest.raises(tf.errors.InvalidArgumentError, match="is not compatible"):
            loaded(**{name: tf.constant(wrong) for name in head.example})
