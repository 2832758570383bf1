"""Exports that XLA compiles where they run: the answers of plain ones, by a bounded number of programs."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub
import tf_keras as keras
from tensorflow_serving.apis import prediction_log_pb2

import albert_tf
from hub_export.__main__ import main
from hub_export.card import CARD
from hub_export.export import export
from hub_export.module_comparison import WARM_UP_FILE
from tests.hub_export.conftest import CONFIG as LARGE
from tests.hub_export.test_encoder import assert_close

pytestmark = pytest.mark.slow

CONFIG = LARGE.replace(num_hidden_layers=1, max_position_embeddings=32)
LENGTH = 16
SHAPES = {(rows, length) for rows in (1, 32) for length in (8, LENGTH, CONFIG.max_position_embeddings)}
TEXTS = ["The old clock", "", "A stone wall, and nobody had lived in it for years."]

# Answers its warm-up requests, then others, and tells which answers it gave to those.
SERVER = """
import json, sys
import tensorflow as tf, tensorflow_text
from tensorflow_serving.apis import prediction_log_pb2

signatures = tf.saved_model.load(sys.argv[1]).signatures
for record in tf.data.TFRecordDataset(sys.argv[1] + "/" + sys.argv[2]):
    request = prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log.request
    inputs = {name: tf.constant(tf.make_ndarray(proto)) for name, proto in request.inputs.items()}
    signatures[request.model_spec.signature_name](**inputs)
print("warm", flush=True)
sys.stdin.readline()
for text in json.loads(sys.argv[3]):
    print(json.dumps(signatures["serving_default"](text=tf.constant(text))["scores"].numpy().tolist()))
"""


@pytest.fixture(scope="module")
def exports(tiny_vocabulary, tmp_path_factory):
    """Folders of a plain export and of a compiled one, of a classifier with large weights."""
    folder = tmp_path_factory.mktemp("compiled")
    model = albert_tf.AlbertClassifier(CONFIG, 3)
    for number, variable in enumerate(model.variables):
        variable.assign_add(tf.random.stateless_normal(variable.shape, seed=[number, 1], stddev=0.1))
    task = {"task": "classification", "labels": ["a", "b", "c"], "columns": {"text": "t"}}
    albert_tf.save(model, folder / "run", vocabulary=tiny_vocabulary, task=task)
    export(folder / "run", folder / "plain", seq_length=LENGTH, check=False)
    flags = ["--run", str(folder / "run"), "--output", str(folder / "compiled"), "--xla"]
    main([*flags, "--seq_length", str(LENGTH)])  # which checks it as TensorFlow 1 and 2 load it
    return folder / "plain", folder / "compiled"


@pytest.fixture(scope="module")
def encoders(exports):
    return [hub.KerasLayer(str(folder / "encoder"), trainable=True) for folder in exports]


def programs(folder):
    """The names of what XLA has compiled, as its dumps are called."""
    names = [
        re.match(r"module_\d+\.(\w+)\.", path.name) for path in folder.glob("*.before_optimizations.txt")
    ]
    return [name[1] for name in names if name and "encode" in name[1]]


def test_a_server_answers_as_the_plain_model_and_compiles_nothing_after_its_warm_up(exports, tmp_path):
    """In a process of its own, in which nothing of this package is imported."""
    requests = [TEXTS, TEXTS[:1], TEXTS * 15, [text * 9 for text in TEXTS], [""]]
    plain, compiled = (folder / "serving/1" for folder in exports)
    command = [sys.executable, "-c", SERVER, str(compiled), str(WARM_UP_FILE), json.dumps(requests)]
    dumps = {"XLA_FLAGS": f"--xla_dump_to={tmp_path} --xla_dump_hlo_as_text"}
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, **dumps, "PYTHONPATH": ""},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout.readline() == "warm\n"
        assert len(programs(tmp_path)) == len(SHAPES)
        answers, _ = server.communicate("\n")
    assert server.returncode == 0
    assert len(programs(tmp_path)) == len(SHAPES)
    signature = tf.saved_model.load(str(plain)).signatures["serving_default"]
    for line, texts in zip(answers.splitlines(), requests, strict=True):
        np.testing.assert_allclose(json.loads(line), signature(text=tf.constant(texts))["scores"], atol=1e-5)


def test_warm_up_requests_are_of_all_shapes_and_the_card_says_what_it_is(exports):
    assert ['"compiled": true' in (folder / CARD).read_text() for folder in exports] == [False, True]
    found = set()
    for record in tf.data.TFRecordDataset(str(exports[1] / "serving/1" / WARM_UP_FILE)):
        request = prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log.request
        if request.model_spec.signature_name == "tokens":
            found.add(tuple(tf.make_ndarray(request.inputs["input_mask"]).shape))
    assert found >= SHAPES


@pytest.mark.parametrize("shape", [(1, 5), (0, 5), (3, 24), (40, 9)])
def test_the_encoder_answers_as_the_plain_one(shape, encoders):
    random = np.random.default_rng(0)
    highest = {"input_word_ids": 100, "input_mask": 2, "input_type_ids": 2}
    ids = {name: tf.constant(random.integers(0, high, shape), tf.int32) for name, high in highest.items()}
    plain, compiled = encoders
    assert_close(compiled(ids), plain(ids))


def test_an_input_that_is_too_long_is_an_error(encoders):
    ids = {name: tf.ones([1, 33], tf.int32) for name in ("input_word_ids", "input_mask", "input_type_ids")}
    with pytest.raises(tf.errors.InvalidArgumentError, match="longest_input_is_32"):
        encoders[1](ids)


def test_gradients_are_those_of_the_plain_encoder_and_dropout_is_live_in_training(encoders, tensors):
    gradients = []
    for encoder in encoders:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(encoder(tensors, training=False)["pooled_output"] ** 2)
        found = tape.gradient(loss, encoder.trainable_weights)
        gradients.append([tf.convert_to_tensor(gradient) for gradient in found])
    for ours, theirs in zip(*gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    first, second = (encoders[1](tensors, training=True)["pooled_output"] for _ in range(2))
    assert np.abs(first - second).max() > 1e-3


@pytest.mark.parametrize("number", [0, 1], ids=["plain", "compiled"])
def test_an_encoder_is_fine_tuned_in_a_model_that_keras_compiles(number, exports, tensors):
    encoder = hub.KerasLayer(str(exports[number] / "encoder"), trainable=True)
    inputs = {name: keras.Input([None], dtype=tf.int32, name=name) for name in tensors}
    model = keras.Model(inputs, keras.layers.Dense(2)(encoder(inputs)["pooled_output"]))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-2), loss, jit_compile=True)
    before = [weight.numpy() for weight in encoder.trainable_weights]
    losses = model.fit(tensors, np.array([0, 1, 0]), epochs=6, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    for old, weight in zip(before, encoder.trainable_weights, strict=True):
        assert np.abs(weight.numpy() - old).max() > 1e-5, weight.name
    np.testing.assert_allclose(model.predict(tensors, verbose=0), model(tensors), rtol=0, atol=1e-5)
