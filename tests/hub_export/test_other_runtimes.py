"""`hub_export --to`: what OpenVINO, ONNX Runtime and LiteRT answer, from the folder that it writes.

tests/examples/test_runtimes.py answers from text with such folders.
"""

import functools
import gzip
import importlib.util
import json
import re

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.constants import EXPORT_RUNTIMES, INPUT_MASK
from albert_tf.errors import InputError
from albert_tf.runs.run_directory import open_run
from albert_tf.tasks.serving import Signature
from hub_export import other_runtimes
from hub_export.__main__ import main
from hub_export.module_comparison import CheckFailed
from hub_export.other_runtimes import RUNTIMES, export_to, largest_difference
from tests.albert_tf.commands import mistake
from tests.tiny import CORPUS, TINY

SENTENCES = CORPUS.replace("\n\n", "\n").splitlines()[:8]
WIDE = TINY.replace(hidden_size=128, intermediate_size=512, num_hidden_layers=6)
QUESTIONS = {"seq_length": 48, "max_query_length": 16, "doc_stride": 16, "max_answer_length": 20, "n_best": 9}
MODELS = {
    "encoder": lambda: (albert_tf.AlbertPretrainer(TINY), {}),
    "classifier": lambda: (
        albert_tf.AlbertClassifier(WIDE, 3, early_exit=True),
        {"task": "sst-2", "labels": ["a", "b", "c"], "seq_length": 32},
    ),
    "tagger": lambda: (albert_tf.AlbertTokenClassifier(TINY, 2), {"labels": ["O", "B-X"], "seq_length": 32}),
    "answerability": lambda: (albert_tf.AlbertSpanLabeler(TINY, answerability=True), QUESTIONS),
    "choices": lambda: (albert_tf.AlbertMultipleChoice(TINY, 3), {"seq_length": 32}),
}


@pytest.fixture(scope="module")
def run_of(tmp_path_factory, tiny_vocabulary):
    """The run of a kind, with large weights."""
    folder = tmp_path_factory.mktemp("runs")

    @functools.cache
    def make(kind):
        model, task = MODELS[kind]()
        for number, variable in enumerate(model.variables):
            variable.assign_add(tf.random.stateless_normal(variable.shape, seed=[number, 3], stddev=0.1))
        albert_tf.save(model, folder / kind, tiny_vocabulary, task=task)
        return folder / kind

    return make


def write_texts(folder, kind):
    """A file of texts, or of pairs."""
    pairs = [f"Who kept it\t{text}" for text in SENTENCES]
    (folder / "texts").write_text("\n".join(pairs if kind == "answerability" else SENTENCES))
    return folder / "texts"


def table_of(card):
    """The cells of the card's table, without its head, by network."""
    rows = [line.strip("| ").split(" | ") for line in card.read_text().splitlines() if line.startswith("|")]
    return {name: cells for name, *cells in rows[2:]}


CASES = [("openvino", kind) for kind in MODELS] + [("onnx", "answerability"), ("litert", "tagger")]


@pytest.mark.slow
@pytest.mark.parametrize(("runtime", "kind"), CASES)
def test_networks_answer_as_tensorflow(runtime, kind, run_of, tmp_path, monkeypatch):
    """And nobody is told: packages of OpenVINO report their use to its makers otherwise."""
    sender = pytest.importorskip("openvino_telemetry.utils.sender").TelemetrySender
    monkeypatch.setattr(sender, "send", lambda *_: pytest.fail("a report of the use is sent"))
    run, model = run_of(kind), albert_tf.load(run_of(kind))
    texts = None if kind == "choices" else write_texts(tmp_path, kind)
    card = export_to(run, tmp_path / "out", runtime, texts)
    shape = [1, 3, 32] if kind == "choices" else [1, 32]
    ids = np.random.default_rng(0).integers(5, TINY.vocab_size, shape).astype(np.int32)
    types = np.broadcast_to(np.arange(32) > 9, shape).astype(np.int32)
    inputs = {"input_word_ids": ids, "input_mask": np.ones_like(ids), "input_type_ids": types}
    if kind == "answerability" and runtime != "openvino":
        inputs = {name: rows[:, :20] for name, rows in inputs.items()}
    found = RUNTIMES[runtime].load(card.parent / EXPORT_RUNTIMES[runtime])(inputs)
    expected = model.encoder(inputs) if kind == "encoder" else model(inputs)
    assert found.keys() == (
        {"pooled_output", "sequence_output"} if kind == "encoder" else expected.keys() - {"exit_logits"}
    )
    for name, array in found.items():
        np.testing.assert_allclose(array, expected[name], atol=1e-4, err_msg=name)
    there = {"README.md", "config.json", "task.json", "tokenizer.json", "spiece.model"}
    assert there < {path.name for path in card.parent.iterdir()}
    task = {"seq_length": TINY.max_position_embeddings, **json.loads((run / "task.json").read_text())}
    task |= {"takes_pairs": False} if kind == "classifier" else {}
    assert json.loads((card.parent / "task.json").read_text()) == task
    assert ("no early exits" in card.read_text()) == (kind == "classifier")
    if texts is None:
        return
    title, rows = RUNTIMES[runtime].title, table_of(card)
    assert list(rows) == ["TensorFlow, float32", f"{title}, float32", f"{title}, int8"]
    assert [cells[2] for cells in rows.values()][:2] == ["–" if kind == "encoder" else "100.0 %"] * 2
    assert float(rows[f"{title}, float32"][3]) < 1e-4 < float(rows[f"{title}, int8"][3])
    if kind == "classifier":  # layers share their weights in int8, too
        size = [(card.parent / f"{name}.bin").stat().st_size for name in ("model", "model_int8")]
        assert size[1] < 0.35 * size[0]


def test_differences_and_agreement_by_hand():
    row = {"input_mask": np.array([[1, 1, 0]])}
    one = {"start_logits": np.array([[1.0, 2.0, 0.0]]), "logits": np.array([[[0, 1.0], [3, 1], [0, 1]]])}
    other = {"start_logits": np.array([[1.0, 2.5, 9.0]]), "logits": np.array([[[1, 0.0], [3, 1], [9, 1]]])}
    assert largest_difference(one, other, row) == 1.0  # not 9, which is at padding
    agreement = other_runtimes._format_agreement
    assert agreement([one], [one], [row]) == "100.0 %"
    shifted = {**other, "start_logits": other["start_logits"] - [[0, 0, 9]]}
    assert agreement([one], [shifted], [row]) == "66.7 %"  # of a start and two tags, a tag not
    number = {"logits": np.ones([1, 1])}
    assert agreement([number], [number], [row], other_runtimes.decisions_of({"num_labels": 1})) == "–"


def test_decisions_by_a_threshold_are_compared_by_label():
    row = {"input_mask": np.ones([1, 3])}
    one, other = ({"logits": np.array([[2.0, x, -2.0]])} for x in (0.5, -0.5))  # as many labels as tokens
    agreement, decisions = other_runtimes._format_agreement, other_runtimes.decisions_of
    entries = {"model": "classifier", "num_labels": 3, "labels": ["a", "b", "c"], "multi_label": True}
    assert agreement([one], [other], [row]) == "100.0 %"
    assert agreement([one], [other], [row], decisions({**entries, "threshold": 0.5})) == "66.7 %"
    two = {"model": "classifier", "num_labels": 2, "labels": ["a", "b"], "threshold": 0.1}
    one, other = ({"logits": np.array([[2.0, x]])} for x in (0.0, -2.0))  # 0.12 and 0.02
    assert agreement([one], [other], [row], decisions(two)) == "0.0 %"


def test_a_pooled_output_as_wide_as_the_input_is_compared_whole():
    row = {"input_mask": np.array([[1, 1, 0, 0]])}
    for name, apart in (("pooled_output", 5.0), ("start_logits", 0.0)):
        one, other = ({name: np.array([[0.0, 0.0, 0.0, x]])} for x in (0.0, 5.0))
        assert largest_difference(one, other, row) == apart


def test_bad_input_leaves_nothing(run_of, tmp_path, monkeypatch, capsys):
    run, out = run_of("choices"), tmp_path / "out"
    texts = write_texts(tmp_path, "choices")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for runtime, missing in (("openvino", "openvino nncf"), ("onnx", "tf2onnx onnxruntime")):
        with pytest.raises(InputError, match=f"pip install {missing}$"):
            export_to(run, out, runtime, texts)
    monkeypatch.undo()
    monkeypatch.setattr(other_runtimes.Runtime, "check_installed", lambda *_: None)
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "latin").write_bytes(b"caf\xe9\n")
    for name, problem in (("latin", "UTF-8"), ("empty", "is empty")):
        with pytest.raises(InputError, match=rf"{name}.*{problem}"):
            export_to(run_of("tagger"), out, "openvino", tmp_path / name)
    for kind, file, problem in (
        ("choices", texts, ""),
        ("answerability", texts, ": write two texts with a tab between them into each line"),
    ):
        with pytest.raises(InputError, match=re.escape(f"calibrate='{file}'{problem}")):
            export_to(run_of(kind), out, "openvino", file)
    for flags, named in (
        (["--to", "openvino", "--dtype", "bfloat16", "--xla"], "--dtype, --xla"),
        (["--calibrate", "x"], "--calibrate x"),
        (["--to", "onnx", "--calibrate", "nowhere.txt"], "nowhere.txt: no such file"),
        (["--encoder_only", "--version", "7"], "--version: of no use"),
    ):
        assert named in mistake(capsys, "--run", run, "--output", out, *flags, run=main)
    assert not out.exists() and not list(tmp_path.glob(".out*"))


@pytest.mark.slow
def test_other_answers_leave_nothing(run_of, tmp_path, monkeypatch):
    monkeypatch.setattr(other_runtimes, "RUNTIME_TOLERANCE", -1)
    with pytest.raises(CheckFailed, match="OpenVINO"):
        export_to(run_of("choices"), tmp_path / "out", "openvino")
    assert not list(tmp_path.iterdir())


def test_texts_to_calibrate_by_may_be_compressed(run_of, tmp_path):
    run = open_run(run_of("classifier"))
    (tmp_path / "texts.gz").write_bytes(gzip.compress("\ufeffThe tower.\r\nThe sea.\r\n".encode()))
    (tmp_path / "texts.txt").write_text("The tower.\nThe sea.\n")
    for name in ("texts.gz", "texts.txt"):
        texts = other_runtimes.read_calibration_texts(run, tmp_path / name)
        assert texts == [["The tower."], ["The sea."]]


@pytest.mark.parametrize("kind", ["classifier", "tagger"])
def test_a_tab_makes_no_pairs_for_a_run_of_single_texts(kind, run_of, tmp_path):
    (tmp_path / "texts").write_text("The tower.\tThe sea.\nBees.\tBread.\n")
    with pytest.raises(InputError, match=re.escape(f"calibrate='{tmp_path}/texts'")):
        other_runtimes.read_calibration_texts(open_run(run_of(kind)), tmp_path / "texts")


def test_of_many_texts_512_are_taken_evenly(run_of, tmp_path):
    (tmp_path / "numbers").write_text("".join(f"{number}\n" for number in range(1000)))
    run = open_run(run_of("classifier"))
    numbers = [int(text) for (text,) in other_runtimes.read_calibration_texts(run, tmp_path / "numbers")]
    assert len(numbers) == 512
    assert set(np.diff(numbers)) == {1, 2} and numbers[0] < 2 and numbers[-1] > 997


@pytest.mark.parametrize(("kind", "least"), [("answerability", 5), ("tagger", 3)])
def test_the_least_length_is_that_of_the_head(kind, least, run_of, tmp_path, monkeypatch):
    """One of SQuAD 2.0 follows up five starts."""
    monkeypatch.setattr(other_runtimes.Runtime, "check_installed", lambda *_: None)
    with pytest.raises(InputError, match=rf"seq_length={least - 1} .* {least} "):
        export_to(run_of(kind), tmp_path / "out", "litert", seq_length=least - 1)
    assert not (tmp_path / "out").exists()


def test_converted_networks_are_compared_relatively_to_numbers_above_1(tmp_path):
    """And floats alone: of starts that are as good, runtimes may take any first."""
    example, expected = {INPUT_MASK: [[1, 1]]}, {"logits": [[1995.3]], "start_top_index": [[0, 1]]}
    signature = Signature(lambda **_: {name: tf.constant(x) for name, x in expected.items()}, example)
    for logit, is_close in ((1995.8, True), (1999.0, False)):
        outputs = {"logits": np.array([[logit]]), "start_top_index": np.array([[1, 0]])}
        target = RUNTIMES["onnx"]._replace(load=lambda file, outputs=outputs: lambda row: outputs)
        network = other_runtimes.ConvertedNetwork(
            target, run=None, model=None, signature=signature, seq_length=2
        )
        if is_close:
            network.check_close(tmp_path)
            continue
        with pytest.raises(CheckFailed, match="ONNX"):
            network.check_close(tmp_path)
