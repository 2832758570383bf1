"""Pipelines and predictions whose encoder OpenVINO computes, beside TensorFlow's."""

import importlib.util
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf import cli
from albert_tf.checkpoints import RunDirectory
from albert_tf.features import ENCODER_INPUTS
from albert_tf.models.encoder import AlbertEncoder, with_pooled_output
from albert_tf.runtimes import openvino
from albert_tf.runtimes.openvino import OpenVinoEncoder
from albert_tf.utils.errors import InputError
from tests.albert_tf.inference.conftest import KINDS
from tests.albert_tf.inference.test_pipeline import INPUTS, assert_close
from tests.tiny import TINY

TEXTS = INPUTS["classification"]


@pytest.fixture
def conversions(monkeypatch):
    """A list that grows with each conversion."""
    found, convert = [], openvino.converted
    monkeypatch.setattr(openvino, "converted", lambda encoder: found.append(encoder) or convert(encoder))
    return found


@pytest.fixture
def run(made, tmp_path):
    """A copy of a classifier's run, nothing converted in it."""
    nothing = shutil.ignore_patterns("openvino")
    return shutil.copytree(made("classification").run, tmp_path / "run", ignore=nothing)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_tensorflows(kind, made, monkeypatch):
    inputs = INPUTS[kind][:4]
    expected = albert_tf.pipeline(made(kind).run, batch_size=3)(inputs)
    ask = albert_tf.pipeline(made(kind).run, batch_size=3, runtime="openvino")
    monkeypatch.setattr(AlbertEncoder, "call", None)  # TensorFlow computes none of it
    assert_close(ask(inputs), expected, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["roberta", "distilbert"])
def test_encoders_of_the_family(family):
    config = albert_tf.PRESETS[{"roberta": "roberta_base", "distilbert": "distilbert_base_uncased"}[family]]
    shape = {
        name: getattr(TINY, name) for name in ("hidden_size", "num_attention_heads", "intermediate_size")
    }
    encoder = AlbertEncoder(config.replace(num_hidden_layers=2, embedding_size=32, vocab_size=90, **shape))
    mask = np.array([[1] * 9, [1] * 4 + [0] * 5], np.int32)
    inputs = dict(zip(ENCODER_INPUTS, map(tf.constant, (7 * mask + 1, mask, 0 * mask)), strict=True))
    expected, found = with_pooled_output(encoder(inputs)), OpenVinoEncoder(encoder)(inputs)
    np.testing.assert_allclose(found["pooled_output"], expected["pooled_output"], atol=1e-5)
    rows = mask[..., np.newaxis]
    np.testing.assert_allclose(found["sequence_output"] * rows, expected["sequence_output"] * rows, atol=1e-5)


@pytest.mark.slow
def test_what_is_converted_is_kept_until_the_weights_change(run, conversions):
    model, ids = albert_tf.load(run), tf.constant([[2, 9, 8, 3]])
    inputs = dict(zip(ENCODER_INPUTS, (ids, tf.ones_like(ids), 0 * ids), strict=True))

    def pooled_output():
        return OpenVinoEncoder(model.encoder, run=RunDirectory(run))(inputs)["pooled_output"].numpy()

    def assert_same(found, expected):
        np.testing.assert_array_equal(found, expected)

    first = pooled_output()
    (kept,) = (run / "openvino").iterdir()
    assert sorted(path.name for path in kept.iterdir()) == ["encoder.bin", "encoder.xml"]
    assert_same(pooled_output(), first)
    assert len(conversions) == 1
    (kept / "encoder.bin").write_bytes((kept / "encoder.bin").read_bytes()[:100])
    assert_same(pooled_output(), first)
    assert len(conversions) == 2
    for variable in model.encoder.trainable_variables:
        variable.assign(variable * 0.9)
    np.testing.assert_allclose(pooled_output(), model.encoder(inputs)["pooled_output"], atol=1e-5)
    assert len(conversions) == 3 and [path != kept for path in (run / "openvino").iterdir()] == [True]


@pytest.mark.slow
def test_where_nothing_can_be_written_it_is_in_memory(run, conversions, monkeypatch):
    encoder = albert_tf.load(run).encoder
    monkeypatch.setattr("openvino.save_model", lambda *_, **__: None)  # as of a full disk
    OpenVinoEncoder(encoder, run=RunDirectory(run))
    assert not [path for path in run.iterdir() if "openvino" in path.name]
    (run / "openvino").write_text("a file")
    OpenVinoEncoder(encoder, run=RunDirectory(run))
    assert len(conversions) == 2 and (run / "openvino").read_text() == "a file"


@pytest.mark.slow
def test_bfloat16_is_near_and_not_the_same(run):
    expected = albert_tf.pipeline(run)(TEXTS[:5], top_k=3)
    for runtime in ("tensorflow", "openvino"):
        found = albert_tf.pipeline(run, runtime=runtime, precision="bfloat16")(TEXTS[:5], top_k=3)
        by_label = [{x["label"]: x["score"] for x in answers} for answers in (*found, *expected)]
        assert_close(by_label[:5], by_label[5:], 0.05)
        if runtime == "tensorflow":  # a processor may have none
            assert found != expected


@pytest.mark.slow
def test_a_text_classifier_computes_in_its_dtype(run):
    expected = albert_tf.pipeline(run)(TEXTS[:5])
    model = albert_tf.TextClassifier.from_run(run, dtype="mixed_bfloat16")
    assert_close(albert_tf.pipeline(model, runtime="openvino")(TEXTS[:5]), expected, 0.05)
    with pytest.raises(InputError, match="precision='bfloat16'"):
        albert_tf.pipeline(model, precision="bfloat16")


def test_auto_says_what_it_takes(run, caplog, monkeypatch):
    monkeypatch.setattr("albert_tf.inference.answerers.OpenVinoEncoder", lambda *_: None)

    def said(**settings):
        caplog.clear()
        albert_tf.pipeline(run, runtime="auto", **settings)
        (line,) = (x.getMessage() for x in caplog.records if "runtime='auto'" in x.getMessage())
        return line

    assert said() == "runtime='auto': OpenVINO computes"
    assert "bfloat16" in said(precision="bfloat16") and "xla=True" in said(xla=True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "TensorFlow computes (openvino is not installed" in said()


def test_bad_combinations_are_refused(made, exported, tiny_vocabulary, run, tmp_path, monkeypatch):
    early = albert_tf.AlbertClassifier(TINY, 3, early_exit=True)
    albert_tf.save(early, tmp_path / "early", vocabulary=tiny_vocabulary, task=KINDS["classification"][1])
    cases = (
        ({"patience": 2}, "patience=2.*no exits"),
        ({"xla": True}, "xla=True"),
        ({"precision": "float16"}, "precision='float16'"),
        ({"runtime": "onnx"}, "runtime='onnx'"),
    )
    for settings, problem in cases:
        with pytest.raises(InputError, match=problem):
            albert_tf.pipeline(tmp_path / "early", **{"runtime": "openvino", **settings})
    albert_tf.pipeline(tmp_path / "early", runtime="auto", patience=2)("a boat")
    with pytest.raises(InputError, match="is exported"):
        albert_tf.pipeline(exported("classification"), runtime="openvino")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install openvino"):
        albert_tf.pipeline(run, runtime="openvino")


@pytest.mark.slow
def test_the_command_line_predicts_with_it(run, tmp_path, capsys):
    table = tmp_path / "table.jsonl"
    table.write_text("".join(json.dumps({"t": text}) + "\n" for text in TEXTS[:9]))
    command = ["predict", "--run", str(run), "--input", str(table), "--probabilities", "--output"]
    said = []
    for runtime in ("tensorflow", "openvino"):
        output = tmp_path / f"{runtime}.jsonl"
        assert cli.run([*command, str(output), "--runtime", runtime]) == 0
        said.append([json.loads(line) for line in output.read_text().splitlines()])
    assert_close(said[1], said[0], 1e-4)
    assert (run / "openvino").is_dir()
    output = tmp_path / "none.jsonl"
    assert cli.run([*command, str(output), "--runtime", "openvino", "--patience", "2"]) == 2
    assert "no exits" in capsys.readouterr().err.splitlines()[-1] and not output.exists()
