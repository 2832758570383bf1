"""The modules in Keras 3, whose TFSMLayer is what hub.KerasLayer is in tf_keras."""

import keras as keras3
import numpy as np
import pytest
import tensorflow as tf

TEXTS = tf.constant(["A stone wall", "the old clock in the village", "", "Snow fell for three days."])


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


def test_the_encoder_is_found_without_asking(exported, encoder, tensors):
    layer = keras3.layers.TFSMLayer(str(exported.encoder))
    ids = {name: keras3.Input([None], dtype="int32", name=name) for name in tensors}
    outputs = keras3.Model(ids, layer(ids)).predict(tensors, verbose=0)
    for name in ("pooled_output", "sequence_output"):
        np.testing.assert_allclose(outputs[name], encoder(tensors)[name], rtol=0, atol=1e-5)
