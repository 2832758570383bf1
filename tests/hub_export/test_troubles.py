"""docs/troubleshooting.md: mistakes with modules end in the messages of its table."""

import re
import subprocess
import sys

import keras as keras3
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub
import tf_keras as keras

from albert_tf import AlbertEncoder
from tests.pages import ROOT
from tests.tiny import TINY

TEXTS = tf.constant(["A stone wall", "the old clock"])


def without_text_ops(exported, _):
    code = f"import tensorflow as tf; tf.saved_model.load({str(exported.preprocessor)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    raise RuntimeError(done.stderr)


def loaded_without_its_class(exported, folder):
    text = keras.Input([], dtype=tf.string)
    keras.Model(text, hub.KerasLayer(str(exported.preprocessor))(text)).save(folder / "model.h5")
    keras.models.load_model(folder / "model.h5")


def loaded_in_safe_mode(exported, folder):
    text = keras3.Input([], dtype="string")
    layer = keras3.layers.TFSMLayer(str(exported.preprocessor), call_endpoint="__call__")
    keras3.Model(text, layer(text)).save(folder / "model.keras")
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
    "Op type not registered": without_text_ops,
    "Unknown layer: 'KerasLayer'": loaded_without_its_class,
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
    "indices[0,1] = 29000 is not in [0, 200)": lambda exported, _: hub.load(str(exported.encoder))(
        ids(input_word_ids=tf.constant([[2, 29000, 1, 1, 1, 1, 1, 3]]))
    ),
    "Expected size[0] in [0, 128], but got 600": lambda exported, _: hub.load(str(exported.encoder))(
        {name: tf.ones([1, 600], tf.int32) for name in ids()}
    ),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_the_mistake_is_said_to_be_that(message, exported, tmp_path):
    assert message in (ROOT / "docs/troubleshooting.md").read_text("utf-8")
    with tf.device("CPU"), pytest.raises(Exception) as error:  # a GPU does not refuse ids
        MISTAKES[message](exported, tmp_path)
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
