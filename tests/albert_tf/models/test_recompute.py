"""Recomputation: outputs and gradients are those without it, and the activations are not kept."""

import collections
import gc
import re
import weakref
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context  # what the graph optimizer made is nowhere else

from albert_tf import AlbertConfig, AlbertEncoder, AlbertPretrainer
from albert_tf.errors import InputError
from albert_tf.models import memory
from albert_tf.models.memory import TRAINING_COPIES, check_memory, physical_memory, recompute
from albert_tf.runs.build_model import build_model, task_of
from tests.albert_tf.models.oracles import inputs_of, perturbed
from tests.tiny import TINY

S, H = 6, 32
DROPOUT = TINY.replace(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.1)
SEED = tf.constant([5, 6])


@pytest.fixture(scope="module")
def inputs():
    return inputs_of(np.int32(np.arange(S) < [[6], [4], [6], [5]]))


def pair(config, **kwargs):
    """The same encoder without recomputation and with it."""
    plain, remat = (perturbed(AlbertEncoder(config, remat=remat, **kwargs)) for remat in (False, True))
    remat.set_weights(plain.get_weights())
    return plain, remat


def loss_of(outputs):
    """A loss that reads the first layer, the last one and the pooled output, and no layer in between."""
    read = [outputs["encoder_outputs"][0], outputs["encoder_outputs"][-1], outputs["pooled_output"]]
    targets = [tf.random.stateless_normal([H], [1, index]) for index in range(len(read))]
    return tf.add_n(
        [
            tf.reduce_mean(target * tf.cast(states, tf.float32) ** 2)
            for target, states in zip(targets, read, strict=True)
        ]
    )


def learn(encoder, inputs, training=True):
    """Outputs, loss, and its gradients by every variable."""
    with tf.GradientTape() as tape:
        outputs = encoder(inputs, training=training, seed=SEED)
        loss = loss_of(outputs)
    gradients = tape.gradient(loss, encoder.trainable_variables)
    return outputs, loss, [tf.convert_to_tensor(gradient) for gradient in gradients]


def learning(encoder, **kwargs):
    """`learn` of one encoder as a tf.function of the inputs."""
    return tf.function(lambda inputs: learn(encoder, inputs), **kwargs)


def assert_equal(actual, expected, tolerance=1e-6):
    def check(a, b):
        a, b = (np.asarray(tf.cast(x, tf.float32)) for x in (a, b))
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1, np.abs(b).max()))

    tf.nest.map_structure(check, actual, expected)


@pytest.mark.parametrize(
    "config",
    [
        TINY,
        DROPOUT,
        DROPOUT.replace(sharing="attention"),
        DROPOUT.replace(num_hidden_groups=2, inner_group_num=2, num_hidden_layers=2),
    ],
    ids=["no dropout", "all", "attention", "groups"],
)
def test_outputs_and_gradients_are_the_same(inputs, config):
    plain, remat = pair(config)
    assert_equal(learn(remat, inputs), learn(plain, inputs))


def test_in_a_graph_of_unknown_shapes(inputs):
    plain, remat = pair(DROPOUT.replace(num_hidden_layers=2))
    spec = {name: tf.TensorSpec([None, None], tf.int32) for name in inputs}
    function = learning(remat, input_signature=[spec])
    assert_equal(function(inputs), learn(plain, inputs))
    none = function({name: tensor[:0] for name, tensor in inputs.items()})
    assert none[0]["sequence_output"].shape == (0, S, H)


@pytest.mark.slow
def test_compiled_code_gives_the_same_and_computes_each_layer_twice(inputs):
    results, dots = [], []
    for encoder in pair(DROPOUT.replace(sharing="attention", num_hidden_layers=2)):
        function = learning(encoder, jit_compile=True)
        results.append(function(inputs))
        program = function.experimental_get_compiler_ir(inputs)(stage="optimized_hlo")
        dots.append(program.count(" dot("))
    assert_equal(results[1], results[0])
    assert (
        dots[1] - dots[0] == 6 * 2
    )  # query-key-value, scores, context, output, two of the feed-forward block


def test_half_precision(inputs):
    """Hidden states are the same to the bit; TensorFlow sums up gradients in an order of its own."""
    plain, remat = pair(DROPOUT, dtype="mixed_bfloat16")
    ours, theirs = learn(remat, inputs), learn(plain, inputs)
    assert_equal(ours[0], theirs[0])
    assert_equal(ours[2], theirs[2], 0.02)
    assert {gradient.dtype for gradient in ours[2]} == {tf.float32}


def test_without_training_nothing_is_recomputed(inputs):
    plain, remat = pair(DROPOUT)
    assert_equal(learn(remat, inputs, training=False), learn(plain, inputs, training=False), 0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as tape:
            loss = loss_of(remat(inputs))
        slope = tape.gradient(loss, remat.pooler.kernel)
    assert outer.gradient(slope, remat.pooler.kernel) is not None


def optimized(function, inputs):
    """The nodes that TensorFlow runs for a traced function, behind its graph optimizer."""
    context.enable_run_metadata()
    try:
        function(inputs)
        graphs = context.export_run_metadata().function_graphs
    finally:
        context.disable_run_metadata()
    return [node for graph in graphs for node in graph.post_optimization_graph.node]


@pytest.mark.slow
def test_the_optimized_graph_computes_each_layer_twice_and_adds_up_as_it_goes(inputs):
    layers = 4
    counts, terms = [], []
    for encoder in pair(DROPOUT.replace(num_hidden_layers=layers)):
        nodes = optimized(learning(encoder), inputs)
        counts.append(collections.Counter(node.op for node in nodes))
        terms.append({node.attr["N"].i for node in nodes if node.op == "AddN"})
    dense = [count["MatMul"] + count["_FusedMatMul"] for count in counts]
    assert dense[1] - dense[0] == 4 * layers
    for op, number in {"Softmax": 1, "StatelessRandomUniformV2": 3}.items():
        assert counts[1][op] - counts[0][op] == number * layers
    # Otherwise the gradients of a shared kernel wait for each other, one a layer.
    assert layers in terms[0] and layers not in terms[1]


def alive_in_the_forward_pass(apply):
    """How many of the activations of four layers are in memory behind them, under an eager tape."""
    activations = []

    def layer(x, seeds, kernel):
        inner = tf.tanh(tf.matmul(x, kernel))
        activations.append(weakref.ref(inner))
        return inner * x

    x, kernel = tf.ones([2, 3]), tf.eye(3)
    with tf.GradientTape() as tape:
        tape.watch([x, kernel])
        for _ in range(4):
            x, kernel = apply(layer, x, (), kernel)
    gc.collect()
    alive = sum(activation() is not None for activation in activations)
    del tape
    return alive


def test_an_eager_tape_keeps_no_activations():
    assert alive_in_the_forward_pass(lambda layer, x, seeds, kernel: (layer(x, seeds, kernel), kernel)) == 4
    assert alive_in_the_forward_pass(recompute) == 0


def test_a_second_derivative_is_refused():
    x = tf.constant([2.0])
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y, _ = recompute(lambda x, seeds, power: x**power, x, (), tf.constant(3.0))
        slope = tape.gradient(y, x)
    np.testing.assert_allclose(slope, [12.0])
    with pytest.raises(LookupError, match="build the model with remat=False"):
        outer.gradient(slope, x)


def test_models_take_it():
    made = AlbertPretrainer(TINY, remat=True)
    for again in (
        AlbertPretrainer.from_config(made.get_config()),
        build_model(TINY, task_of(made), remat=True),
    ):
        assert again.remat is again.encoder.remat is True
    assert build_model(TINY, task_of(made)).remat is False


# Absurd sizes are refused before they are built.


def test_bytes_are_compared(monkeypatch):
    total = 11_683_584  # Lan et al. 2020, Table 2: 12M
    monkeypatch.setattr(memory, "physical_memory", lambda: total * 4)
    check_memory(AlbertConfig())
    with pytest.raises(InputError, match="GB in training"):
        check_memory(AlbertConfig(), TRAINING_COPIES)
    monkeypatch.setattr(memory, "physical_memory", lambda: total * 4 - 1)
    with pytest.raises(InputError, match="11,683,584 parameters"):
        check_memory(AlbertConfig())


@pytest.mark.parametrize("name", ["hidden_size", "intermediate_size", "vocab_size", "embedding_size"])
def test_a_network_that_no_machine_holds_is_not_built(name):
    size = 12 * 10**11
    with pytest.raises(InputError, match=f"{name}={size}"):
        AlbertEncoder(AlbertConfig(**{name: size}))


def test_the_memory_is_that_of_the_machine():
    kilobytes = int(re.search(r"MemTotal: +(\d+) kB", Path("/proc/meminfo").read_text())[1])
    assert physical_memory() == kilobytes * 1024
