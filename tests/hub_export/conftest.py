"""One run, its export, and what came back of it, for all tests of a session."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from hub_export.export import export
from tests.tiny import TINY

collect_ignore = ["garden_exporter.py"]  # which Model Garden's own environment runs

# Large weights and a live dropout: a tensor that is mixed up or left out shows.
CONFIG = TINY.replace(initializer_range=0.2, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
LENGTH = 24


@pytest.fixture(scope="module", autouse=True)
def _optimised(pytestconfig):
    """Slow tests see graphs as users run them: TensorFlow optimises them, which it does for no others."""
    if pytestconfig.option.markexpr == "not slow":
        yield
        return
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})
    yield
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


@pytest.fixture(scope="session")
def run(tiny_vocabulary, made_once):
    """A run directory of a pretrainer, with its vocabulary."""

    def write(folder):
        model = albert_tf.AlbertPretrainer(CONFIG)
        for variable in model.variables:  # biases and gains are 0 and 1 before training
            variable.assign_add(tf.random.stateless_normal(variable.shape, seed=[1, 2], stddev=0.1))
        albert_tf.save(model, folder, vocabulary=tiny_vocabulary)

    return made_once("run", write)


@pytest.fixture(scope="session")
def model(run):
    """The model of the run, in memory."""
    return albert_tf.load(run)


@pytest.fixture(scope="session")
def exported(run, made_once, tmp_path_factory):
    """The exported folders, moved away from where they were written, and without the vocabulary's file."""

    def write(folder):
        copy = shutil.copytree(run, tmp_path_factory.mktemp("copy") / "run")
        written = export(copy, folder, seq_length=LENGTH, check=False)
        assert [folder.name for folder in written] == ["preprocessor", "encoder", "1"]
        shutil.rmtree(copy)

    moved = made_once("modules", write)
    return SimpleNamespace(
        encoder=moved / "encoder", preprocessor=moved / "preprocessor", serving=moved / "serving/1"
    )


@pytest.fixture(scope="session")
def encoder(exported):
    return tf.saved_model.load(str(exported.encoder))


@pytest.fixture(scope="session")
def serving(exported):
    return tf.saved_model.load(str(exported.serving))


@pytest.fixture(scope="session")
def preprocessor(exported):
    return tf.saved_model.load(str(exported.preprocessor))


@pytest.fixture(scope="session")
def inputs():
    """Rows of different lengths, with positions to fill."""
    random = np.random.default_rng(0)
    mask = np.array([[1] * 24, [1] * 9 + [0] * 15, [1] * 20 + [0] * 4], np.int32)
    ids = random.integers(5, CONFIG.vocab_size, mask.shape).astype(np.int32) * mask
    types = np.array([[0] * 12 + [1] * 12, [0] * 24, [0] * 5 + [1] * 15 + [0] * 4], np.int32)
    positions = np.array([[1, 4, 7], [2, 3, 0], [5, 18, 19]], np.int32)
    arrays = {
        "input_word_ids": ids,
        "input_mask": mask,
        "input_type_ids": types,
        "masked_lm_positions": positions,
    }
    return {name: tf.constant(array) for name, array in arrays.items()}


@pytest.fixture(scope="session")
def tensors(inputs):
    """The encoder's inputs alone."""
    return {name: tensor for name, tensor in inputs.items() if name != "masked_lm_positions"}
