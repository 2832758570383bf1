"""Recomputation: outputs and gradients are those without it, and the activations are not kept."""

import collections
import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context  # what the graph optimizer made is nowhere else

from albert_tf import (
    AlbertClassifier,
    AlbertEncoder,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertSpanLabeler,
    AlbertTokenClassifier,
)
from albert_tf.checkpoints import build_model, task_of
from albert_tf.models.recompute import recomputed
from tests.tiny import TINY

B, S, H = 4, 6, 32
DROPOUT = TINY.replace(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.1)
SEED = tf.constant([5, 6])


@pytest.fixture(scope="module")
def inputs():
    rng = np.random.default_rng(4)
    mask = np.arange(S) < np.array([[6], [4], [6], [5]])
    return {
        "input_word_ids": tf.constant(rng.integers(5, TINY.vocab_size, (B, S)), tf.int32),
        "input_mask": tf.constant(mask, tf.int32),
        "input_type_ids": tf.constant(rng.integers(2, size=(B, S)), tf.int32),
    }


def pair(config, **kwargs):
    """The same encoder without recomputation and with it; no bias is zero and no gain one."""
    plain, remat = (AlbertEncoder(config, remat=remat, **kwargs) for remat in (False, True))
    rng = np.random.default_rng(3)
    for a, b in zip(plain.variables, remat.variables, strict=True):
        a.assign_add(rng.normal(0, 0.1, a.shape))
        b.assign(a)
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
    ("config", "mode"),
    [
        (TINY, "eager"),
        (DROPOUT, "traced"),
        (DROPOUT.replace(sharing="attention"), "eager"),
        (DROPOUT.replace(sharing="ffn"), "eager"),
        (DROPOUT.replace(sharing="none"), "eager"),
        (DROPOUT.replace(num_hidden_groups=2, inner_group_num=2), "traced"),
    ],
    ids=["no dropout", "all", "attention", "ffn", "none", "groups"],
)
def test_outputs_and_gradients_are_the_same(inputs, config, mode):
    plain, remat = pair(config)
    function = tf.function(learn) if mode == "traced" else learn
    assert_equal(function(remat, inputs), function(plain, inputs))


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


def test_a_traced_model_under_an_eager_tape(inputs):
    plain, remat = pair(DROPOUT)
    results = []
    for encoder in (remat, plain):
        call = tf.function(lambda x, encoder=encoder: encoder(x, training=True, seed=SEED))
        with tf.GradientTape() as tape:
            loss = loss_of(call(inputs))
        results.append([tf.convert_to_tensor(g) for g in tape.gradient(loss, encoder.trainable_variables)])
    assert_equal(*results)


def test_unknown_shapes(inputs):
    plain, remat = pair(DROPOUT)
    spec = {name: tf.TensorSpec([None, None], tf.int32) for name in inputs}
    assert_equal(*(learning(encoder, input_signature=[spec])(inputs) for encoder in (remat, plain)))


def test_a_batch_of_no_rows(inputs):
    remat = AlbertEncoder(DROPOUT, remat=True)
    none = {name: tensor[:0] for name, tensor in inputs.items()}
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(remat(none, training=True, seed=SEED)["pooled_output"])
    for gradient in tape.gradient(loss, remat.trainable_variables):
        assert not np.any(tf.convert_to_tensor(gradient))


# Recomputed in bfloat16, hidden states are the same to the bit; but TensorFlow sums up the gradients of a
# bfloat16 tensor that is used several times in an order of its own.
@pytest.mark.parametrize(
    ("policy", "tolerance", "mode"), [("mixed_bfloat16", 0.02, "traced"), ("mixed_float16", 0.003, "eager")]
)
def test_half_precision(inputs, policy, tolerance, mode):
    plain, remat = pair(DROPOUT, dtype=policy)
    function = tf.function(learn) if mode == "traced" else learn
    ours, theirs = function(remat, inputs), function(plain, inputs)
    assert_equal(ours[0], theirs[0], 1e-6 if mode == "eager" else tolerance)
    assert_equal(ours[2], theirs[2], tolerance)
    assert {gradient.dtype for gradient in ours[2]} == {tf.float32}


@pytest.mark.slow
def test_two_replicas(inputs, two_replicas):
    with two_replicas.scope():
        plain, remat = pair(DROPOUT)

    @tf.function
    def run(which):
        encoder = {"plain": plain, "remat": remat}[which]

        def replica():
            context = tf.distribute.get_replica_context()
            rows = context.replica_id_in_sync_group * (B // 2)
            _, loss, gradients = learn(encoder, {k: x[rows : rows + B // 2] for k, x in inputs.items()})
            return context.all_reduce("SUM", [loss, *gradients])

        return [two_replicas.experimental_local_results(x)[0] for x in two_replicas.run(replica)]

    assert_equal(run("remat"), run("plain"))


def test_without_training_nothing_is_recomputed(inputs):
    plain, remat = pair(DROPOUT)
    assert_equal(learn(remat, inputs, training=False), learn(plain, inputs, training=False), 0)
    graphs = [
        tf.function(encoder.__call__).get_concrete_function(inputs, training=False).graph.as_graph_def()
        for encoder in (plain, remat)
    ]
    assert len({tuple(node.op for node in graph.node) for graph in graphs}) == 1
    with tf.GradientTape() as outer:
        with tf.GradientTape() as tape:
            loss = loss_of(remat(inputs))
        slope = tape.gradient(loss, remat.pooler.kernel)
    assert outer.gradient(slope, remat.pooler.kernel) is not None


# What is computed again, and what is kept.


def optimized(function, inputs):
    """The nodes that TensorFlow runs for a traced function, behind its graph optimizer."""
    context.enable_run_metadata()
    try:
        function(inputs)
        graphs = context.export_run_metadata().function_graphs
    finally:
        context.disable_run_metadata()
    return [node for graph in graphs for node in graph.post_optimization_graph.node]


def test_the_optimized_graph_computes_each_layer_twice_and_adds_up_as_it_goes(inputs):
    layers = 5
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
    assert alive_in_the_forward_pass(recomputed) == 0


def test_a_second_derivative_is_refused():
    x = tf.constant([2.0])
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y, _ = recomputed(lambda x, seeds, power: x**power, x, (), tf.constant(3.0))
        slope = tape.gradient(y, x)
    np.testing.assert_allclose(slope, [12.0])
    with pytest.raises(LookupError, match="build the model with remat=False"):
        outer.gradient(slope, x)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_gradients_that_are_not_finite_change_no_activation(value):
    x = tf.constant([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y, _ = recomputed(lambda x, seeds, kernel: x * x * kernel, x, (), tf.ones([2]))
    np.testing.assert_array_equal(tape.gradient(y, x, tf.constant([[value, 1.0]])), [[value, 4.0]])


# How models take it.


@pytest.mark.parametrize(
    ("model", "arguments"),
    [
        (AlbertEncoder, {}),
        (AlbertPretrainer, {"sentence_objective": "nsp"}),
        (AlbertClassifier, {"num_labels": 3}),
        (AlbertTokenClassifier, {"num_labels": 3}),
        (AlbertSpanLabeler, {}),
        (AlbertSpanLabeler, {"answerability": True}),
        (AlbertMultipleChoice, {"num_choices": 2}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_model_takes_it(model, arguments):
    def remat(made):
        return getattr(made, "encoder", made).remat

    made = model(TINY, remat=True, **arguments)
    assert remat(made) is True and made.get_config()["remat"] is True
    assert remat(model.from_config(made.get_config())) is True
    assert remat(model(TINY, **arguments)) is False
    assert remat(build_model(TINY, task_of(made), remat=True)) is True
    assert remat(build_model(TINY, task_of(made))) is False
