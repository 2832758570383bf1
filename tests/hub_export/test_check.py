import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text
from tensorflow.core.protobuf import saved_model_pb2

import albert_tf
from hub_export.answers import (
    CheckFailed,
    call_answers,
    requests_of,
    session_answers,
    signature_answers,
)
from hub_export.check import modules as check_module
from hub_export.check.__main__ import main
from hub_export.check.modules import check, has_absolute_path, unserved_tensors
from hub_export.encoder import encoder_module
from hub_export.warmup import read_requests, write_requests
from tests.tiny import TINY


class Doubler(tf.Module):
    """Doubles numbers, with something in its graph that should not be there."""

    def __init__(self, extra=lambda: None):
        super().__init__()
        self.extra = extra

    @tf.function(input_signature=[tf.TensorSpec([None], name="x")])
    def double(self, x):
        with tf.control_dependencies([op for op in [self.extra()] if op is not None]):
            return {"y": 2 * x}


def save(module, folder):
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.double})
    write_requests(folder, {"serving_default": {"x": tf.constant([1.0])}})
    return folder


def test_modules_of_an_export_pass(exported, capsys):
    main([str(exported.encoder.parent)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2::3] == ["encoder: passed", "preprocessor: passed", "serving/1: passed"]
    assert lines[0] == "encoder: TF Text: none"
    assert lines[1].startswith("encoder: TensorFlow: AddV2, ")
    assert lines[3].startswith("preprocessor: TF Text: CaseFoldUTF8, NormalizeUTF8, SentencepieceOp")


def test_a_module_is_named_wherever_it_is_checked_from(tmp_path, monkeypatch, capsys):
    save(Doubler(), tmp_path / "doubler")
    monkeypatch.chdir(tmp_path / "doubler")
    for folder in (".", str(tmp_path), str(tmp_path / "doubler")):
        main([folder])
        assert capsys.readouterr().out.splitlines()[-1] == "doubler: passed"


def test_expected_answers_that_cannot_be_read(tmp_path, capsys):
    save(Doubler(), tmp_path / "doubler")
    (tmp_path / "text.npz").write_text("no arrays")
    (tmp_path / "empty.npz").touch()
    for name in ("absent.npz", "text.npz", "empty.npz"):
        with pytest.raises(SystemExit) as stopped:
            main([str(tmp_path), "--expected", str(tmp_path / name)])
        assert stopped.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"hub_export.check: --expected {tmp_path / name} cannot be read: ")


def test_another_answer_than_in_memory_fails(tmp_path):
    save(Doubler(), tmp_path)
    name = "serving_default/y/0"
    check(tmp_path, {name: np.array([2.0], np.float32)})
    with pytest.raises(CheckFailed, match=rf"against the model in memory: {name} differs by 0\.5"):
        check(tmp_path, {name: np.array([2.5], np.float32)})
    with pytest.raises(CheckFailed, match=rf"{name} has the shapes \(1,\) and \(2,\)"):
        check(tmp_path, {name: np.array([2.0, 2.0], np.float32)})
    with pytest.raises(CheckFailed, match=f"only one of the two answers {name}"):
        check(tmp_path, {})


def test_a_sound_module_passes(tmp_path):
    assert "Mul" in check(save(Doubler(), tmp_path))


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (
            lambda: tf.debugging.Assert(
                tf.shape(tf.zeros([2]))[0] > tf.random.uniform([], 0, 1, tf.int32), [1]
            ),
            "cannot run: Assert",
        ),
        (lambda: tf.py_function(lambda: 1, [], tf.int32), "cannot run: EagerPyFunc"),
        (
            lambda: tf.constant("/home/someone/spiece.model"),
            "absolute path in it: /home/someone/spiece.model",
        ),
        (lambda: tokenize_with_offsets("a b"), "cannot run: .*TFText>WhitespaceTokenizeWithOffsets"),
    ],
)
def test_what_a_server_cannot_run_fails(extra, message, tmp_path):
    with pytest.raises(CheckFailed, match=message):
        check(save(Doubler(extra), tmp_path))


@pytest.mark.parametrize(
    ("shape", "outputs", "message"),
    [
        (
            [2, None],
            lambda x: x,
            r"x of serving_default has the shape \[2, -1\]: its rows must be those of the",
        ),
        (None, lambda x: tf.reshape(x, [-1]), r"x of serving_default has the shape \[\]"),
        ([None], tf.reduce_sum, r"y of serving_default has the shape \[\]: its rows"),
        ([None], lambda x: x[tf.newaxis], r"y of serving_default has the shape \[1, -1\]: its rows"),
        ([None], lambda x: tf.RaggedTensor.from_row_splits(x, [0, 1], validate=False), "y.* is not dense"),
        ([None], lambda x: tf.constant(["no", "yes"]), r"y of serving_default has the shape \[2\]: its rows"),
        ([None], lambda x: tf.repeat([["no", "yes"]], tf.size(x), axis=0), None),
    ],
)
def test_signatures_are_dense_and_of_any_batch(shape, outputs, message, tmp_path):
    module = tf.Module()
    module.function = tf.function(
        lambda x: {"y": outputs(x)}, input_signature=[tf.TensorSpec(shape, name="x")]
    )
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.function})
    saved = saved_model_pb2.SavedModel.FromString((tmp_path / "saved_model.pb").read_bytes())
    found = list(unserved_tensors(saved))
    assert found == [] if message is None else re.match(message, found[0])


def test_a_signature_of_fixed_rows_fails(tmp_path):
    module = Doubler()
    function = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec([1], name="x")])
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": function})
    write_requests(tmp_path, {"serving_default": {"x": tf.constant([1.0])}})
    with pytest.raises(CheckFailed, match=r"x of serving_default has the shape \[1\]"):
        check(tmp_path)


def test_pieces_of_a_vocabulary_may_look_like_paths(tmp_path):
    pieces = [f"/usr/bin{i}" for i in range(120)]
    check(
        save(Doubler(lambda: tf.gather(tf.constant(pieces), tf.random.uniform([], 0, 9, tf.int32))), tmp_path)
    )


def tokenize_with_offsets(text):
    return tensorflow_text.WhitespaceTokenizer().tokenize_with_offsets(text)[1]


@pytest.mark.parametrize(
    ("text", "is_path"),
    [
        ("/home/someone/spiece.model", True),
        ("/hömé/~ålice/my vocabulary", True),
        ("read from /home/someone", True),
        ("file:///spiece.model", True),
        (r"C:\Users", True),
        ("C:/Users", True),
        ("and/or/neither", False),
        ("/", False),
        ("/2", False),
        ("encoder/group_0/layer_0:0", False),
        ("https://tfhub.dev/google/albert_base/1", False),
        ("\n/home/someone\x00", False),  # numbers
    ],
)
def test_what_is_taken_for_an_absolute_path(text, is_path):
    assert has_absolute_path(text.encode()) == is_path


def test_two_loaders_that_answer_differently_fail(tmp_path, monkeypatch):
    save(Doubler(), tmp_path)
    in_session = session_answers(tmp_path, list(read_requests(tmp_path)))
    other = {name: array + 1 for name, array in in_session.items()}
    monkeypatch.setattr(check_module, "session_answers", lambda folder, requests: other)
    with pytest.raises(CheckFailed, match="as TensorFlow 1 and 2 load it: serving_default/y/0 differs by 1"):
        check(tmp_path)


def test_a_signature_without_a_warm_up_request_fails(exported, tmp_path):
    folder = shutil.copytree(exported.serving, tmp_path / "1")
    requests = dict(read_requests(folder))
    shutil.rmtree(folder / "assets.extra")
    with pytest.raises(CheckFailed, match="has no request for fill_mask, pair, serving_default, tokens"):
        check(folder)
    del requests["pair"]
    write_requests(folder, requests)
    with pytest.raises(CheckFailed, match="has no request for pair:"):
        check(folder)


def test_an_encoder_without_a_signature_fails(tmp_path):
    module = encoder_module(albert_tf.AlbertEncoder(TINY.replace(num_hidden_layers=1)))
    tf.saved_model.save(module, str(tmp_path / "bare"))
    with pytest.raises(CheckFailed, match="bare has no signature serving_default for other runtimes"):
        check(tmp_path / "bare")


def test_the_signature_of_an_encoder_is_asked_as_other_signatures_are(encoder, exported):
    (request,) = requests_of(exported.encoder, encoder)
    names = {f"serving_default/{name}/0" for name in ("pooled_output", "sequence_output")}
    assert session_answers(exported.encoder, [request]).keys() == names
    answers = {**call_answers(encoder), **signature_answers(encoder.signatures, [request])}
    check(exported.encoder, answers)
    name = "serving_default/sequence_output/0"
    with pytest.raises(CheckFailed, match=rf"{name} differs by 0\.5"):
        check(exported.encoder, {**answers, name: answers[name] + np.float32(0.5)})


def test_importing_the_library_leaves_stderr_alone():
    """Only a command may redirect it."""
    script = "import os; os.dup2 = None; import hub_export.export, hub_export.check"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_missing_asset_fails(exported, tmp_path):
    folder = shutil.copytree(exported.encoder, tmp_path / "encoder")
    (folder / "assets/spiece.model").unlink()
    with pytest.raises(CheckFailed, match=r"assets/spiece\.model is missing"):
        check(folder)


def test_a_warm_up_request_that_is_not_answered_fails(tmp_path):
    module = Doubler()
    tf.saved_model.save(module, str(tmp_path), signatures={"other": module.double})
    write_requests(tmp_path, {"serving_default": {"x": tf.constant([1.0])}})
    with pytest.raises(CheckFailed, match="does not load and answer: 'serving_default'"):
        check(tmp_path)


def test_a_damaged_module_is_one_line_and_status_1(exported, tmp_path, capsys):
    shutil.copytree(exported.encoder, tmp_path / "encoder")
    (tmp_path / "encoder/variables/variables.index").unlink()
    with pytest.raises(SystemExit) as stopped:
        main([str(tmp_path)])
    assert stopped.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"hub_export.check: {tmp_path / 'encoder'} does not load and answer: ")


def test_a_folder_without_modules_is_status_2(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([str(tmp_path)])
    assert stopped.value.code == 2
    assert capsys.readouterr().err == f"hub_export.check: no saved_model.pb in {tmp_path}\n"
