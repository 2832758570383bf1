import getpass
import platform

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub

import albert_tf
from hub_export.export import cast_model, export
from hub_export.modules import encoder_module
from tests.tiny import TINY

# A softmax does not change when its scores all change by the same: the keys' bias has gradient 0.
NO_GRADIENT = "key/bias"


def assert_close(actual, expected, tolerance=1e-5):
    tf.nest.assert_same_structure(actual, expected)
    for a, b in zip(tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True):
        assert a.dtype == tf.float32
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


@pytest.fixture(scope="module")
def expected(model, inputs):
    """The outputs of the model in memory, without the one that a module does not have."""
    outputs = model(inputs, training=False)
    del outputs["embedding_output"]
    return {"default": outputs["pooled_output"], **outputs}


def without(outputs, *names):
    return {name: value for name, value in outputs.items() if name not in names}


def test_encoder_2_outputs_equal_the_model_in_memory(encoder, tensors, expected):
    outputs = {**encoder(tensors)}
    outputs["encoder_outputs"] = list(outputs["encoder_outputs"])
    assert_close(outputs, without(expected, "mlm_logits", "sop_logits"))
    np.testing.assert_array_equal(outputs["encoder_outputs"][-1], outputs["sequence_output"])


def test_encoder_3_and_4_heads_are_modules_beside_it(encoder, inputs, tensors, expected):
    assert_close({**encoder.mlm(inputs)}, without(expected, "sop_logits"))
    assert_close({**encoder.sop(tensors)}, without(expected, "mlm_logits"))


def test_encoder_1_any_length_up_to_the_longest(encoder, model, tensors):
    longest = model.config.max_position_embeddings
    for length in (1, longest):
        rows = {name: tf.tile(tensor[:, :1], [1, length]) for name, tensor in tensors.items()}
        assert_close(encoder(rows)["pooled_output"], model.encoder(rows)["pooled_output"])
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"(?s)max_position_embeddings_is_{longest}"):
        encoder({name: tf.tile(tensor[:, :1], [1, longest + 1]) for name, tensor in tensors.items()})


def test_encoder_6_in_keras_layer_all_weights_in_order_and_their_gradients(
    exported, model, tensors, expected
):
    layer = hub.KerasLayer(str(exported.encoder), trainable=True)
    names = [weight.name for weight in model.encoder.trainable_weights]
    assert [weight.name for weight in layer.trainable_weights] == names
    for ours, theirs in zip(layer.trainable_weights, model.encoder.trainable_weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert_close(layer(tensors)["default"], expected["default"])
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_sum(layer(tensors, training=False)["pooled_output"] ** 2)
    with tf.GradientTape() as reference:
        target = tf.reduce_sum(model.encoder(tensors, training=False)["pooled_output"] ** 2)
    gradients = tape.gradient(loss, layer.trainable_weights)
    expected_gradients = reference.gradient(target, model.encoder.trainable_weights)
    for name, gradient, theirs in zip(names, gradients, expected_gradients, strict=True):
        gradient, theirs = tf.convert_to_tensor(gradient), tf.convert_to_tensor(theirs)
        np.testing.assert_allclose(gradient, theirs, rtol=1e-4, atol=1e-4, err_msg=name)
        assert np.abs(gradient).max() > 1e-3 or NO_GRADIENT in name


def test_encoder_3_and_4_gradients_reach_the_heads(encoder, inputs, tensors):
    # Masked words do not depend on the pooled output, sentence order depends on everything.
    unused = {"mlm": ["pooler/dense/kernel:0", "pooler/dense/bias:0"], "sop": []}
    for head, logits, fed in ((encoder.mlm, "mlm_logits", inputs), (encoder.sop, "sop_logits", tensors)):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(head(fed)[logits] ** 2)
        variables = head.trainable_variables
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        zero = [
            v.name for v, g in zip(variables, gradients, strict=True) if not np.any(tf.convert_to_tensor(g))
        ]
        assert zero == unused[logits.removesuffix("_logits")]


def test_encoder_3_variables_of_the_module_and_of_its_heads(encoder, model):
    def names(variables):
        return [variable.name.removesuffix(":0") for variable in variables]

    body = names(model.encoder.weights)
    mlm, sop = names(model.mlm.weights), names(model.sentence.weights)
    assert {name.partition("/")[0] for name in body} == {"embeddings", "encoder", "pooler"}
    for module, expected_names in ((encoder, body), (encoder.mlm, body + mlm), (encoder.sop, body + sop)):
        assert names(module.variables) == names(module.trainable_variables) == expected_names
        assert list(module.regularization_losses) == []
    assert encoder.variables[0] is encoder.mlm.variables[0]


def test_encoder_6_dropout_is_live_in_training_only(exported, encoder, inputs, tensors):
    layer = hub.KerasLayer(str(exported.encoder), trainable=True)
    calls = [layer, encoder.mlm, encoder.sop]
    for call, name in zip(calls, ("pooled_output", "mlm_logits", "sop_logits"), strict=True):
        for training, least, most in ((True, 1e-3, np.inf), (False, 0, 1e-6)):
            fed = inputs if call is encoder.mlm else tensors
            first, *others = (call(fed, training=training)[name] for _ in range(3))
            differences = [np.abs(other - first).max() for other in others]
            assert least <= min(differences) <= max(differences) <= most
    frozen = hub.KerasLayer(str(exported.encoder), trainable=False)
    first, second = (frozen(tensors, training=True)["pooled_output"] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert len(frozen.non_trainable_weights) == len(layer.trainable_weights)


def test_encoder_5_vocabulary_travels_as_an_asset(encoder, exported, run):
    path = encoder.sp_model_file.asset_path.numpy().decode()
    assert path == str(exported.encoder / "assets/spiece.model")
    assert tf.io.read_file(path) == (run / "spiece.model").read_bytes()


def test_the_signature_answers_as_the_call_does(encoder, tensors, expected):
    assert list(encoder.signatures) == ["serving_default"]
    signature = encoder.signatures["serving_default"]
    _, specs = signature.structured_input_signature
    assert {name: (spec.shape.as_list(), spec.dtype) for name, spec in specs.items()} == {
        name: ([None, None], tf.int32) for name in tensors
    }
    outputs = signature(**tensors)
    assert_close({**outputs}, {name: expected[name] for name in ("pooled_output", "sequence_output")})


def test_encoder_4_a_head_that_the_run_lacks_is_absent(model, tensors, inputs):
    bare = encoder_module(model.encoder)
    assert not hasattr(bare, "mlm")
    assert not hasattr(bare, "sop")
    assert not hasattr(bare, "sp_model_file")
    config = model.config.replace(num_hidden_layers=1)
    nothing = encoder_module(albert_tf.AlbertPretrainer(config, sentence_objective="none"))
    assert hasattr(nothing, "mlm")
    assert not hasattr(nothing, "sop")
    next_sentence = encoder_module(albert_tf.AlbertPretrainer(config, sentence_objective="nsp"))
    assert not hasattr(next_sentence, "sop")
    assert next_sentence.nsp(tensors)["nsp_logits"].shape == [3, 2]


@pytest.mark.parametrize(
    "shape",
    [{"sharing": "none"}, {"num_hidden_groups": 2, "inner_group_num": 2, "embedding_size": 32}],
    ids=str,
)
def test_every_sharing_is_exported(shape, tensors, tmp_path):
    encoder = albert_tf.AlbertEncoder(TINY.replace(num_hidden_layers=2, **shape))
    module = encoder_module(encoder)
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    assert [v.name for v in loaded.variables] == [v.name for v in encoder.weights]
    expected = encoder(tensors)
    outputs = loaded(tensors)
    for name in ("pooled_output", "sequence_output", "encoder_outputs"):
        assert_close(tf.nest.flatten(outputs[name]), tf.nest.flatten(expected[name]))


def test_encoder_7_nothing_of_this_machine_is_written(exported, tmp_path_factory):
    saved = (exported.encoder / "saved_model.pb").read_bytes()
    for trace in (tmp_path_factory.getbasetemp(), platform.node() + ".", getpass.getuser() + "@", __file__):
        assert str(trace).encode() not in saved
    for folder in (b"/home/", b"/root/", b"/tmp/", b"/usr/", b"site-packages"):
        assert folder not in saved


#


@pytest.mark.slow
def test_a_module_in_bfloat16_halves_the_variables_and_agrees(run, model, inputs, exported, tmp_path):
    narrow = cast_model(model, "bfloat16")
    for ours, theirs in zip(narrow.trainable_weights, model.trainable_weights, strict=True):
        assert (ours.dtype, ours.name) == (tf.bfloat16, theirs.name)
        np.testing.assert_array_equal(ours.numpy(), tf.cast(theirs, tf.bfloat16).numpy())
    (folder,) = export(run, tmp_path, encoder_only=True, dtype="bfloat16")
    size, wide = (
        sum(path.stat().st_size for path in (encoder / "variables").glob("*.data-*"))
        for encoder in (folder, exported.encoder)
    )
    assert 0.49 < size / wide < 0.55  # the names of the variables are as long as before
    loaded = tf.saved_model.load(str(folder))
    assert {variable.dtype for variable in loaded.mlm.variables} == {tf.bfloat16}
    outputs, in_memory, expected = loaded.mlm(inputs), narrow(inputs), model(inputs)
    assert in_memory["sequence_output"].dtype == tf.bfloat16
    for name in ("pooled_output", "sequence_output", "mlm_logits"):
        assert outputs[name].dtype == tf.float32
        largest = np.abs(expected[name]).max()
        assert np.abs(outputs[name] - tf.cast(in_memory[name], tf.float32)).max() < 0.03 * largest
        # bfloat16 keeps 8 bits, and the weights here are ten times the usual size; a CPU with AVX2 and no
        # instructions for bfloat16, which rounds at other places, came to 0.056.
        assert np.abs(outputs[name] - expected[name]).max() < 0.08 * largest
