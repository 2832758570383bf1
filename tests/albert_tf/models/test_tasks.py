"""AlbertPretrainer against google-research/albert's recorded outputs, losses and gradients."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import AlbertConfig, AlbertEncoder, AlbertPretrainer
from tests.tiny import TINY

CASES = ("shared", "groups", "inner", "unshared")
INPUTS = ("input_word_ids", "input_mask", "input_type_ids", "masked_lm_positions")
OUTPUTS = ("embedding_output", "sequence_output", "pooled_output", "mlm_logits", "sop_logits")
UNKNOWN = tf.TensorSpec([None, None], tf.int32)


def checkpoint_name(variable):
    """The name in google-research/albert's checkpoints."""
    name = variable.name.removesuffix(":0")
    return name if name.startswith("cls/") else f"bert/{name}"


@pytest.fixture(scope="module", params=CASES)
def case(request, golden):
    """The model with the recorded values, and the arrays recorded from it."""
    folder = golden / "tf1" / request.param
    model = AlbertPretrainer(AlbertConfig.from_dict(json.loads((folder / "albert_config.json").read_text())))
    reader = tf.train.load_checkpoint(str(folder / "model.ckpt-best"))
    slots = ("adam_m", "adam_v", "lamb_m", "lamb_v")
    recorded = {
        name: shape
        for name, shape in reader.get_variable_to_shape_map().items()
        if name != "global_step" and name.rpartition("/")[2] not in slots
    }
    assert {checkpoint_name(v): v.shape.as_list() for v in model.variables} == recorded
    for variable in model.variables:
        variable.assign(reader.get_tensor(checkpoint_name(variable)))
    with np.load(folder / "expected.npz") as arrays:
        return model, dict(arrays)


def losses(outputs, expected):
    """MLM and SOP losses as google-research/albert writes them, 1e-5 in the denominator included."""
    rows = tf.nn.log_softmax(outputs["mlm_logits"])
    chosen = tf.gather(rows, expected["masked_lm_ids"], batch_dims=2)
    weights = expected["masked_lm_weights"]
    mlm_loss = -tf.reduce_sum(weights * chosen) / (tf.reduce_sum(weights) + 1e-5)
    order = tf.gather(tf.nn.log_softmax(outputs["sop_logits"]), expected["sop_labels"], batch_dims=1)
    return mlm_loss, -tf.reduce_mean(order)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_outputs_of_google_research_albert(case, mode):
    model, expected = case

    def call(inputs):
        return model(inputs)

    if mode == "compiled":
        call = tf.function(call, input_signature=[dict.fromkeys(INPUTS, UNKNOWN)], jit_compile=True)
    outputs = call({key: tf.constant(expected[key]) for key in INPUTS})
    for name in OUTPUTS:
        np.testing.assert_allclose(outputs[name], expected[name], rtol=0, atol=1e-5, err_msg=name)
    np.testing.assert_allclose(outputs["encoder_outputs"], expected["encoder_outputs"], rtol=0, atol=1e-5)
    mlm_loss, sop_loss = losses(outputs, expected)
    np.testing.assert_allclose(mlm_loss, expected["mlm_loss"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(sop_loss, expected["sop_loss"], rtol=0, atol=1e-5)


def test_gradients_of_google_research_albert(case):
    model, expected = case
    variables = model.trainable_variables

    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.add_n(losses(model({key: tf.constant(expected[key]) for key in INPUTS}), expected))
        return [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]

    recorded = {
        key.removeprefix("grad:"): value for key, value in expected.items() if key.startswith("grad:")
    }
    compute = {"eager": gradients}
    if len(model.encoder.attention_blocks) == 1:  # once is enough: compiling takes seconds
        compute["compiled"] = tf.function(gradients, jit_compile=True)
    for mode, function in compute.items():
        actual = {checkpoint_name(v): g for v, g in zip(variables, function(), strict=True)}
        assert set(actual) == set(recorded)
        for name, gradient in actual.items():
            np.testing.assert_allclose(gradient, recorded[name], rtol=0, atol=1e-4, err_msg=f"{mode}: {name}")


@pytest.mark.parametrize("name", ["en_albert_base", "en_albert_large", "zh_albert_base"])
def test_names_and_shapes_of_published_checkpoints(shared, name):
    folder = shared / "golden/tf1_index" / name
    lines = (folder / "variables.txt").read_text().splitlines()
    rows = [line.split(" ", 1) for line in lines if line.startswith(("bert/", "cls/"))]
    with tf.Graph().as_default():
        model = AlbertPretrainer(AlbertConfig.from_json_file(folder / "albert_config.json"))
    assert {checkpoint_name(v): str(v.shape.as_list()) for v in model.variables} == dict(rows)


BATCH = {"input_word_ids": np.array([[2, 7, 8, 3]]), "masked_lm_positions": np.array([[1, 2]])}


@pytest.mark.parametrize(
    ("objective", "logits"), [("sop", {"sop_logits"}), ("nsp", {"nsp_logits"}), ("none", set())]
)
def test_sentence_objectives(objective, logits):
    model = AlbertPretrainer(TINY, sentence_objective=objective)
    outputs = model(BATCH)
    encoder_outputs = {"sequence_output", "pooled_output", "encoder_outputs", "embedding_output"}
    assert set(outputs) == encoder_outputs | {"mlm_logits"} | logits
    assert outputs["mlm_logits"].shape == (1, 2, 200)
    for name in logits:
        assert outputs[name].shape == (1, 2)
    has_head = any("cls/seq_relationship" in v.name for v in model.variables)
    assert has_head == bool(logits)


def test_without_positions_there_are_no_mlm_logits():
    outputs = AlbertPretrainer(TINY)({"input_word_ids": BATCH["input_word_ids"]})
    assert "mlm_logits" not in outputs and "sop_logits" in outputs


def test_an_unknown_objective_is_named():
    with pytest.raises(ValueError, match="sentence_objective='mlm' is none of sop, nsp, none"):
        AlbertPretrainer(TINY, sentence_objective="mlm")


def test_the_encoder_is_an_encoder():
    model = AlbertPretrainer(TINY)
    assert isinstance(model.encoder, AlbertEncoder)
    for a, b in zip(
        tf.nest.flatten(model.encoder(BATCH)),
        tf.nest.flatten({key: model(BATCH)[key] for key in model.encoder(BATCH)}),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_wrong_positions_are_named():
    with pytest.raises(ValueError, match=r"masked_lm_positions has shape \(3, 2\)"):
        AlbertPretrainer(TINY)({**BATCH, "masked_lm_positions": np.zeros([3, 2], np.int32)})


def test_the_mlm_head_is_tied_to_the_word_embeddings():
    model = AlbertPretrainer(TINY)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(BATCH)["mlm_logits"][..., 150])  # a piece that is not in the input
    gradient = tape.gradient(loss, model.encoder.embeddings.word_embeddings)
    assert np.any(tf.convert_to_tensor(gradient)[150])


def test_heads_have_no_dropout():
    config = TINY.replace(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
    drawn = []
    for model in (AlbertEncoder(config), AlbertPretrainer(config)):
        spec = {key: tf.TensorSpec([2, 4], tf.int32) for key in BATCH}
        traced = tf.function(model.__call__).get_concrete_function(
            spec, training=True, seed=tf.constant([1, 2])
        )
        kinds = [op.type for op in traced.graph.get_operations()]
        drawn.append(sum("Random" in kind for kind in kinds))
    assert drawn[0] == drawn[1] > 0


def test_the_seed_reaches_the_encoder():
    config = TINY.replace(hidden_dropout_prob=0.5)
    model = AlbertPretrainer(config)
    first, again, other = (
        model(BATCH, training=True, seed=tf.constant(seed))["mlm_logits"] for seed in ([1, 2], [1, 2], [2, 1])
    )
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


@pytest.mark.parametrize("name", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_ends_in_float32_logits(name):
    model = AlbertPretrainer(TINY, dtype=name)
    outputs = model(BATCH)
    assert outputs["sequence_output"].dtype == name.removeprefix("mixed_")
    assert outputs["mlm_logits"].dtype == outputs["sop_logits"].dtype == tf.float32
    plain = AlbertPretrainer(TINY)
    plain.set_weights(model.get_weights())
    np.testing.assert_allclose(outputs["mlm_logits"], plain(BATCH)["mlm_logits"], atol=0.01)


def test_config_round_trip():
    model = AlbertPretrainer(TINY, sentence_objective="nsp", name="pretrainer", dtype="mixed_float16")
    again = AlbertPretrainer.from_config(model.get_config())
    assert (again.config, again.sentence_objective, again.name) == (TINY, "nsp", "pretrainer")
    assert again.encoder.dtype_policy.name == "mixed_float16"
    assert [v.name for v in again.variables] == [v.name for v in model.variables]


def test_weights_are_saved_and_loaded_without_a_call(tmp_path):
    model, again = AlbertPretrainer(TINY), AlbertPretrainer(TINY)
    model.save_weights(tmp_path / "weights.h5")
    again.load_weights(tmp_path / "weights.h5")
    np.testing.assert_array_equal(again(BATCH)["mlm_logits"], model(BATCH)["mlm_logits"])
