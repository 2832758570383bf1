"""Both modules as layers of a tf_keras model: saved whole, distributed, in mixed precision."""

import keras as keras3
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub
import tf_keras as keras

import albert_tf
from hub_export.modules import encoder_module
from tests.tiny import TINY

TEXTS = tf.constant(["A stone wall", "the old clock in the village", "", "Snow fell for three days."])
LABELS = tf.constant([0.0, 1.0, 0.0, 1.0])


def sentiment_model(preprocessor, encoder):
    """Text to a logit, the classic way."""
    text = keras.layers.Input(shape=(), dtype=tf.string)
    inputs = hub.KerasLayer(str(preprocessor), name="preprocessing")(text)
    pooled = hub.KerasLayer(str(encoder), trainable=True, name="encoder")(inputs)["pooled_output"]
    return keras.Model(text, keras.layers.Dense(1, name="classifier")(pooled))


@pytest.fixture(scope="module")
def trained(exported):
    model = sentiment_model(exported.preprocessor, exported.encoder)
    model.compile(keras.optimizers.Adam(1e-3), keras.losses.BinaryCrossentropy(from_logits=True))
    model.fit(TEXTS, LABELS, verbose=0)
    return model


@pytest.mark.slow
def test_preprocessor_8_whole_model_as_saved_model(trained, tmp_path):
    trained.save(tmp_path / "model", save_format="tf")
    reloaded = keras.models.load_model(tmp_path / "model")
    np.testing.assert_allclose(reloaded(TEXTS), trained(TEXTS), rtol=0, atol=1e-6)
    assert len(reloaded.trainable_weights) == len(trained.trainable_weights)
    reloaded.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
    before = reloaded.trainable_weights[0].numpy()
    reloaded.fit(TEXTS, LABELS, verbose=0)
    assert np.abs(reloaded.trainable_weights[0].numpy() - before).max() > 1e-5


@pytest.mark.slow
def test_preprocessor_8_whole_model_as_keras_file(trained, tmp_path):
    trained.save(tmp_path / "model.keras")
    reloaded = keras.models.load_model(
        tmp_path / "model.keras", custom_objects={"KerasLayer": hub.KerasLayer}
    )
    np.testing.assert_allclose(reloaded(TEXTS), trained(TEXTS), rtol=0, atol=1e-6)


@pytest.mark.slow
def test_encoder_6_mirrored_fit_is_the_fit_of_one_replica(exported, tmp_path, two_replicas):
    config = TINY.replace(num_hidden_layers=1, initializer_range=0.2)  # without dropout: it is exact
    tf.saved_model.save(encoder_module(albert_tf.AlbertEncoder(config)), str(tmp_path))

    def fitted():
        keras.utils.set_random_seed(1)
        model = sentiment_model(exported.preprocessor, tmp_path)
        model.compile(keras.optimizers.SGD(0.1), keras.losses.BinaryCrossentropy(from_logits=True))
        return model

    alone = fitted()
    with two_replicas.scope():
        mirrored = fitted()
    start = [weight.numpy() for weight in alone.trainable_weights]
    for model in (alone, mirrored):
        model.fit(tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(4), epochs=3, verbose=0)
    for first, ours, theirs in zip(start, mirrored.trainable_weights, alone.trainable_weights, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5, err_msg=theirs.name)
        copies = two_replicas.experimental_local_results(ours)
        assert len(copies) == 2
        np.testing.assert_array_equal(*copies)
        assert np.abs(theirs - first).max() > 1e-6 or "key/bias" in theirs.name


@pytest.mark.slow
def test_encoder_6_mixed_precision(exported, trained):
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        model = sentiment_model(exported.preprocessor, exported.encoder)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    pooled = model.get_layer("encoder").output["pooled_output"]
    assert pooled.dtype == tf.float32
    assert model.output.dtype == tf.bfloat16
    model.set_weights(trained.get_weights())
    np.testing.assert_allclose(tf.cast(model(TEXTS), tf.float32), trained(TEXTS), rtol=0, atol=0.05)


# The modules in Keras 3, whose TFSMLayer is what hub.KerasLayer is in tf_keras.


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
