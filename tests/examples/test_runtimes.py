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
# As the README calls them.
ENCODER, CLASSIFIER, SPANS = "demo-output/hub/encoder", "sentiment-hub/serving/1", "questions-hub/serving/1"
NAMES = {CLASSIFIER: "classifier", SPANS: "spans"}
LENGTH = 128
CONFIG = TINY.replace(max_position_embeddings=LENGTH)

sys.path.append(str(EXAMPLES))  # as a script has its own folder there
from answers import answer  # noqa: E402
from from_ids import from_ids  # noqa: E402
from tokens import Tokens  # noqa: E402

QUESTIONS = {
    "seq_length": 64,
    "max_query_length": 16,
    "doc_stride": 16,
    "max_answer_length": 64,
    "n_best": 25,
}
TEXT, PAIR = "Who kept the lamp", "The keeper of the light climbed the stair and lit the lamp."
# What fine-tunes to which class with which further arguments and entries of task.json.
HEADS = {
    "classifier": (albert_tf.AlbertClassifier, {"num_labels": 3}, {"labels": ["good", "bad", "so-so"]}),
    "tagger": (albert_tf.AlbertTokenClassifier, {"num_labels": 2}, {"labels": ["O", "B-PER"]}),
    "spans": (albert_tf.AlbertSpanLabeler, {}, QUESTIONS),
    "answerability": (albert_tf.AlbertSpanLabeler, {"answerability": True}, QUESTIONS),
}
# Converts the head of each folder, and answers the inputs there.
OF_IDS = f"""
import importlib, sys
import numpy as np
sys.path.append({str(EXAMPLES)!r})
name, *folders = sys.argv[1:]
script = importlib.import_module(name)
for folder in folders:
    inputs = dict(np.load(folder + "/inputs.npz"))
    length = {{"length": inputs["input_mask"].shape[1]}} if name == "with_litert" else {{}}
    script.convert(folder + "/serving/1", folder + "/converted.xml", **length)
    np.savez(folder + "/" + name, **script.load(folder + "/converted.xml")(inputs))
"""


def write_run(model, folder, vocabulary, task):
    """A run of a network with large weights; biases and gains are 0 and 1 before training."""
    for number, variable in enumerate(model.variables):
        variable.assign_add(tf.random.stateless_normal(variable.shape, seed=[number, 3], stddev=0.1))
    albert_tf.save(model, folder, vocabulary=vocabulary, task=task)


@pytest.fixture(scope="module")
def modules(tmp_path_factory, tiny_vocabulary):
    """The exported encoder of a network, and its tokenizer."""
    folder = tmp_path_factory.mktemp("modules")
    write_run(albert_tf.AlbertEncoder(CONFIG), folder / "run", tiny_vocabulary, {})
    (encoder,) = export(folder / "run", folder / "hub", encoder_only=True, check=False)
    tokenizer = PieceTokenizer(Vocabulary.from_file(tiny_vocabulary))
    return SimpleNamespace(folder=encoder, tokenizer=tokenizer, module=tf.saved_model.load(str(encoder)))


@pytest.fixture(scope="module")
def heads(tmp_path_factory, tiny_vocabulary):
    """Folders with the exports of fine-tuned networks, by kind."""
    folder = tmp_path_factory.mktemp("heads")
    for kind, (network, arguments, task) in HEADS.items():
        write_run(network(CONFIG, **arguments), folder / kind / "run", tiny_vocabulary, task)
        export(folder / kind / "run", folder / kind / "hub", check=False)
    return {kind: folder / kind / "hub" for kind in HEADS}


@pytest.fixture(scope="module")
def python():
    """The interpreter with the other runtimes: from a command and where it runs to what it printed."""
    if not PYTHON.exists():
        reason = f"{PYTHON} is missing: `make test-slow` makes it from requirements-interop.txt"
        if os.environ.get("ALBERT_TF_REQUIRE_SHARED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)

    def run(words, folder, expected=0):
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [PYTHON, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == expected, done.stderr
        return done.stdout + done.stderr * (expected != 0)

    return run


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


@pytest.mark.parametrize("length", [None, 24])
def test_pairs_are_packed_as_by_the_preprocessor(length, modules):
    """What is too long is cut, of the second segment alone."""
    tokens, (firsts, seconds) = Tokens(modules.folder), zip((TEXT, PAIR), ("A wall", ""), strict=True)
    found = tokens.inputs(firsts, length, seconds)
    columns = found["input_mask"].shape[1]
    expected = pack([modules.tokenizer(tf.constant(texts)) for texts in (firsts, seconds)], LENGTH)
    for name, array in expected.items():
        whole = array.numpy()[:, :columns]
        if length is not None and name == "input_word_ids":
            whole[0, -1] = 3  # [SEP]
        np.testing.assert_array_equal(found[name], whole)


def test_spans_of_tokens_are_those_of_the_tokenizer(modules):
    """In characters of the text as it was given; the tokenizer gives bytes."""
    texts = [TEXT, PAIR, *CORPUS.splitlines()[:20], "Édith’s ﬁne Straße: №5 …", ""]
    for text, *found in zip(texts, *modules.tokenizer.tokenize_with_offsets(tf.constant(texts)), strict=True):
        starts, limits = (
            [len(text.encode()[:place].decode()) for place in places.numpy()] for places in found[1:]
        )
        ours = Tokens(modules.folder).spans(text)
        assert [text[slice(*span)].strip() for span in ours] == [
            text[start:limit].strip() for start, limit in zip(starts, limits, strict=True)
        ]


def test_an_empty_text_has_no_words(modules):
    tokens = Tokens(modules.folder)
    tokens.task = {"model": "token_classifier", "labels": ["O", "B-PER"]}
    (inputs,) = ({name: rows[0] for name, rows in tokens.inputs([""]).items()},)
    assert answer(tokens, inputs, {"logits": np.zeros([2, 2])}, "") == []


def test_tf_text_is_asked_for_in_a_line(tmp_path, monkeypatch):
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets/task.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    with pytest.raises(SystemExit, match="pip install tensorflow-text"), from_ids(str(tmp_path)):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("kind", HEADS)
def test_lines_of_a_text_are_what_a_server_answers(kind, heads):
    folder = heads[kind] / "serving/1"
    tokens, signatures = Tokens(folder), tf.saved_model.load(str(folder)).signatures
    pairs = [PAIR] if kind in ("spans", "answerability") else []
    inputs = tokens.inputs([TEXT], None, pairs)
    outputs = {name: tensor.numpy() for name, tensor in signatures["head"](**inputs).items()}
    arrays = ({name: rows[0] for name, rows in found.items()} for found in (inputs, outputs))
    lines = answer(tokens, *arrays, TEXT, *pairs)
    if pairs:
        served = signatures["answer"](question=tf.constant([TEXT]), context=tf.constant(pairs))
        assert lines == [served["answer"].numpy()[0].decode()]
        return
    served = signatures["serving_default"](text=tf.constant([TEXT]))
    names, scores = (served[name].numpy()[0] for name in ("labels", "scores"))
    expected = [f"{name.decode()} {score:.4f}" for name, score in zip(names, scores, strict=True)]
    if kind == "classifier":
        assert sorted(lines) == sorted(expected) and lines[0].startswith(served["label"].numpy()[0].decode())
    else:
        assert lines == [f"{word}: {found}" for word, found in zip(TEXT.split(), expected, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["with_openvino", "with_onnxruntime", "with_litert"])
def test_converted_heads_answer_as_tensorflow(name, heads, python, tmp_path):
    random = np.random.default_rng(0)
    expected = {}
    for folder in heads.values():
        mask = np.array([[1] * 40, [1] * 17 + [0] * 23], np.int32)
        ids = random.integers(5, CONFIG.vocab_size, mask.shape).astype(np.int32) * mask
        types = (np.arange(40) > 9).astype(np.int32) * mask
        inputs = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}
        np.savez(folder / "inputs.npz", **inputs)
        expected[folder] = tf.saved_model.load(str(folder / "serving/1")).signatures["head"](**inputs)
    python(["-c", OF_IDS, name, *heads.values()], tmp_path)
    for folder, outputs in expected.items():
        found = np.load(folder / f"{name}.npz")
        assert sorted(found) == sorted(outputs)
        for output, tensor in outputs.items():
            np.testing.assert_allclose(found[output], tensor, rtol=0, atol=1e-5, err_msg=f"{folder} {output}")


@pytest.mark.slow
def test_the_commands_of_the_page(modules, heads, python, tmp_path):
    """LiteRT's files need no ops of TensorFlow, and int8 is smaller."""
    text = (EXAMPLES / "README.md").read_text("utf-8")
    commands = [line.split(maxsplit=1)[1] for line in re.findall(r"^    (python .*)$", text, re.MULTILINE)]
    assert len(commands) == 6
    places = {ENCODER: modules.folder, **{name: heads[kind] / "serving/1" for name, kind in NAMES.items()}}
    for command in commands:
        words = shlex.split(command.replace("examples/", f"{ROOT}/examples/"))
        found = python([places.get(word, word) for word in words], tmp_path)
        if CLASSIFIER in words:
            assert re.fullmatch(r"(.*\n(  (good|bad|so-so) 0\.\d{4}\n){3}){2}", found), found
            continue
        if SPANS in words:
            assert len(found.splitlines()) == 2, found
            continue
        inputs = pack([modules.tokenizer(tf.constant(words[-2:]))], LENGTH)
        expected = modules.module(inputs)["pooled_output"][:, :4]
        rows = re.findall(r"  32 numbers: \[(.*?)\]", found)
        found = np.array([row.split() for row in rows], np.float32)
        np.testing.assert_allclose(found, expected, atol=0.1 if "--int8" in words else 1e-4, err_msg=command)
    whole, rounded = ((tmp_path / name).read_bytes() for name in ("encoder.tflite", "encoder_int8.tflite"))
    assert b"Flex" not in whole and b"Flex" not in rounded
    assert len(rounded) < len(whole)
    (tmp_path / "assets").mkdir()  # as of a serving model of an earlier version
    script = str(EXAMPLES / "with_openvino.py")
    assert "exported anew" in python([script, ".", "model.xml", "A text."], tmp_path, expected=2)
