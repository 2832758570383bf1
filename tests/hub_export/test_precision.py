import numpy as np
import pytest
import tensorflow as tf

from hub_export.export import cast_model, export


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
