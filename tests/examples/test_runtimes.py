"""examples/runtimes: its ids are the preprocessor's, and what it converts answers as the module does."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.tokenizers import PieceTokenizer, Vocabulary, pack
from hub_export.export import export
from tests.fuzz import fuzzed_texts
from tests.tiny import CORPUS, TINY

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples/runtimes"
PYTHON = ROOT / ".venv-interop/bin/python"
ENCODER = "demo-output/hub/encoder"  # as the README calls it
LENGTH = 128

sys.path.append(str(EXAMPLES))  # as a script has its own folder there
from tokens import Tokens  # noqa: E402


@pytest.fixture(scope="module")
def modules(tmp_path_factory, tiny_vocabulary):
    """The exported encoder of a network with large weights, and its tokenizer."""
    folder = tmp_path_factory.mktemp("modules")
    model = albert_tf.AlbertEncoder(TINY.replace(max_position_embeddings=LENGTH))
    for number, variable in enumerate(model.variables):  # biases and gains are 0 and 1 before training
        variable.assign_add(tf.random.stateless_normal(variable.shape, seed=[number, 3], stddev=0.1))
    albert_tf.save(model, folder / "run", vocabulary=tiny_vocabulary)
    (encoder,) = export(folder / "run", folder / "hub", encoder_only=True, check=False)
    tokenizer = PieceTokenizer(Vocabulary.from_file(tiny_vocabulary))
    return SimpleNamespace(folder=encoder, tokenizer=tokenizer, module=tf.saved_model.load(str(encoder)))


def sentences(shared):
    """Five hundred of each file of prose, encyclopedia and reviews, from all over it."""
    found = []
    for file in sorted((shared / "data/corpus").glob("[a-z]*.txt")):
        lines = [line.strip() for line in file.read_text("utf-8").splitlines() if line.strip()]
        found += lines[:: max(1, len(lines) // 500)][:500]
    return found


def differing(modules, folder, vocabulary, texts, **settings):
    """The ids of the texts for which those of the example are not the tokenizer's: both."""
    assets = shutil.copytree(modules.folder / "assets", folder / "assets")
    assets.joinpath("spiece.model").write_bytes(vocabulary.read_bytes())
    (assets / "tokenizer.json").write_text(json.dumps(settings))
    tokens, tokenizer = Tokens(folder), PieceTokenizer(Vocabulary.from_file(vocabulary), **settings)
    expected = tokenizer(tf.constant(texts)).to_list()
    found = [tokens.ids(text) for text in texts]
    return [(ours, theirs) for ours, theirs in zip(found, expected, strict=True) if ours != theirs]


def test_the_ids_of_real_sentences_are_the_preprocessors(shared, modules, tmp_path):
    texts = sentences(shared)
    assert len(texts) == 2500 and sum(not text.isascii() for text in texts) > 50
    vocabulary = shared / "data/vocabulary/30k-clean.model"
    different = differing(modules, tmp_path, vocabulary, texts, lowercase=True, strip_accents=True)
    assert len(different) <= 2  # equally likely pieces, in another order
    assert all(sorted(ours) == sorted(theirs) for ours, theirs in different)


@pytest.mark.parametrize(("lowercase", "strip_accents"), [(True, True), (False, True), (True, False)])
def test_the_ids_of_any_text_are_the_preprocessors(
    lowercase, strip_accents, modules, tiny_vocabulary, tmp_path
):
    texts = [text.decode("utf-8", "ignore") for text in fuzzed_texts(400, longest=2000)]
    texts += [*CORPUS.splitlines(), "Éclair Ǆ ﾞ ﬁ İ x\u00ady"]
    settings = {"lowercase": lowercase, "strip_accents": strip_accents}
    assert differing(modules, tmp_path, tiny_vocabulary, texts, **settings) == []


def test_inputs_are_packed_as_by_the_preprocessor(modules):
    texts = [*CORPUS.splitlines()[:8], "", CORPUS]  # the last is cut
    packed = pack([modules.tokenizer(tf.constant(texts))], LENGTH)
    for longest in (None, LENGTH + 1):  # the model has no more positions than LENGTH
        found = Tokens(modules.folder).inputs(texts, longest)
        assert found.keys() == packed.keys()
        for name, array in found.items():
            assert array.dtype == np.int32
            np.testing.assert_array_equal(array, packed[name])
    tokens = Tokens(modules.folder)
    assert tokens.inputs(["A stone wall", ""])["input_mask"].shape == (2, 2 + len(tokens.ids("A stone wall")))
    assert tokens.inputs(["A stone wall"], 4)["input_word_ids"].shape == (1, 4)


@pytest.mark.slow
def test_converted_encoders_answer_as_the_module(modules, tmp_path):
    """By the commands of the page; LiteRT's files need no ops of TensorFlow, and int8 is smaller."""
    if not PYTHON.exists():
        reason = f"{PYTHON} is missing: `make test-slow` makes it from requirements-interop.txt"
        if os.environ.get("ALBERT_TF_REQUIRE_SHARED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    text = (EXAMPLES / "README.md").read_text("utf-8")
    commands = [line.split(maxsplit=1)[1] for line in re.findall(r"^    (python .*)$", text, re.MULTILINE)]
    assert len(commands) == 4
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for command in commands:
        command = command.replace(ENCODER, str(modules.folder)).replace("examples/", f"{ROOT}/examples/")
        words = shlex.split(command)
        done = subprocess.run([PYTHON, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        inputs = pack([modules.tokenizer(tf.constant(words[-2:]))], LENGTH)
        expected = modules.module(inputs)["pooled_output"][:, :4]
        found = re.findall(r"  32 numbers: \[(.*?)\]", done.stdout)
        found = np.array([row.split() for row in found], np.float32)
        np.testing.assert_allclose(found, expected, atol=0.1 if "--int8" in words else 1e-4, err_msg=command)
    whole, rounded = ((tmp_path / name).read_bytes() for name in ("encoder.tflite", "encoder_int8.tflite"))
    assert b"Flex" not in whole and b"Flex" not in rounded
    assert len(rounded) < len(whole)
