"""AlbertEncoder in every mode, precision and sharing; recorded numbers are compared in test_tasks."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf import AlbertConfig, AlbertEncoder
from albert_tf.models import blocks as blocks_module
from albert_tf.models import embeddings as embeddings_module
from albert_tf.models import layer as layer_module
from albert_tf.models.sharing import sharing_plan
from tests.tiny import TINY

B, S, E, H, N, L = 2, 7, 16, 32, 4, 3
DROPOUT = TINY.replace(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.1)
ONE_LAYER = DROPOUT.replace(num_hidden_layers=1)  # quick to compile
SEED = tf.constant([5, 6])
UNKNOWN = tf.TensorSpec([None, None], tf.int32)
KEYS = ("input_word_ids", "input_mask", "input_type_ids")


def perturbed(config, scale=0.1, **kwargs):
    """An encoder that uses every variable: no bias is zero and no gain one."""
    encoder = AlbertEncoder(config, **kwargs)
    rng = np.random.default_rng(3)
    for variable in encoder.variables:
        variable.assign_add(rng.normal(0, scale, variable.shape))
    return encoder


@pytest.fixture(scope="module")
def encoder():
    return perturbed(TINY)


@pytest.fixture(scope="module")
def dropping():
    return perturbed(DROPOUT)


@pytest.fixture(scope="module")
def inputs():
    ids = np.random.default_rng(4).integers(5, TINY.vocab_size, (B, S)).astype(np.int32)
    mask = np.array([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]], np.int32)
    types = np.array([[0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 0, 0]], np.int32)
    return {key: tf.constant(value) for key, value in zip(KEYS, (ids, mask, types), strict=True)}


def assert_same(actual, expected, tolerance=1e-5):
    tf.nest.map_structure(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=tolerance), actual, dict(expected)
    )


def operations(function):
    """All operations of a traced function and of the functions that it calls."""
    definition = function.graph.as_graph_def()
    return [
        *definition.node,
        *(node for called in definition.library.function for node in called.node_def),
    ]


@contextlib.contextmanager
def policy(name):
    keras.mixed_precision.set_global_policy(name)
    try:
        yield
    finally:
        keras.mixed_precision.set_global_policy("float32")


# What it returns.


@pytest.mark.parametrize("inner", [1, 2])
def test_outputs(inputs, inner):
    encoder = perturbed(TINY.replace(inner_group_num=inner))
    outputs = encoder(inputs)
    assert set(outputs) == {"sequence_output", "pooled_output", "encoder_outputs", "embedding_output"}
    assert outputs["sequence_output"].shape == (B, S, H)
    assert outputs["embedding_output"].shape == (B, S, E)
    assert [x.shape.as_list() for x in outputs["encoder_outputs"]] == [[B, S, H]] * (L * inner)
    np.testing.assert_array_equal(outputs["sequence_output"], outputs["encoder_outputs"][-1])
    kernel, bias = encoder.pooler.kernel, encoder.pooler.bias
    pooled = tf.tanh(tf.matmul(outputs["sequence_output"][:, 0], kernel) + bias)
    np.testing.assert_allclose(outputs["pooled_output"], pooled, atol=1e-6)


def test_mask_and_types_may_be_left_out(encoder, inputs):
    ids = {"input_word_ids": inputs["input_word_ids"]}
    full = {**ids, "input_mask": tf.ones([B, S], tf.int32), "input_type_ids": tf.zeros([B, S], tf.int32)}
    assert_same(encoder(ids), encoder(full), 0)
    only_mask = {**ids, "input_mask": inputs["input_mask"]}
    assert_same(encoder(only_mask), encoder({**full, **only_mask}), 0)


def test_integer_types_and_other_keys_do_not_matter(encoder, inputs):
    wide = {key: tf.cast(value, tf.int64) for key, value in inputs.items()}
    assert_same(encoder({**wide, "label": tf.constant("a")}), encoder(inputs), 0)
    mask = {**inputs, "input_mask": tf.cast(inputs["input_mask"], tf.bool)}
    assert_same(encoder(mask), encoder(inputs), 0)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_eager_traced_and_compiled_with_unknown_shapes(encoder, inputs, jit_compile):
    @tf.function(input_signature=[dict.fromkeys(KEYS, UNKNOWN)], jit_compile=jit_compile)
    def call(tensors):
        outputs = encoder(tensors)
        assert outputs["sequence_output"].shape.as_list() == [None, None, H]
        assert outputs["pooled_output"].shape.as_list() == [None, H]
        return outputs

    assert_same(call(inputs), encoder(inputs))
    one = {key: value[:1, :4] for key, value in inputs.items()}
    assert_same(call(one), encoder(one))


def test_known_shapes_stay_known(encoder):
    spec = {key: tf.TensorSpec([None, S], tf.int32) for key in KEYS}
    traced = tf.function(encoder.__call__).get_concrete_function(spec)
    shapes = tf.nest.map_structure(lambda x: x.shape.as_list(), traced.structured_outputs)
    assert shapes["sequence_output"] == [None, S, H] and shapes["embedding_output"] == [None, S, E]
    assert shapes["encoder_outputs"] == [[None, S, H]] * L


def test_a_batch_of_no_rows(encoder, inputs):
    outputs = encoder({key: value[:0] for key, value in inputs.items()})
    assert outputs["sequence_output"].shape == (0, S, H) and outputs["pooled_output"].shape == (0, H)


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
    rows = encoder(inputs)["sequence_output"]
    np.testing.assert_allclose(rows[1:, :4], expected["sequence_output"], atol=1e-6)


def test_the_inference_graph_has_no_asserts_and_no_randomness(dropping):
    traced = tf.function(dropping.__call__).get_concrete_function(
        dict.fromkeys(KEYS, UNKNOWN), training=False
    )
    kinds = {node.op for node in operations(traced)}
    assert "Softmax" in kinds
    assert not [kind for kind in kinds if "Assert" in kind or "Random" in kind or kind.endswith("PyFunc")]


# Sharing.


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
    [
        {},
        {"sharing": "attention"},
        {"sharing": "ffn"},
        {"num_hidden_groups": 2},
        {"inner_group_num": 2},
        {"sharing": "attention", "inner_group_num": 2},
    ],
    ids=str,
)
def test_shared_layers_compute_what_equal_unshared_ones_do(inputs, changes):
    shared = perturbed(TINY.replace(**changes))
    unshared = AlbertEncoder(TINY.replace(**{**changes, "sharing": "none", "num_hidden_groups": 1}))
    copy_blocks(shared, unshared)
    assert_same(unshared(inputs), shared(inputs), 1e-6)


@pytest.mark.parametrize("sharing", ["all", "attention", "ffn", "none"])
@pytest.mark.parametrize("inner", [1, 2])
def test_every_variable_has_a_gradient(inputs, sharing, inner):
    encoder = perturbed(TINY.replace(sharing=sharing, inner_group_num=inner, num_hidden_layers=2))
    with tf.GradientTape() as tape:
        outputs = encoder(inputs)
        loss = tf.reduce_sum(outputs["pooled_output"]) + tf.reduce_sum(outputs["sequence_output"] ** 3)
    for variable, gradient in zip(
        encoder.trainable_variables, tape.gradient(loss, encoder.trainable_variables), strict=True
    ):
        assert gradient is not None, variable.name
        values = tf.convert_to_tensor(gradient)
        assert np.isfinite(values).all() and np.any(values), variable.name
    assert len(encoder.trainable_variables) == len(encoder.variables)


def test_projection():
    same = TINY.replace(embedding_size=H)
    names = {
        project: {v.name for v in AlbertEncoder(same.replace(project_embeddings=project)).variables}
        for project in (None, True)
    }
    assert {name.partition("mapping_in/")[2] for name in names[True] - names[None]} == {"kernel:0", "bias:0"}


def test_names_are_googles(shared):
    lines = (shared / "golden/tf1_index/en_albert_base/variables.txt").read_text().splitlines()
    rows = [line.split(" ", 1) for line in lines if line.startswith("bert/")]
    expected = {name.removeprefix("bert/"): shape for name, shape in rows}
    with tf.Graph().as_default():
        built = AlbertEncoder(AlbertConfig()).variables
    assert {v.name.removesuffix(":0"): str(v.shape.as_list()) for v in built} == expected


# Dropout.


def dropout_shapes(config, training=True):
    """Shapes of what is drawn at random in a traced call, dropout by dropout."""
    spec = {key: tf.TensorSpec([B, S], tf.int32) for key in KEYS}
    encoder = AlbertEncoder(config)
    traced = tf.function(encoder.__call__).get_concrete_function(spec, training=training, seed=SEED)
    return sorted(
        op.outputs[0].shape.as_list()
        for op in traced.graph.get_operations()
        if op.type.startswith("StatelessRandomUniform") and op.outputs[0].dtype == tf.float32
    )


@pytest.mark.parametrize(("sharing", "layers", "inner"), [("all", 3, 1), ("all", 1, 2), ("none", 2, 1)])
def test_where_dropout_is(sharing, layers, inner):
    config = DROPOUT.replace(sharing=sharing, num_hidden_layers=layers, inner_group_num=inner)
    blocks = layers * inner
    embeddings, outputs, probabilities = [B, S, E], [B * S, H], [B, N, S, S]
    everywhere = sorted([embeddings] + [outputs] * 2 * blocks + [probabilities] * blocks)
    assert dropout_shapes(config) == everywhere


def test_where_dropout_is_not():
    assert dropout_shapes(TINY) == []
    assert dropout_shapes(ONE_LAYER, training=False) == []
    assert dropout_shapes(ONE_LAYER.replace(hidden_dropout_prob=0)) == [[B, N, S, S]]
    hidden = dropout_shapes(ONE_LAYER.replace(attention_probs_dropout_prob=0))
    assert hidden == sorted([[B, S, E]] + [[B * S, H]] * 2)


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


@pytest.mark.parametrize("traced", [False, True])
def test_the_seed_decides(dropping, inputs, traced):
    def call(seed):
        return dropping(inputs, training=True, seed=seed)["sequence_output"]

    call = tf.function(call) if traced else call
    first = call(SEED)
    np.testing.assert_array_equal(first, call(SEED))
    assert np.abs(first - call(tf.constant([5, 7]))).max() > 0.1


@pytest.mark.parametrize("mode", ["eager", "traced", "compiled"])
def test_without_a_seed_each_call_draws_anew(inputs, mode):
    encoder = AlbertEncoder(ONE_LAYER)

    def call(tensors):
        return encoder(tensors, training=True)["sequence_output"]

    if mode != "eager":
        call = tf.function(call, jit_compile=mode == "compiled")
    assert np.abs(call(inputs) - call(inputs)).max() > 0.1


def test_without_training_nothing_is_dropped(dropping, inputs):
    expected = AlbertEncoder(TINY)
    expected.set_weights(dropping.get_weights())
    assert_same(dropping(inputs), expected(inputs), 0)
    assert_same(dropping(inputs, training=False, seed=SEED), expected(inputs), 0)
    assert_same(expected(inputs, training=True), expected(inputs), 0)  # rates of 0


@pytest.mark.parametrize("jit_compile", [False, True])
def test_gradients_under_dropout_are_those_of_finite_differences(inputs, jit_compile):
    encoder = perturbed(ONE_LAYER)
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
    for variable, at in zip(variables, start, strict=True):
        variable.assign(at)


# Precision.


@pytest.mark.parametrize(("name", "tolerance"), [("mixed_bfloat16", 0.1), ("mixed_float16", 0.012)])
@pytest.mark.parametrize("how", ["global policy", "argument"])
def test_mixed_precision(encoder, inputs, name, tolerance, how):
    with policy(name if how == "global policy" else "float32"):
        mixed = AlbertEncoder(TINY, **({"dtype": name} if how == "argument" else {}))
    mixed.set_weights(encoder.get_weights())
    outputs = mixed(inputs)
    assert {x.dtype.name for x in tf.nest.flatten(outputs)} == {name.removeprefix("mixed_")}
    assert {v.dtype for v in mixed.variables} == {tf.float32}
    assert_same(tf.nest.map_structure(lambda x: tf.cast(x, tf.float32), outputs), encoder(inputs), tolerance)
    spec = dict.fromkeys(KEYS, UNKNOWN)
    traced = tf.function(mixed.__call__).get_concrete_function(spec, training=True, seed=SEED)
    types = {}
    for op in traced.graph.get_operations():
        if op.outputs:
            types.setdefault(op.type, set()).add(op.outputs[0].dtype.name)
    assert types["Softmax"] == types["Rsqrt"] == types["Square"] == {"float32"}
    assert types["MatMul"] == types["BatchMatMulV2"] == types["BiasAdd"] == {name.removeprefix("mixed_")}


@pytest.mark.parametrize("name", ["bfloat16", "float64"])
def test_plain_policies(encoder, inputs, name):
    plain = AlbertEncoder(TINY, dtype=name)
    plain.set_weights(encoder.get_weights())
    outputs = plain(inputs)
    assert {v.dtype for v in plain.variables} == {tf.float32}
    assert outputs["sequence_output"].dtype == name
    tolerance = {"bfloat16": 0.1, "float64": 1e-5}[name]
    assert_same(tf.nest.map_structure(lambda x: tf.cast(x, tf.float32), outputs), encoder(inputs), tolerance)


@pytest.mark.parametrize("name", ["mixed_bfloat16", "mixed_float16"])
def test_gradients_of_mixed_precision_are_float32_and_finite(dropping, inputs, name):
    mixed = AlbertEncoder(DROPOUT, dtype=name)
    mixed.set_weights(dropping.get_weights())
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.cast(mixed(inputs, training=True)["pooled_output"], tf.float32))
    for gradient in tape.gradient(loss, mixed.trainable_variables):
        values = tf.convert_to_tensor(gradient)
        assert values.dtype == tf.float32 and np.isfinite(values).all()


# Bad input.


def ones(*shape, dtype=tf.int32):
    return tf.ones(shape, dtype)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input_word_ids is missing from the inputs: none given"),
        ({"input_ids": ones(2, 3)}, "input_word_ids is missing from the inputs: input_ids"),
        ([ones(2, 3)], "inputs must be a dict of input_word_ids, input_mask, input_type_ids, not "),
        ({"input_word_ids": ones(3)}, r"input_word_ids has shape \(3,\): it must be \[batch, sequence\]"),
        ({"input_word_ids": ones(2, 3, 4)}, r"input_word_ids has shape \(2, 3, 4\)"),
        (
            {"input_word_ids": ones(2, 3, dtype=tf.float32)},
            "input_word_ids has type float32: token ids are integers",
        ),
        (
            {"input_word_ids": ones(2, 3), "input_type_ids": ones(2, 3, dtype=tf.float32)},
            "input_type_ids has type float32",
        ),
        (
            {"input_word_ids": ones(2, 3), "input_mask": ones(3, 2)},
            r"input_mask has shape \(3, 2\), but input_word_ids has \(2, 3\)",
        ),
        (
            {"input_word_ids": ones(2, 3), "input_type_ids": ones(2, 1)},
            r"input_type_ids has shape \(2, 1\), but input_word_ids has \(2, 3\)",
        ),
        (
            {"input_word_ids": ones(2, 65)},
            "the sequence length 65 is more than max_position_embeddings=64",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_wrong_inputs_of_known_shape(encoder, inputs, message):
    with pytest.raises(ValueError, match=message):
        encoder(inputs)


@pytest.fixture(scope="module", params=[False, True], ids=["traced", "compiled"])
def unknown(request, encoder):
    """The encoder for shapes that are known only when it runs."""

    @tf.function(input_signature=[UNKNOWN] * 3, jit_compile=request.param)
    def call(word_ids, mask, type_ids):
        inputs = dict(zip(KEYS, (word_ids, mask, type_ids), strict=True))
        return encoder(inputs)["sequence_output"]

    return call


@pytest.mark.parametrize(
    "shapes",
    [
        ((4, 6), (6, 4), (4, 6)),
        ((4, 6), (4, 6), (6, 4)),
        ((4, 6), (1, 6), (4, 6)),
        ((4, 6), (4, 6), (1, 6)),
        ((4, 6), (4, 6), (4, 1)),
        ((4, 6), (4, 7), (4, 6)),
    ],
    ids=str,
)
def test_shapes_that_disagree_when_it_runs(unknown, shapes):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Shapes of all inputs must match"):
        unknown(*(ones(*shape) for shape in shapes))


def test_a_sequence_too_long_when_it_runs(unknown):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[0, 64\], but got 65") as caught:
        unknown(*[ones(1, 65)] * 3)
    assert "max_position_embeddings_is_64" in caught.value.message
    assert unknown(*[ones(1, 64)] * 3).shape == (1, 64, H)


@pytest.mark.parametrize("name", ["input_word_ids", "input_type_ids"])
@pytest.mark.parametrize("value", [-1, 200])
@pytest.mark.parametrize("traced", [False, True])
def test_ids_outside_the_tables(encoder, inputs, name, value, traced):
    call = tf.function(encoder.__call__) if traced else encoder
    wrong = {**inputs, name: tf.tensor_scatter_nd_update(inputs[name], [[1, 2]], [value])}
    with tf.device("CPU"), pytest.raises(tf.errors.InvalidArgumentError, match=rf"{value} is not in \[0, "):
        call(wrong)


# Keras.


@pytest.mark.parametrize("name", ["float32", "mixed_bfloat16"])
def test_config_round_trip(name):
    encoder = AlbertEncoder(DROPOUT, name="albert", dtype=name)
    again = AlbertEncoder.from_config(encoder.get_config())
    assert again.config == DROPOUT and again.name == "albert"
    assert again.dtype_policy.name == again.embeddings.dtype_policy.name == name
    assert [v.shape for v in again.variables] == [v.shape for v in encoder.variables]


@pytest.mark.parametrize("file", ["weights.h5", "new.weights.h5", "checkpoint"])
def test_weights_are_saved_and_loaded_without_a_call(encoder, tmp_path, file):
    encoder.save_weights(tmp_path / file)
    again = AlbertEncoder(TINY)
    again.load_weights(tmp_path / file)
    for a, b in zip(again.variables, encoder.variables, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def functional():
    """A user's classifier, fitted one step."""
    symbolic = {key: keras.Input([None], dtype=tf.int32, name=key) for key in KEYS[:2]}
    pooled = AlbertEncoder(ONE_LAYER, name="albert", dtype="mixed_bfloat16")(symbolic)["pooled_output"]
    logits = keras.layers.Dense(3, name="classifier", dtype="float32")(pooled)
    model = keras.Model(symbolic, logits)
    model.compile(keras.optimizers.Adam(1e-2), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def test_functional_model_trains(functional, inputs):
    features = {key: inputs[key] for key in KEYS[:2]}
    before = [v.numpy() for v in functional.trainable_variables]
    unused = "position_embeddings"  # rows behind the sequence alone
    functional.fit(features, tf.constant([0, 2]), epochs=1, verbose=0)
    for variable, value in zip(functional.trainable_variables, before, strict=True):
        assert unused in variable.name or np.any(variable != value), variable.name
    assert len(before) == len(functional.get_layer("albert").trainable_variables) + 2


@pytest.mark.parametrize("file", ["saved_model", "model.keras", "model.h5"])
@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
def test_functional_model_is_saved_and_loaded(functional, inputs, tmp_path, file):
    features = {key: inputs[key] for key in KEYS[:2]}
    functional.save(tmp_path / file)
    again = keras.models.load_model(tmp_path / file)
    np.testing.assert_array_equal(again(features), functional(features))
    albert = again.get_layer("albert")
    assert isinstance(albert, AlbertEncoder) and albert.config == ONE_LAYER
    assert albert.dtype_policy.name == "mixed_bfloat16"
    longer = {key: tf.repeat(value, 3, axis=1) for key, value in features.items()}
    assert again(longer).shape == (B, 3)


def test_trainable_false_freezes(inputs):
    encoder = AlbertEncoder(TINY)
    encoder.trainable = False
    assert encoder.trainable_variables == [] and len(encoder.non_trainable_variables) == len(
        encoder.variables
    )


@pytest.mark.parametrize("training", [False, True])
def test_shared_layers_are_applied_as_often_as_asked(dropping, inputs, training):
    """As in a network of that depth with the same variables, what dropout drops included."""
    shallow = AlbertEncoder(DROPOUT.replace(num_hidden_layers=2))
    shallow.set_weights(dropping.get_weights())
    expected = shallow(inputs, training=training, seed=SEED)
    assert len(expected["encoder_outputs"]) == 2
    found = dropping(inputs, training=training, seed=SEED, num_hidden_layers=2)
    tf.nest.map_structure(np.testing.assert_array_equal, found, expected)
    with pytest.raises(ValueError, match="num_hidden_layers=0 must be at least 1"):
        dropping(inputs, num_hidden_layers=0)
