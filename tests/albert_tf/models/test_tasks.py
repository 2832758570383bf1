"""AlbertPretrainer against google-research/albert's recorded outputs, losses and gradients."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import AlbertConfig, AlbertPretrainer
from albert_tf.errors import InputError
from tests.albert_tf.models.oracles import check_gradients, checkpoint_name
from tests.tiny import TINY

CASES = ("shared", "groups", "inner", "unshared")
INPUTS = ("input_word_ids", "input_mask", "input_type_ids", "masked_lm_positions")
OUTPUTS = ("embedding_output", "sequence_output", "pooled_output", "mlm_logits", "sop_logits")
UNKNOWN = tf.TensorSpec([None, None], tf.int32)


def recorded_model(folder):
    """The model with the recorded values, and the arrays recorded from it."""
    model = AlbertPretrainer(AlbertConfig.from_dict(json.loads((folder / "albert_config.json").read_text())))
    reader = tf.train.load_checkpoint(str(folder / "model.ckpt-best"))
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


def check_outputs(outputs, expected):
    for name in OUTPUTS:
        np.testing.assert_allclose(outputs[name], expected[name], rtol=0, atol=1e-5, err_msg=name)
    np.testing.assert_allclose(outputs["encoder_outputs"], expected["encoder_outputs"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_outputs_losses_and_gradients_of_google_research_albert(golden, name):
    model, expected = recorded_model(golden / "tf1" / name)
    with tf.GradientTape() as tape:
        outputs = model({key: tf.constant(expected[key]) for key in INPUTS})
        mlm_loss, sop_loss = losses(outputs, expected)
        loss = mlm_loss + sop_loss
    check_outputs(outputs, expected)
    np.testing.assert_allclose(mlm_loss, expected["mlm_loss"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(sop_loss, expected["sop_loss"], rtol=0, atol=1e-5)
    gradients = tape.gradient(loss, model.trainable_variables)
    check_gradients(map(checkpoint_name, model.trainable_variables), gradients, expected)


def test_outputs_compiled_with_unknown_shapes(golden):
    model, expected = recorded_model(golden / "tf1" / "shared")
    call = tf.function(
        lambda inputs: model(inputs), input_signature=[dict.fromkeys(INPUTS, UNKNOWN)], jit_compile=True
    )
    check_outputs(call({key: tf.constant(expected[key]) for key in INPUTS}), expected)


BATCH = {"input_word_ids": np.array([[2, 7, 8, 3]]), "masked_lm_positions": np.array([[1, 2]])}


@pytest.mark.parametrize(
    ("objective", "logits"), [("sop", {"sop_logits"}), ("nsp", {"nsp_logits"}), ("none", set())]
)
def test_sentence_objectives(objective, logits):
    model = AlbertPretrainer(TINY, sentence_objective=objective)
    outputs = model(BATCH)
    encoder_outputs = model.encoder(BATCH)
    assert set(outputs) == encoder_outputs.keys() | {"mlm_logits"} | logits
    np.testing.assert_array_equal(outputs["pooled_output"], encoder_outputs["pooled_output"])
    assert outputs["mlm_logits"].shape == (1, 2, 200)
    assert all(outputs[name].shape == (1, 2) for name in logits)
    assert any("cls/seq_relationship" in v.name for v in model.variables) == bool(logits)
    assert "mlm_logits" not in model({"input_word_ids": BATCH["input_word_ids"]})


def test_bad_input():
    with pytest.raises(InputError, match="sentence_objective='mlm'"):
        AlbertPretrainer(TINY, sentence_objective="mlm")
    with pytest.raises(InputError, match=r"masked_lm_positions has shape \(3, 2\)"):
        AlbertPretrainer(TINY)({**BATCH, "masked_lm_positions": np.zeros([3, 2], np.int32)})


def test_heads_have_no_dropout_and_the_seed_reaches_the_encoder():
    config = TINY.replace(hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.1)
    model = AlbertPretrainer(config)
    first, again, other = (
        model(BATCH, training=True, seed=tf.constant(seed)) for seed in ([1, 2], [1, 2], [2, 1])
    )
    np.testing.assert_array_equal(first["mlm_logits"], again["mlm_logits"])
    assert np.any(first["mlm_logits"] != other["mlm_logits"])
    of_encoder = model.encoder(BATCH, training=True, seed=tf.constant([1, 2]))
    np.testing.assert_array_equal(first["pooled_output"], of_encoder["pooled_output"])
    np.testing.assert_array_equal(first["sop_logits"], model.sentence(of_encoder["pooled_output"]))
