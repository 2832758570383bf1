"""AlbertEncoder in every mode, precision and sharing; recorded numbers are compared in test_tasks."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf import AlbertConfig, AlbertEncoder, AlbertPretrainer
from albert_tf.errors import InputError
from albert_tf.models import blocks as blocks_module
from albert_tf.models import embeddings as embeddings_module
from albert_tf.models import layers as layer_module
from albert_tf.models.padding import skip_padding
from albert_tf.models.sharing import sharing_plan, with_num_layers
from tests.albert_tf.models.oracles import inputs_of, perturbed
from tests.tiny import TINY

B, S, E, H, L = 2, 7, 16, 32, 3
DROPOUT = TINY.replace(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.1)
ONE_LAYER = DROPOUT.replace(num_hidden_layers=1)  # quick to compile
SEED = tf.constant([5, 6])
UNKNOWN = tf.TensorSpec([None, None], tf.int32)
KEYS = ("input_word_ids", "input_mask", "input_type_ids")


@pytest.fixture(scope="module")
def encoder():
    return perturbed(AlbertEncoder(TINY))


@pytest.fixture(scope="module")
def dropping():
    return perturbed(AlbertEncoder(DROPOUT))


@pytest.fixture(scope="module")
def inputs():
    return inputs_of(np.array([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]], np.int32))


def assert_same(actual, expected, tolerance=1e-5):
    tf.nest.map_structure(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=tolerance), actual, dict(expected)
    )


@pytest.mark.parametrize("inner", [1, 2])
def test_outputs(inputs, inner):
    encoder = perturbed(AlbertEncoder(TINY.replace(inner_group_num=inner)))
    outputs = encoder(inputs)
    assert set(outputs) == {"sequence_output", "pooled_output", "encoder_outputs", "embedding_output"}
    assert outputs["sequence_output"].shape == (B, S, H)
    assert outputs["embedding_output"].shape == (B, S, E)
    assert [x.shape.as_list() for x in outputs["encoder_outputs"]] == [[B, S, H]] * (L * inner)
    np.testing.assert_array_equal(outputs["sequence_output"], outputs["encoder_outputs"][-1])
    kernel, bias = encoder.pooler.kernel, encoder.pooler.bias
    pooled = tf.tanh(tf.matmul(outputs["sequence_output"][:, 0], kernel) + bias)
    np.testing.assert_allclose(outputs["pooled_output"], pooled, atol=1e-6)


def test_attentions_are_there_only_if_they_are_asked_for(dropping, inputs):
    """NumPy by hand is in tests/albert_tf/analysis/test_layers.py."""
    places = skip_padding(inputs)
    for training in (False, True):
        outputs = dropping(inputs, training=training, seed=SEED, return_attentions=True)
        assert_same(
            {key: x for key, x in outputs.items() if key != "attentions"},
            dropping(inputs, training=training, seed=SEED),
            0,
        )
        assert [x.shape.as_list() for x in outputs["attentions"]] == [[B, 4, S, S]] * L
        for found in outputs["attentions"]:
            np.testing.assert_allclose(np.sum(found, axis=-1), 1, atol=1e-5)
            assert np.all(found.numpy()[1, :, :, 4:] == 0)  # of padding
    found = dropping(places, return_attentions=True)["attentions"]
    for one, other in zip(found, dropping(inputs, return_attentions=True)["attentions"], strict=True):
        np.testing.assert_allclose(one[0], other[0], atol=1e-5)
        np.testing.assert_allclose(one[1, :, :4], other[1, :, :4], atol=1e-5)
    softmaxes = [
        [node.op for node in traced(dropping, inputs, **asked).graph.as_graph_def().node].count("Softmax")
        for asked in ({}, {"return_attentions": True})
    ]
    assert softmaxes == [L, 2 * L]


def traced(model, inputs, **arguments):
    """The graph of a call."""
    return tf.function(lambda inputs: model(inputs, **arguments)).get_concrete_function(inputs)


def test_inputs_as_a_list_in_the_order_of_the_dict(encoder, inputs):
    every = [inputs[key] for key in KEYS]
    for given in (every, tuple(every), [x.numpy() for x in every]):
        assert_same(encoder(given), encoder(inputs), 0)
    assert_same(encoder(every[:2]), encoder(dict(zip(KEYS, every[:2], strict=False))), 0)
    with pytest.raises(InputError, match=r"list of 4: .* input_word_ids, input_mask, input_type_ids"):
        encoder([*every, every[0]])
    positions = tf.constant([[1, 2], [3, 0]])
    pretrainer = perturbed(AlbertPretrainer(ONE_LAYER))
    named = {**inputs, "masked_lm_positions": positions}
    assert_same(pretrainer([*every, positions]), pretrainer(named), 0)


def test_inputs_of_other_types_and_inputs_left_out(encoder, inputs):
    ids = {"input_word_ids": inputs["input_word_ids"]}
    full = {**ids, "input_mask": tf.ones([B, S], tf.int32), "input_type_ids": tf.zeros([B, S], tf.int32)}
    assert_same(encoder(ids), encoder(full), 0)
    assert_same(encoder(inputs["input_word_ids"]), encoder(full), 0)
    expected = encoder(inputs)
    wide = {key: tf.cast(value, tf.int64) for key, value in inputs.items()}
    assert_same(encoder({**wide, "label": tf.constant("a")}), expected, 0)
    assert_same(encoder({**inputs, "input_mask": tf.cast(inputs["input_mask"], tf.bool)}), expected, 0)
    none = encoder({key: value[:0] for key, value in inputs.items()})
    assert none["sequence_output"].shape == (0, S, H) and none["pooled_output"].shape == (0, H)


def test_traced_with_unknown_shapes(encoder, inputs):
    @tf.function(input_signature=[dict.fromkeys(KEYS, UNKNOWN)])
    def call(tensors):
        outputs = encoder(tensors)
        assert outputs["sequence_output"].shape.as_list() == [None, None, H]
        assert outputs["pooled_output"].shape.as_list() == [None, H]
        return outputs

    assert_same(call(inputs), encoder(inputs))
    for shapes in (((4, 6), (6, 4), (4, 6)), ((4, 6), (4, 6), (6, 4)), ((4, 6), (1, 6), (4, 6))):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Shapes of all inputs must match"):
            call(dict(zip(KEYS, (tf.ones(shape, tf.int32) for shape in shapes), strict=True)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="max_position_embeddings_is_64"):
        call(dict.fromkeys(KEYS, tf.ones([1, 65], tf.int32)))


def test_known_shapes_stay_known_and_inference_has_no_asserts_and_no_randomness(dropping):
    spec = {key: tf.TensorSpec([None, S], tf.int32) for key in KEYS}
    traced = tf.function(dropping.__call__).get_concrete_function(spec, training=False)
    shapes = tf.nest.map_structure(lambda x: x.shape.as_list(), traced.structured_outputs)
    assert shapes["sequence_output"] == [None, S, H] and shapes["embedding_output"] == [None, S, E]
    assert shapes["encoder_outputs"] == [[None, S, H]] * L
    definition = traced.graph.as_graph_def()
    called = (node for function in definition.library.function for node in function.node_def)
    kinds = {node.op for node in (*definition.node, *called)}
    assert "Softmax" in kinds
    assert not [kind for kind in kinds if "Assert" in kind or "Random" in kind or kind.endswith("PyFunc")]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("form", ["whole", "pooled_only", "without padding"])
def test_a_graph_for_inference_has_a_layer_that_recurs_once(inputs, groups, form):
    """And computes, and differentiates, as the layers one by one do."""
    model = perturbed(AlbertEncoder(DROPOUT.replace(num_hidden_layers=8, num_hidden_groups=groups)))
    given = skip_padding(inputs) if form == "without padding" else inputs
    options = {"training": False, "pooled_only": form == "pooled_only"}
    traced = tf.function(lambda tensors: model(tensors, **options)).get_concrete_function(given)
    calls = [op for op in traced.graph.get_operations() if op.type.endswith("PartitionedCall")]
    assert len(calls) == 8
    names = {op.get_attr("f").name for op in calls}
    assert len(names) == groups + (form == "pooled_only")  # the last one computes the first token alone
    assert not [op for op in traced.graph.get_operations() if op.type == "Softmax"]
    assert_same(traced(given), model(given, **options), 1e-6)

    def gradient(call):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(call(given)["pooled_output"] ** 2)
        return tape.gradient(loss, model.trainable_variables, unconnected_gradients="zero")

    for found, expected in zip(gradient(traced), gradient(lambda x: model(x, **options)), strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(found), tf.convert_to_tensor(expected), atol=1e-4)
    training = tf.function(lambda x: model(x, training=True, seed=SEED)).get_concrete_function(inputs)
    assert not [op for op in training.graph.get_operations() if op.type.endswith("PartitionedCall")]


def test_padding_changes_nothing(encoder, inputs):
    short = {key: value[1:, :4] for key, value in inputs.items()}  # the four tokens of the second row
    # What stands in the padding must not matter either.
    noise = {"input_word_ids": 9, "input_mask": 0, "input_type_ids": 1}
    longer = {
        key: tf.pad(value, [[0, 0], [0, 20]], constant_values=noise[key]) for key, value in short.items()
    }
    expected, padded = encoder(short), encoder(longer)
    np.testing.assert_allclose(padded["pooled_output"], expected["pooled_output"], atol=1e-6)
    for a, b in zip(padded["encoder_outputs"], expected["encoder_outputs"], strict=True):
        np.testing.assert_allclose(a[:, :4], b, atol=1e-6)


@pytest.mark.parametrize("training", [False, True])
def test_shared_layers_are_applied_as_often_as_asked(dropping, inputs, training):
    """As in a network of that depth with the same variables, what dropout drops included."""
    shallow = AlbertEncoder(DROPOUT.replace(num_hidden_layers=2))
    shallow.set_weights(dropping.get_weights())
    expected = shallow(inputs, training=training, seed=SEED)
    assert len(expected["encoder_outputs"]) == 2
    found = dropping(inputs, training=training, seed=SEED, num_hidden_layers=2)
    tf.nest.map_structure(np.testing.assert_array_equal, found, expected)


def copy_blocks(shared, unshared):
    """Gives an encoder that shares nothing the values that each of its layers has in the other."""
    values = {v.name: v for v in shared.variables}
    scopes = {}
    for own, step in zip(sharing_plan(unshared.config), sharing_plan(shared.config), strict=True):
        for part in ("attention_1/", "LayerNorm/"):
            scopes[f"{own.attention.scope()}/{part}"] = f"{step.attention.scope()}/{part}"
        for part in ("ffn_1/", "LayerNorm_1/"):
            scopes[f"{own.feed_forward.scope()}/{part}"] = f"{step.feed_forward.scope()}/{part}"
    for variable in unshared.variables:
        name = variable.name
        for own, other in scopes.items():
            if name.startswith(own):
                name = other + name.removeprefix(own)
                break
        variable.assign(values[name])


@pytest.mark.parametrize(
    "changes",
    [{"sharing": "ffn"}, {"num_hidden_groups": 2}, {"sharing": "attention", "inner_group_num": 2}],
    ids=str,
)
def test_shared_layers_compute_what_equal_unshared_ones_do(inputs, changes):
    shared = perturbed(AlbertEncoder(TINY.replace(**changes)))
    unshared = AlbertEncoder(TINY.replace(**{**changes, "sharing": "none", "num_hidden_groups": 1}))
    copy_blocks(shared, unshared)
    assert_same(unshared(inputs), shared(inputs), 1e-6)


def test_rates_and_seeds_of_all_dropouts(monkeypatch, inputs):
    calls = []

    def record(x, rate, seed):
        calls.append((rate, None if seed is None else tuple(seed.numpy())))
        return x

    for module in (embeddings_module, layer_module, blocks_module):
        monkeypatch.setattr(module, "dropout", record)
    AlbertEncoder(DROPOUT)(inputs, training=True, seed=SEED)
    assert [rate for rate, _ in calls] == [0.2] + [0.1, 0.2, 0.2] * L
    assert len({seed for _, seed in calls}) == 1 + 3 * L  # no two alike


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_the_seed_decides_and_without_one_each_call_draws_anew(inputs, mode):
    encoder = perturbed(AlbertEncoder(ONE_LAYER))

    def call(seed=None):
        return encoder(inputs, training=True, seed=seed)["sequence_output"]

    call = tf.function(call, jit_compile=True) if mode == "compiled" else call
    first = call(SEED)
    np.testing.assert_array_equal(first, call(SEED))
    assert np.abs(first - call(tf.constant([5, 7]))).max() > 0.1
    assert np.abs(call() - call()).max() > 0.1


def test_without_training_nothing_is_dropped(dropping, inputs):
    expected = AlbertEncoder(TINY)
    expected.set_weights(dropping.get_weights())
    assert_same(dropping(inputs), expected(inputs), 0)
    assert_same(dropping(inputs, training=False, seed=SEED), expected(inputs), 0)
    assert_same(expected(inputs, training=True), expected(inputs), 0)  # rates of 0


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_gradients_under_dropout_are_those_of_finite_differences(inputs, jit_compile):
    encoder = perturbed(AlbertEncoder(ONE_LAYER))
    rng = np.random.default_rng(8)
    target = tf.constant(rng.normal(size=(B, S, H)), tf.float32)
    variables = encoder.trainable_variables
    start = [v.numpy() for v in variables]

    @tf.function(jit_compile=jit_compile)
    def loss():
        outputs = encoder(inputs, training=True, seed=SEED)
        return tf.reduce_sum(outputs["sequence_output"] * target) + tf.reduce_sum(outputs["pooled_output"])

    with tf.GradientTape() as tape:
        value = loss()
    gradients = [tf.convert_to_tensor(g).numpy() for g in tape.gradient(value, variables)]
    for _ in range(2):
        direction = [rng.normal(size=v.shape).astype(np.float32) for v in variables]
        slope = sum(np.vdot(g.astype(float), d) for g, d in zip(gradients, direction, strict=True))
        values = []
        for step in (1e-3, -1e-3):
            for variable, at, d in zip(variables, start, direction, strict=True):
                variable.assign(at + step * d)
            values.append(float(loss()))
        assert slope == pytest.approx((values[0] - values[1]) / 2e-3, rel=0.01, abs=0.05)


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [("mixed_bfloat16", 0.1), ("mixed_float16", 0.012), ("bfloat16", 0.1), ("float64", 1e-5)],
)
def test_policies(encoder, inputs, name, tolerance):
    other = AlbertEncoder(TINY, dtype=name)
    other.set_weights(encoder.get_weights())
    compute_type = name.removeprefix("mixed_")
    with tf.GradientTape() as tape:
        outputs = other(inputs)
        loss = tf.reduce_sum(tf.cast(outputs["pooled_output"], tf.float32))
    assert {x.dtype.name for x in tf.nest.flatten(outputs)} == {compute_type}
    assert {v.dtype for v in other.variables} == {tf.float32}
    assert_same(tf.nest.map_structure(lambda x: tf.cast(x, tf.float32), outputs), encoder(inputs), tolerance)
    for gradient in tape.gradient(loss, other.variables):
        values = tf.convert_to_tensor(gradient)
        assert values.dtype == tf.float32 and np.isfinite(values).all()
    traced = tf.function(other.__call__).get_concrete_function(dict.fromkeys(KEYS, UNKNOWN))
    graph, types = traced.graph.as_graph_def(), {}
    for node in itertools.chain(graph.node, *(function.node_def for function in graph.library.function)):
        types.setdefault(node.op, set()).add(
            tf.as_dtype(node.attr["T"].type).name if node.attr["T"].type else ""
        )
    assert types["Softmax"] == types["Rsqrt"] == types["Square"] == {"float32"}
    assert types["MatMul"] == types["BatchMatMulV2"] == types["BiasAdd"] == {compute_type}


def ones(*shape, dtype=tf.int32):
    return tf.ones(shape, dtype)


@pytest.mark.parametrize(
    ("inputs", "named"),
    [
        ({"input_ids": ones(2, 3)}, "input_word_ids is missing.*input_ids"),
        (ones(2, 3, dtype=tf.float32), "input_word_ids has type float32"),
        ({"input_word_ids": ones(3)}, r"input_word_ids has shape \(3,\)"),
        ({"input_word_ids": ones(2, 3, dtype=tf.float32)}, "input_word_ids has type float32"),
        ({"input_word_ids": ones(2, 3), "input_type_ids": ones(2, 3, dtype=tf.float32)}, "type_ids.*float32"),
        ({"input_word_ids": ones(2, 3), "input_mask": ones(3, 2)}, r"input_mask has shape \(3, 2\)"),
        ({"input_word_ids": ones(2, 65)}, "65 is more than max_position_embeddings=64"),
    ],
    ids=str,
)
def test_wrong_inputs_of_known_shape(encoder, inputs, named):
    with pytest.raises(InputError, match=named):
        encoder(inputs)


def test_config_and_weights_round_trip(encoder, tmp_path):
    again = AlbertEncoder.from_config(
        perturbed(AlbertEncoder(DROPOUT, name="albert", dtype="mixed_bfloat16")).get_config()
    )
    assert again.config == DROPOUT and again.name == "albert"
    assert again.dtype_policy.name == again.embeddings.dtype_policy.name == "mixed_bfloat16"
    for file in ("weights.h5", "checkpoint"):
        encoder.save_weights(tmp_path / file)
        again = AlbertEncoder(TINY)
        again.load_weights(tmp_path / file)  # without a call
        np.testing.assert_equal(again.get_weights(), encoder.get_weights())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
def test_a_functional_model_is_trained_saved_and_loaded(inputs, tmp_path):
    """A user's classifier, fitted one step."""
    symbolic = {key: keras.Input([None], dtype=tf.int32, name=key) for key in KEYS[:2]}
    pooled = AlbertEncoder(ONE_LAYER, name="albert", dtype="mixed_bfloat16")(symbolic)["pooled_output"]
    model = keras.Model(symbolic, keras.layers.Dense(3, name="classifier", dtype="float32")(pooled))
    model.compile(keras.optimizers.Adam(1e-2), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    features = {key: inputs[key] for key in KEYS[:2]}
    before = [v.numpy() for v in model.trainable_variables]
    model.fit(features, tf.constant([0, 2]), epochs=1, verbose=0)
    assert len(before) == len(model.get_layer("albert").trainable_variables) + 2
    for variable, value in zip(model.trainable_variables, before, strict=True):
        assert np.any(variable != value), variable.name
    for file in ("model.keras", "model.h5"):
        model.save(tmp_path / file)
        again = keras.models.load_model(tmp_path / file)
        np.testing.assert_array_equal(again(features), model(features))
        albert = again.get_layer("albert")
        assert isinstance(albert, AlbertEncoder) and albert.config == ONE_LAYER
        assert albert.dtype_policy.name == "mixed_bfloat16"


# The sharing plan against tables made by hand.


def plan(**changes) -> list[tuple[int, int, int, int]]:
    """(attention's group, its inner group, feed-forward's group, its inner group) of each pair."""
    return [(*pair.attention, *pair.feed_forward) for pair in sharing_plan(AlbertConfig(**changes))]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"sharing": "all"}, [(0, 0, 0, 0)] * 3),
        ({"sharing": "attention"}, [(0, 0, 0, 0), (0, 0, 1, 0), (0, 0, 2, 0)]),
        ({"sharing": "ffn"}, [(0, 0, 0, 0), (1, 0, 0, 0), (2, 0, 0, 0)]),
        ({"sharing": "none", "num_hidden_groups": 2}, [(0, 0, 0, 0), (1, 0, 1, 0), (2, 0, 2, 0)]),
        ({"num_hidden_groups": 3}, [(0, 0, 0, 0), (1, 0, 1, 0), (2, 0, 2, 0)]),
        (
            {"inner_group_num": 2, "num_hidden_groups": 2},
            [(0, 0, 0, 0), (0, 1, 0, 1), (0, 0, 0, 0), (0, 1, 0, 1), (1, 0, 1, 0), (1, 1, 1, 1)],
        ),
        (
            {"inner_group_num": 2, "sharing": "attention"},
            [(0, 0, 0, 0), (0, 1, 0, 1), (0, 0, 1, 0), (0, 1, 1, 1), (0, 0, 2, 0), (0, 1, 2, 1)],
        ),
    ],
)
def test_three_layers(changes, expected):
    assert plan(num_hidden_layers=3, **changes) == expected


def test_groups_are_those_of_whole_numbers_where_floats_are_truncated():
    assert [pair[0] for pair in plan(num_hidden_layers=44, num_hidden_groups=22)] == [
        layer // 2 for layer in range(44)
    ]
    assert int(30 / 44 * 22) == 14  # Google's formula


@pytest.mark.parametrize(("changes", "layers"), [({}, 24), ({"num_hidden_groups": 3}, 4)])
def test_shared_layers_have_the_same_parameters_at_every_depth(changes, layers):
    config = AlbertConfig(**changes)
    assert with_num_layers(config, layers) == config.replace(num_hidden_layers=layers)
    assert with_num_layers(config, None) is config


@pytest.mark.parametrize(
    ("changes", "layers", "named"),
    [
        ({"sharing": "ffn"}, 24, "num_hidden_layers=24"),
        ({"sharing": "none"}, 11, "num_hidden_layers=11"),
        ({"num_hidden_groups": 3}, 2, "num_hidden_groups=3"),
        ({}, 0, "num_hidden_layers=0"),
    ],
)
def test_a_depth_with_other_parameters_is_refused(changes, layers, named):
    with pytest.raises(InputError, match=named):
        with_num_layers(AlbertConfig(**changes), layers)


def test_ragged_ids_are_to_be_packed():
    with pytest.raises(InputError, match=r"input_word_ids is ragged: albert_tf\.pack"):
        AlbertEncoder(TINY)({"input_word_ids": tf.ragged.constant([[2, 3], [2]])})
