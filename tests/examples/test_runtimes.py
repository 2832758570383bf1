"""examples/runtimes: its ids are the preprocessor's, and its scripts answer as TensorFlow does."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.text.packing import pack
from albert_tf.text.sentencepiece import SentencePieceTokenizer, SentencePieceVocabulary
from hub_export.__main__ import main
from hub_export.export import export
from tests.fuzz import fuzzed_texts
from tests.tiny import CORPUS, TINY, change_json

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/runtimes"
LENGTH = 128
CONFIG = TINY.replace(max_position_embeddings=LENGTH, hidden_act="gelu_erf")  # BERT's activation
SCRIPTS = {"openvino": "with_openvino", "onnx": "with_onnxruntime", "litert": "with_litert"}
# The runs of the README, by kind.
RUNS = {"demo-output/run": "encoder", "sentiment-run": "classifier", "questions-run": "spans"}

sys.path.append(str(EXAMPLES))  # as a script has its own folder there
import command_line  # noqa: E402
from answers import format_answer  # noqa: E402
from tokens import ConvertedTokenizer  # noqa: E402

QUESTIONS = {
    "seq_length": 64,
    "max_query_length": 16,
    "doc_stride": 16,
    "max_answer_length": 64,
    "n_best": 25,
}
TEXT, PAIR = "Who kept the lamp", "The keeper of the light climbed the stair and lit the lamp."
# Classes of fine-tuned networks, with their further arguments and entries of task.json.
HEADS = {
    "classifier": (albert_tf.AlbertClassifier, {"num_labels": 3}, {"labels": ["good", "bad", "so-so"]}),
    "tagger": (albert_tf.AlbertTokenClassifier, {"num_labels": 2}, {"labels": ["O", "B-PER"]}),
    "marks": (
        albert_tf.AlbertTokenClassifier,
        {"num_labels": 2},
        {"labels": ["O", "B-PER"], "words": "punctuation"},
    ),
    "spans": (albert_tf.AlbertSpanLabeler, {}, QUESTIONS),
    "answerability": (albert_tf.AlbertSpanLabeler, {"answerability": True}, QUESTIONS),
}


def write_run(model, folder, vocabulary, task):
    """A run of a network with large weights; biases and gains are 0 and 1 before training."""
    for number, variable in enumerate(model.variables):
        variable.assign_add(tf.random.stateless_normal(variable.shape, seed=[number, 3], stddev=0.1))
    albert_tf.save(model, folder, vocabulary=vocabulary, task=task)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, tiny_vocabulary):
    """Run directories by kind; a converted network's folder has the same files."""
    folder = tmp_path_factory.mktemp("runs")
    for kind, (network, arguments, task) in {"encoder": (albert_tf.AlbertEncoder, {}, {}), **HEADS}.items():
        write_run(network(CONFIG, **arguments), folder / kind, tiny_vocabulary, task)
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def python(interop_python):
    """A function that runs the other runtimes' interpreter in a folder, and returns its output."""

    def run(arguments, folder, expected=0):
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        process = subprocess.run(
            [interop_python, *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == expected, process.stderr
        return process.stdout + process.stderr * (expected != 0)

    return run


def find_differing_ids(run, folder, vocabulary, texts, **settings):
    """Pairs of ids, by the example and by the tokenizer, of the texts for which they differ."""
    for name in ("config.json", "task.json"):
        shutil.copyfile(run / name, folder / name)
    (folder / "spiece.model").write_bytes(vocabulary.read_bytes())
    (folder / "tokenizer.json").write_text(json.dumps(settings))
    converted, tokenizer = (
        ConvertedTokenizer(folder),
        SentencePieceTokenizer(SentencePieceVocabulary.from_file(vocabulary), **settings),
    )
    expected = tokenizer(tf.constant(texts)).to_list()
    actual = [converted.encode(text) for text in texts]
    return [pair for pair in zip(actual, expected, strict=True) if pair[0] != pair[1]]


@pytest.mark.parametrize(("lowercase", "strip_accents"), [(True, True), (False, True), (True, False)])
def test_the_ids_of_any_text_are_the_preprocessors(lowercase, strip_accents, runs, tiny_vocabulary, tmp_path):
    texts = [text.decode("utf-8", "ignore") for text in fuzzed_texts(400, longest=2000)]
    texts += [*CORPUS.splitlines(), "Éclair Ǆ ﾞ ﬁ İ x\u00ady"]
    settings = {"lowercase": lowercase, "strip_accents": strip_accents}
    assert find_differing_ids(runs["encoder"], tmp_path, tiny_vocabulary, texts, **settings) == []


def test_inputs_are_packed_as_by_the_preprocessor(runs, piece_tokenizer):
    texts = [*CORPUS.splitlines()[:8], "", CORPUS]  # the last is cut
    packed = pack([piece_tokenizer(tf.constant(texts))], LENGTH)
    for longest in (None, LENGTH + 1):  # the model has no more positions than LENGTH
        inputs = ConvertedTokenizer(runs["encoder"])(texts, longest)
        assert inputs.keys() == packed.keys()
        for name, array in inputs.items():
            assert array.dtype == np.int32
            np.testing.assert_array_equal(array, packed[name])
    tokenizer = ConvertedTokenizer(runs["encoder"])
    shape = (2, 2 + len(tokenizer.encode("A stone wall")))
    assert tokenizer(["A stone wall", ""])["input_mask"].shape == shape
    assert tokenizer(["A stone wall"], 4)["input_word_ids"].shape == (1, 4)


@pytest.mark.parametrize("length", [None, 24])
def test_pairs_are_packed_as_by_the_preprocessor(length, runs, piece_tokenizer):
    """If a pair is too long, the longer segment is cut."""
    pairs = (TEXT, PAIR), ("A wall", ""), (" ".join([TEXT] * 3), "A wall"), ("A wall", " ".join([TEXT] * 3))
    tokenizer, (firsts, seconds) = ConvertedTokenizer(runs["encoder"]), zip(*pairs, strict=True)
    packed = tokenizer(firsts, length, seconds)
    columns = packed["input_mask"].shape[1]
    expected = pack([piece_tokenizer(tf.constant(texts)) for texts in (firsts, seconds)], length or LENGTH)
    for name, array in expected.items():
        np.testing.assert_array_equal(packed[name], array.numpy()[:, :columns])


def test_spans_of_tokens_are_those_of_the_tokenizer(runs, piece_tokenizer):
    """In characters of the text as it was given; the tokenizer gives bytes."""
    texts = [TEXT, PAIR, *CORPUS.splitlines()[:20], "Édith’s ﬁne Straße: №5 …", ""]
    _, *offsets = piece_tokenizer.tokenize_with_offsets(tf.constant(texts))
    for text, *byte_offsets in zip(texts, *offsets, strict=True):
        starts, limits = (
            [len(text.encode()[:offset].decode()) for offset in row.numpy()] for row in byte_offsets
        )
        spans = ConvertedTokenizer(runs["encoder"]).token_spans(text)
        assert [text[slice(*span)].strip() for span in spans] == [
            text[start:limit].strip() for start, limit in zip(starts, limits, strict=True)
        ]


def test_an_empty_text_has_no_words(runs):
    tokenizer = ConvertedTokenizer(runs["encoder"])
    tokenizer.task = {"model": "token_classifier", "labels": ["O", "B-PER"]}
    (inputs,) = ({name: rows[0] for name, rows in tokenizer([""]).items()},)
    assert format_answer(tokenizer, inputs, {"logits": np.zeros([2, 2])}, "") == []


def test_mistakes_are_one_line(runs, tmp_path, monkeypatch, capsys):
    pair = ["--pair", PAIR]
    for kind, arguments, message in (
        (None, [TEXT], "none: no such folder: `python -m hub_export --run RUN --output FOLDER --to onnx`"),
        ("classifier", [TEXT, "--int8"], "has no model_int8.onnx: .* --to onnx --calibrate FILE`"),
        ("classifier", [TEXT, *pair, PAIR], "texts is 1, and that of --pair is 2"),
        ("classifier", [TEXT, *pair], "takes a single text: leave --pair out"),
        ("spans", [TEXT], "takes two texts: name the second by --pair"),
        ("classifier", [], "text"),
    ):
        folder = tmp_path / str(kind).lower()
        if kind is not None and not folder.exists():
            shutil.copytree(runs[kind], folder)
            (folder / "model.onnx").touch()
            change_json(folder / "task.json", takes_pairs=False)
        monkeypatch.setattr(sys, "argv", ["script", str(folder), *arguments])
        with pytest.raises(SystemExit, match="2"):
            command_line.main("", "onnx", "model.onnx", lambda _: pytest.fail("loads"))
        assert re.fullmatch(f"script: .*{message}.*\n", capsys.readouterr().err), message


@pytest.mark.slow
@pytest.mark.parametrize("kind", HEADS)
def test_lines_of_a_text_are_what_a_server_answers(kind, runs, tmp_path):
    export(runs[kind], tmp_path / "hub", check=False)
    signatures = tf.saved_model.load(str(tmp_path / "hub/serving/1")).signatures
    tokenizer, pairs = ConvertedTokenizer(runs[kind]), [PAIR] if kind in ("spans", "answerability") else []
    text = f"({TEXT})?" if kind == "marks" else TEXT
    inputs = tokenizer([text], None, pairs)
    outputs = {name: tensor.numpy() for name, tensor in signatures["head"](**inputs).items()}
    arrays = ({name: rows[0] for name, rows in batch.items()} for batch in (inputs, outputs))
    lines = format_answer(tokenizer, *arrays, text, *pairs)
    if pairs:
        served = signatures["answer"](question=tf.constant([text]), context=tf.constant(pairs))
        best, odds = served["answer"].numpy()[0].decode(), served.get("no_answer_score", tf.constant([-1.0]))
        assert lines == ["" if odds[0] > 0 else best]
        other = {**outputs, "no_answer_logits": np.array([-1.0 if odds[0] > 0 else 1.0])}
        arrays = ({name: rows[0] for name, rows in batch.items()} for batch in (inputs, other))
        assert kind == "spans" or format_answer(tokenizer, *arrays, text, *pairs) == [
            best if odds[0] > 0 else ""
        ]
        return
    served = signatures["serving_default"](text=tf.constant([text]))
    names, scores = (served[name].numpy()[0] for name in ("labels", "scores"))
    expected = [f"{name.decode()} {score:.4f}" for name, score in zip(names, scores, strict=True)]
    if kind == "classifier":
        assert sorted(lines) == sorted(expected) and lines[0].startswith(served["label"].numpy()[0].decode())
    else:
        words = re.findall(r"\w+|[^\w\s]", text)
        assert lines == [f"{word}: {label}" for word, label in zip(words, expected, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("runtime", SCRIPTS)
def test_the_commands_of_the_page(runtime, runs, python, tmp_path, capsys):
    """The scripts answer as TensorFlow does, in an environment without it."""
    text = (EXAMPLES / "README.md").read_text("utf-8")
    lines = re.findall(r"^    (python (?:-m hub_export|examples/).*)$", text, re.MULTILINE)
    assert len(lines) == 10
    (tmp_path / "texts.txt").write_text("\n".join(CORPUS.splitlines()[:6]))
    paths = {**{name: str(runs[kind]) for name, kind in RUNS.items()}, "texts.txt": f"{tmp_path}/texts.txt"}
    kind, is_of_runtime, count = "", False, 0
    for words in map(shlex.split, lines):
        if words[1] == "-m":
            kind, is_of_runtime = RUNS[words[4]], words[8] == runtime
            if is_of_runtime:
                words[6] = str(tmp_path / words[6])
                main([paths.get(word, word) for word in words[3:]])
                assert capsys.readouterr().out.splitlines()[-1] == words[6]
            continue
        if not is_of_runtime:
            continue
        count += 1
        printed = python([str(ROOT / words[1]), *words[2:]], tmp_path)
        if kind == "classifier":
            assert re.fullmatch(r"(.*\n(  (good|bad|so-so) 0\.\d{4}\n){3}){2}", printed), printed
        elif kind == "spans":
            assert len(printed.splitlines()) == 2, printed
        else:
            inputs = ConvertedTokenizer(runs["encoder"])(words[-2:])
            expected = albert_tf.load(runs["encoder"])(inputs)["pooled_output"][:, :4]
            rows = re.findall(r"  32 numbers: \[(.*?)\]", printed)
            embeddings = np.array([row.split() for row in rows], np.float32)
            np.testing.assert_allclose(embeddings, expected, atol=1e-4)
    assert count
    script = str(EXAMPLES / f"{SCRIPTS[runtime]}.py")
    assert "has no model" in python([script, ".", "A text."], tmp_path, expected=2)
