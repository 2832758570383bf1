"""The table "When it does not work" of README.md: each mistake in it is made, and said to be what it says."""

import importlib.abc
import re
import runpy
import subprocess
import sys
from pathlib import Path

import keras as keras3
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub
import tf_keras as keras

from albert_tf import AlbertEncoder
from tests.pages import ROOT
from tests.tiny import TINY

TEXTS, LABELS = tf.constant(["A stone wall", "the old clock"]), np.array([0, 1])

# What no test says, each with the reason.
NOT_HERE = {
    "Should have a `model_type` key": "transformers says it, which is not installed",
    "KeyError: 'added_tokens'": "transformers says it, which is not installed",
    "legacy-install-failure": "pip says it, before anything is installed",
}


def messages() -> list[str]:
    """What is said, of all rows."""
    table = (ROOT / "README.md").read_text("utf-8").partition("| message |")[2].partition("\n\n")[0]
    cells = [line.split(" | ")[0] for line in table.splitlines()[2:]]
    return [code.strip() for cell in cells for _, code in re.findall(r"(``?)(.+?)\1(?!`)", cell)]


def keras2_model(exported):
    text = keras.Input([], dtype=tf.string)
    inputs = hub.KerasLayer(str(exported.preprocessor))(text)
    pooled = hub.KerasLayer(str(exported.encoder))(inputs)["pooled_output"]
    model = keras.Model(text, keras.layers.Dense(2)(pooled))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def keras3_model(exported):
    text = keras3.Input([], dtype="string")
    preprocessor = keras3.layers.TFSMLayer(str(exported.preprocessor), call_endpoint="__call__")
    encoder = keras3.layers.TFSMLayer(
        str(exported.encoder), call_endpoint="__call__", call_training_endpoint="call_training"
    )
    model = keras3.Model(text, keras3.layers.Dense(2)(encoder(preprocessor(text))["pooled_output"]))
    model.compile("adam", keras3.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def optimizer_of_keras_3(exported, _):
    keras2_model(exported).compile(keras3.optimizers.Adam())


def callback_of_keras_3(exported, _):
    keras2_model(exported).fit(TEXTS, LABELS, callbacks=[keras3.callbacks.EarlyStopping("loss")], verbose=0)


def metric_of_keras_3(exported, _):
    model = keras2_model(exported)
    model.compile("adam", model.loss, metrics=[keras3.metrics.SparseCategoricalAccuracy()])
    model.fit(TEXTS, LABELS, verbose=0)


def without_text_ops(exported, _):
    code = f"import tensorflow as tf; tf.saved_model.load({str(exported.preprocessor)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    raise RuntimeError(done.stderr)


def loaded_without_its_class(ending):
    def load(exported, folder):
        keras2_model(exported).save(folder / f"model.{ending}")
        keras.models.load_model(folder / f"model.{ending}")

    return load


def loaded_in_safe_mode(exported, folder):
    keras3_model(exported).save(folder / "model.keras")
    keras3.models.load_model(folder / "model.keras")


def ids(**changes):
    names = ("input_word_ids", "input_mask", "input_type_ids")
    return {**{name: tf.ones([1, 8], tf.int32) for name in names}, **changes}


MISTAKES = {
    "A KerasTensor is symbolic": lambda exported, _: hub.KerasLayer(str(exported.preprocessor))(
        keras3.Input([], dtype="string")
    ),
    "Only instances of `keras.Layer` can be added": lambda exported, _: keras3.Sequential(
        [hub.KerasLayer(str(exported.encoder))]
    ),
    "Could not interpret optimizer identifier": optimizer_of_keras_3,
    "no attribute '_implements_train_batch_hooks'": callback_of_keras_3,
    "no attribute '_distribute_strategy'": metric_of_keras_3,
    "Op type not registered": without_text_ops,
    "Unknown layer: 'KerasLayer'": loaded_without_its_class("h5"),
    "'str' object is not callable": loaded_without_its_class("keras"),
    "Requested the deserialization of a `TFSMLayer`": loaded_in_safe_mode,
    "contains neither 'saved_model.pb' nor 'saved_model.pbtxt'": lambda _, folder: hub.KerasLayer(
        str(folder)
    ),
    "A KerasTensor cannot be used as input to a TensorFlow function": lambda *_: AlbertEncoder(TINY)(
        {"input_word_ids": keras3.Input([8], dtype="int32")}
    ),
    "Could not find matching concrete function": lambda exported, _: hub.load(str(exported.encoder))(TEXTS),
    "The endpoint 'serve' is neither an attribute": lambda exported, _: keras3.layers.TFSMLayer(
        str(exported.preprocessor)
    ),
    "is not a valid scope name": lambda exported, _: keras3_model(exported).fit(TEXTS, LABELS, verbose=0),
    "Unrecognized data type: x=": lambda exported, _: keras3_model(exported).fit(["a", "b"], [0, 1]),
    "indices[0,1] = 29000 is not in [0, 200)": lambda exported, _: hub.load(str(exported.encoder))(
        ids(input_word_ids=tf.constant([[2, 29000, 1, 1, 1, 1, 1, 3]]))
    ),
    "Expected size[0] in [0, 128], but got 600": lambda exported, _: hub.load(str(exported.encoder))(
        {name: tf.ones([1, 600], tf.int32) for name in ids()}
    ),
    "No module named 'pkg_resources'": lambda *_: without_pkg_resources(),
}


class NoPkgResources(importlib.abc.MetaPathFinder):
    """As in an environment of setuptools 82."""

    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == "pkg_resources":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def without_pkg_resources():
    """The import that fails is tensorflow_hub's own."""
    with pytest.MonkeyPatch.context() as patched:
        patched.delitem(sys.modules, "pkg_resources", raising=False)
        patched.setattr(sys, "meta_path", [NoPkgResources(), *sys.meta_path])
        runpy.run_path(hub.__file__)


def test_every_message_is_made_here():
    assert {*messages()} == {*MISTAKES, *NOT_HERE}


@pytest.mark.parametrize("message", MISTAKES)
def test_the_mistake_is_said_to_be_that(message, exported, tmp_path):
    with pytest.raises(Exception) as error:
        MISTAKES[message](exported, Path(tmp_path))
    said = str(error.value)
    # The sizes are those of one network.
    expected = re.escape(message).replace("200", r"\d+").replace("128", r"\d+")
    assert re.search(expected, said), said


def test_an_id_out_of_range_is_another_piece_to_xla(exported):
    """No error: the last piece of the vocabulary is read."""
    module = hub.load(str(exported.encoder))
    pooled = tf.function(lambda inputs: module(inputs)["pooled_output"], jit_compile=True)
    size = module.variables[0].shape[0]
    wrong, last = (pooled(ids(input_word_ids=tf.fill([1, 8], number))) for number in (29000, size - 1))
    np.testing.assert_array_equal(wrong, last)
