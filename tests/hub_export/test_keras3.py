"""The modules in Keras 3, whose TFSMLayer is what hub.KerasLayer is in tf_keras."""

import keras as keras3
import numpy as np
import pytest
import tensorflow as tf

TEXTS = tf.constant(["A stone wall", "the old clock in the village", "", "Snow fell for three days."])
LABELS = np.array([0, 1, 0, 1])


class HubLayer(keras3.layers.TFSMLayer):
    """A module as a layer of Keras 3, whose optimizers refuse variables that are named `...:0`."""

    def _track_variable(self, variable):
        variable._name, variable._path = (x.removesuffix(":0") for x in (variable.name, variable.path))
        super()._track_variable(variable)


@pytest.fixture(scope="module")
def classifier(exported):
    text = keras3.Input(shape=(), dtype="string")
    preprocessor = HubLayer(str(exported.preprocessor), call_endpoint="__call__", trainable=False)
    encoder = HubLayer(
        str(exported.encoder),
        call_endpoint="__call__",
        call_training_endpoint="call_training",
        name="encoder",
    )
    return keras3.Model(text, keras3.layers.Dense(1)(encoder(preprocessor(text))["pooled_output"]))


def test_inference_is_that_of_the_module_and_dropout_is_live_in_training(classifier, preprocessor, encoder):
    pooled = encoder(preprocessor(TEXTS))["pooled_output"]
    kernel, bias = (weight.numpy() for weight in classifier.layers[-1].weights)
    np.testing.assert_allclose(classifier(TEXTS), pooled @ kernel + bias, rtol=0, atol=1e-5)
    first, second = (classifier(TEXTS, training=True) for _ in range(2))
    assert np.abs(first - second).max() > 1e-3


@pytest.mark.slow
def test_training_reaches_every_weight_and_the_model_is_saved_whole(classifier, tmp_path):
    classifier.compile(keras3.optimizers.Adam(1e-3), keras3.losses.BinaryCrossentropy(from_logits=True))
    layer = classifier.get_layer("encoder")
    before = [weight.numpy().copy() for weight in layer.trainable_weights]
    assert len(before) == 25
    losses = classifier.fit(TEXTS, LABELS, epochs=10, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    for old, weight in zip(before, layer.trainable_weights, strict=True):
        assert np.abs(weight.numpy() - old).max() > 1e-5, weight.path
    classifier.save(tmp_path / "model.keras")
    with keras3.utils.CustomObjectScope({"HubLayer": HubLayer}):
        reloaded = keras3.models.load_model(tmp_path / "model.keras", safe_mode=False)
    np.testing.assert_allclose(
        reloaded.predict(TEXTS, verbose=0), classifier.predict(TEXTS, verbose=0), rtol=0, atol=1e-6
    )


def test_the_encoder_is_found_without_asking(exported, encoder, tensors):
    layer = keras3.layers.TFSMLayer(str(exported.encoder))
    ids = {name: keras3.Input([None], dtype="int32", name=name) for name in tensors}
    outputs = keras3.Model(ids, layer(ids)).predict(tensors, verbose=0)
    for name in ("pooled_output", "sequence_output"):
        np.testing.assert_allclose(outputs[name], encoder(tensors)[name], rtol=0, atol=1e-5)
