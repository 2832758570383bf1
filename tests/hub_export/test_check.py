import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text

import albert_tf
from hub_export import module_comparison
from hub_export.check import check_main
from hub_export.module_comparison import CheckFailed, check, find_faults, read_requests, write_requests
from hub_export.modules import encoder_module
from tests.albert_tf.commands import mistake
from tests.tiny import TINY

X = tf.TensorSpec([None], name="x")


def save(folder, function=lambda x: {"y": 2 * x}, extra=lambda: None, spec=X, name="serving_default"):
    """A module with a signature, and perhaps with something in its graph that should not be there."""
    module = tf.Module()

    @tf.function(input_signature=[spec])
    def answer(x):
        with tf.control_dependencies([op for op in [extra()] if op is not None]):
            return function(x)

    module.answer = answer
    tf.saved_model.save(module, str(folder), signatures={name: answer})
    request = {"x": tf.ones([size or 1 for size in spec.shape or [1]])}
    write_requests(folder, [("serving_default", request)])
    return folder


@pytest.mark.slow
def test_modules_of_an_export_pass(exported, capsys):
    """With the card among them."""
    check_main([str(exported.encoder.parent)])
    encoder, preprocessor, serving = capsys.readouterr().out.splitlines()
    assert encoder == "encoder: passed; ops of TF Text: none"
    assert preprocessor.startswith(
        "preprocessor: passed; ops of TF Text: CaseFoldUTF8, NormalizeUTF8, SentencepieceOp"
    )
    assert serving.startswith("serving/1: passed")


def test_another_answer_than_in_memory_fails(tmp_path):
    save(tmp_path)
    name = "serving_default/y/0"
    assert "Mul" in check(tmp_path, {name: np.array([2.0], np.float32)})
    for expected, said in (
        ({name: np.array([2.5], np.float32)}, r"differs by 0\.5"),
        ({name: np.array([2.0, 2.0], np.float32)}, r"has the shapes \(1,\) and \(2,\)"),
        ({}, "only one of the two"),
    ):
        with pytest.raises(CheckFailed, match=rf"against the model in memory: .*{said}"):
            check(tmp_path, expected)


def test_differences_are_relative_to_numbers_above_1(tmp_path):
    folder = save(tmp_path / "thousands", lambda x: {"y": 2000 * x})
    name = "serving_default/y/0"
    check(folder, {name: np.array([2000.01], np.float32)})
    with pytest.raises(CheckFailed, match=r"differs by 0\.1"):
        check(folder, {name: np.array([2000.1], np.float32)})


def test_two_loaders_that_answer_differently_fail(tmp_path, monkeypatch):
    run_in_session = module_comparison.run_in_session
    monkeypatch.setattr(
        module_comparison,
        "run_in_session",
        lambda *x: {name: array + 1 for name, array in run_in_session(*x).items()},
    )
    with pytest.raises(CheckFailed, match="as TensorFlow 1 and 2 load it: serving_default/y/0 differs by 1"):
        check(save(tmp_path))


@pytest.mark.parametrize(
    ("extra", "op"),
    [
        (lambda: tf.debugging.Assert(tf.random.uniform([]) > -1, [1]), "Assert"),
        (lambda: tf.py_function(lambda: 1, [], tf.int32), "EagerPyFunc"),
        (lambda: tokenize_with_offsets("a b"), "TFText>WhitespaceTokenizeWithOffsets"),
    ],
)
def test_what_a_server_cannot_run_fails(extra, op, tmp_path):
    with pytest.raises(CheckFailed, match=f"cannot run: .*{op}"):
        check(save(tmp_path, extra=extra))


def tokenize_with_offsets(text):
    return tensorflow_text.WhitespaceTokenizer().tokenize_with_offsets(text)[1]


@pytest.mark.parametrize(
    ("shape", "outputs", "message"),
    [
        ([2, None], lambda x: x, r"x of serving_default of the shape \[2, -1\]"),
        (None, lambda x: tf.reshape(x, [-1]), r"x of serving_default of the shape \[\]"),
        ([None], tf.reduce_sum, r"y of serving_default of the shape \[\]"),
        ([None], lambda x: tf.constant(["no", "yes"]), r"y of serving_default of the shape \[2\]"),
    ],
)
def test_a_signature_without_a_row_for_each_of_the_request_fails(shape, outputs, message, tmp_path):
    save(tmp_path, lambda x: {"y": outputs(x)}, spec=tf.TensorSpec(shape, name="x"))
    with pytest.raises(CheckFailed, match=message):
        check(tmp_path)


def test_a_ragged_output_is_a_fault(tmp_path):
    save(tmp_path, lambda x: {"y": tf.RaggedTensor.from_row_splits(x, [0, 1], validate=False)})
    assert "not dense" in next(find_faults(tmp_path, tf.saved_model.load(str(tmp_path))))


def test_a_signature_without_a_warm_up_request_is_a_fault(exported, serving, tmp_path):
    folder = shutil.copytree(exported.serving, tmp_path / "1")
    requests = read_requests(folder)
    shutil.rmtree(folder / "assets.extra")
    del requests["pair"]
    write_requests(folder, requests.items())
    assert "no request for pair" in next(find_faults(folder, serving))


def test_a_warm_up_request_that_is_not_answered_fails(tmp_path):
    with pytest.raises(CheckFailed, match="does not load and answer: 'serving_default'"):
        check(save(tmp_path, name="other"))


def test_an_encoder_without_a_signature_fails(tmp_path):
    module = encoder_module(albert_tf.AlbertEncoder(TINY.replace(num_hidden_layers=1)))
    tf.saved_model.save(module, str(tmp_path / "bare"))
    with pytest.raises(CheckFailed, match="bare has no signature serving_default for other runtimes"):
        check(tmp_path / "bare")


def test_a_missing_asset_is_a_fault(exported, encoder, tmp_path):
    folder = shutil.copytree(exported.encoder, tmp_path / "encoder")
    (folder / "assets/spiece.model").unlink()
    assert "assets/spiece.model" in next(find_faults(folder, encoder))


def test_a_damaged_module_is_one_line_and_status_1(tmp_path, capsys):
    save(tmp_path / "doubler")
    (tmp_path / "doubler/saved_model.pb").write_bytes(b"no model")
    line = mistake(capsys, tmp_path, run=check_main, status=1)
    assert line.startswith(f"python -m hub_export.check: {tmp_path / 'doubler'} does not load and answer: ")


def test_a_folder_without_modules_is_status_2(tmp_path, capsys):
    """Or with one of an export that was killed."""
    save(tmp_path / ".export.writing-x/export/encoder")
    assert str(tmp_path) in mistake(capsys, tmp_path, run=check_main)
