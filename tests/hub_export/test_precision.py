import numpy as np
import pytest
import tensorflow as tf

from hub_export.encoder import encoder_module
from hub_export.precision import in_dtype


@pytest.fixture(scope="module")
def narrow(model):
    return in_dtype(model, "bfloat16")


def test_float32_is_the_model_itself(model):
    assert in_dtype(model, "float32") is model


def test_every_variable_is_rounded_and_in_order(model, narrow):
    assert [variable.name for variable in narrow.variables] == [variable.name for variable in model.variables]
    for ours, theirs in zip(narrow.trainable_weights, model.trainable_weights, strict=True):
        assert ours.dtype == tf.bfloat16
        np.testing.assert_array_equal(ours.numpy(), tf.cast(theirs, tf.bfloat16).numpy())


def test_it_computes_in_the_type(narrow, inputs):
    assert narrow.encoder(inputs)["sequence_output"].dtype == tf.bfloat16


def test_module_halves_the_variables_and_agrees(model, narrow, inputs, exported, tmp_path):
    tf.saved_model.save(encoder_module(narrow), str(tmp_path))
    size, wide = (
        sum(path.stat().st_size for path in (folder / "variables").glob("*.data-*"))
        for folder in (tmp_path, exported.encoder)
    )
    assert 0.49 < size / wide < 0.55  # the names of the variables are as long as before
    loaded = tf.saved_model.load(str(tmp_path))
    assert {variable.dtype for variable in loaded.mlm.variables} == {tf.bfloat16}
    outputs, in_memory, expected = loaded.mlm(inputs), narrow(inputs), model(inputs)
    for name in ("pooled_output", "sequence_output", "mlm_logits"):
        assert outputs[name].dtype == tf.float32
        largest = np.abs(expected[name]).max()
        assert np.abs(outputs[name] - tf.cast(in_memory[name], tf.float32)).max() < 0.03 * largest
        # bfloat16 keeps 8 bits, and the weights here are ten times the usual size; a CPU with AVX2 and no
        # instructions for bfloat16, which rounds at other places, came to 0.056.
        assert np.abs(outputs[name] - expected[name]).max() < 0.08 * largest


def test_another_type_is_refused(model):
    with pytest.raises(ValueError, match="dtype='float16' is none of float32, bfloat16"):
        in_dtype(model, "float16")
