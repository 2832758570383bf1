"""examples/runtimes: its ids are the preprocessor's, and what it converts answers as the module does."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

import albert_tf
from hub_export.export import export
from tests.examples import runtimes_script as script
from tests.fuzz import fuzzed_texts
from tests.tiny import CORPUS, TINY

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples/runtimes"
PYTHON = ROOT / ".venv-interop/bin/python"
ENCODER = "demo-output/hub/encoder"  # as the README calls it
LENGTH = 128

sys.path.append(str(EXAMPLES))  # as a script has its own folder there
import command_line  # noqa: E402
from tokens import Tokens  # noqa: E402


def exported(folder, vocabulary, **settings):
    """The folders of the modules of a network with large weights, and those loaded."""
    vocab_size = sentencepiece.SentencePieceProcessor(model_file=str(vocabulary)).vocab_size()
    model = albert_tf.AlbertEncoder(TINY.replace(vocab_size=vocab_size, max_position_embeddings=LENGTH))
    for number, variable in enumerate(model.variables):  # biases and gains are 0 and 1 before training
        variable.assign_add(tf.random.stateless_normal(variable.shape, seed=[number, 3], stddev=0.1))
    albert_tf.save(model, folder / "run", vocabulary=vocabulary, tokenizer=settings)
    export(folder / "run", folder / "hub", seq_length=LENGTH, check=False)
    encoder, preprocessor = (folder / "hub" / name for name in ("encoder", "preprocessor"))
    load = tf.saved_model.load
    return SimpleNamespace(folder=encoder, encoder=load(str(encoder)), preprocessor=load(str(preprocessor)))


@pytest.fixture(scope="module")
def modules(tmp_path_factory, tiny_vocabulary):
    return exported(tmp_path_factory.mktemp("modules"), tiny_vocabulary)


def sentences(shared):
    """Five hundred of each file of prose, encyclopedia and reviews, from all over it."""
    found = []
    for file in sorted((shared / "data/corpus").glob("[a-z]*.txt")):
        lines = [line.strip() for line in file.read_text("utf-8").splitlines() if line.strip()]
        found += lines[:: max(1, len(lines) // 500)][:500]
    return found


def differing(modules, texts):
    """The ids of the texts for which those of the example are not the module's: both."""
    tokens = Tokens(modules.folder)
    expected = modules.preprocessor.tokenize(tf.constant(texts)).to_list()
    found = [tokens.ids(text) for text in texts]
    return [(ours, theirs) for ours, theirs in zip(found, expected, strict=True) if ours != theirs]


def test_the_ids_of_real_sentences_are_the_preprocessors(shared, tmp_path):
    texts = sentences(shared)
    assert len(texts) == 2500 and sum(not text.isascii() for text in texts) > 50
    different = differing(exported(tmp_path, shared / "data/vocabulary/30k-clean.model"), texts)
    assert len(different) <= 2  # equally likely pieces, in another order
    assert all(sorted(ours) == sorted(theirs) for ours, theirs in different)


@pytest.mark.parametrize("settings", [{}, {"lowercase": False}, {"strip_accents": False}])
def test_the_ids_of_any_text_are_the_preprocessors(settings, tiny_vocabulary, tmp_path):
    modules = exported(tmp_path, tiny_vocabulary, **settings)
    texts = [text.decode("utf-8", "ignore") for text in fuzzed_texts(400, longest=2000)]
    assert differing(modules, [*texts, *CORPUS.splitlines(), "Éclair Ǆ ﾞ ﬁ İ x\u00ady"]) == []


def test_inputs_are_packed_as_by_the_preprocessor(modules):
    texts = [*CORPUS.splitlines()[:8], "", CORPUS]  # the last is cut
    packed = modules.preprocessor(tf.constant(texts))
    for longest in (LENGTH, LENGTH + 1):  # the model has no more positions than LENGTH
        found = Tokens(modules.folder).inputs(texts, longest)
        assert found.keys() == packed.keys()
        for name, array in found.items():
            assert array.dtype == np.int32
            np.testing.assert_array_equal(array, packed[name])


def test_rows_are_as_long_as_the_longest_unless_told(modules):
    tokens = Tokens(modules.folder)
    inputs = tokens.inputs(["A stone wall", ""])
    assert inputs["input_word_ids"][1, :2].tolist() == [2, 3]
    assert inputs["input_mask"].sum(axis=1).tolist() == [2 + len(tokens.ids("A stone wall")), 2]
    assert inputs["input_word_ids"].shape[1] == 2 + len(tokens.ids("A stone wall"))
    assert tokens.inputs(["A stone wall"], 4)["input_word_ids"].shape == (1, 4)


def test_a_length_that_the_encoder_does_not_take_is_told(modules, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["script", str(modules.folder), "model", "text", "--length", "129"])
    with pytest.raises(SystemExit):
        command_line.main("", convert=None, load=None, litert=True)
    assert capsys.readouterr().err.endswith("--length 129: this encoder takes 2 to 128 tokens\n")


@pytest.fixture(scope="module")
def answers(modules, tmp_path_factory):
    """What the runtimes answered, by name; what they were asked; where the converted files are."""
    if not PYTHON.exists():
        reason = f"{PYTHON} is missing: `make test-slow` makes it from requirements-interop.txt"
        if os.environ.get("ALBERT_TF_REQUIRE_SHARED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("converted")
    text = (EXAMPLES / "README.md").read_text("utf-8")
    commands = [line.split(maxsplit=1)[1] for line in re.findall(r"^    (python .*)$", text, re.MULTILINE)]
    assert len(commands) == 4
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for command in commands:
        words = shlex.split(
            command.replace(ENCODER, str(modules.folder)).replace("examples/", f"{ROOT}/examples/")
        )
        done = subprocess.run([PYTHON, *words], cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("  32 numbers: [") == 2, done.stdout
    short = modules.preprocessor.bert_pack_inputs(
        [modules.preprocessor.tokenize(tf.constant(CORPUS.splitlines()[:3]))], seq_length=tf.constant(24)
    )
    asked = {24: short, LENGTH: modules.preprocessor(tf.constant(CORPUS.splitlines()[3:7]))}
    for length, inputs in asked.items():
        np.savez(folder / f"inputs-{length}.npz", **{name: x.numpy() for name, x in inputs.items()})
    subprocess.run([PYTHON, script.__file__, EXAMPLES, folder], check=True, env=environment)
    return SimpleNamespace(by_name=dict(np.load(folder / "answers.npz")), asked=asked, folder=folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runtime", "length", "tolerance"),
    [
        ("openvino", 24, 1e-5),
        ("openvino", LENGTH, 1e-5),
        ("onnxruntime", 24, 1e-5),
        ("onnxruntime", LENGTH, 1e-5),
        ("litert", LENGTH, 1e-5),
        ("litert_int8", LENGTH, 0.1),
    ],
)
def test_a_converted_encoder_answers_as_the_module(answers, modules, runtime, length, tolerance):
    expected = modules.encoder(answers.asked[length])["pooled_output"]
    found = answers.by_name[f"{runtime}-{length}"]
    assert found.dtype == np.float32 and found.std() > 0.1
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


@pytest.mark.slow
def test_litert_needs_no_ops_of_tensorflow_and_int8_is_smaller(answers):
    whole, rounded = (
        (answers.folder / name).read_bytes() for name in ("encoder.tflite", "encoder_int8.tflite")
    )
    assert b"Flex" not in whole and b"Flex" not in rounded
    assert len(rounded) < len(whole)
