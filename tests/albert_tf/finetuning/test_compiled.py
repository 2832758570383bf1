"""What XLA compiles, as it does by default on GPUs, gives the same answers, of few lengths."""

import json

import numpy as np
import pytest

from albert_tf import cli
from albert_tf.finetuning.finetune import finetune
from albert_tf.tasks.batches import compiled_lengths, task_batches
from albert_tf.tasks.classification import text_rows
from albert_tf.training import distribution, stages
from albert_tf.training.compute_settings import ComputeConfig
from albert_tf.training.distribution import uses_xla
from tests.albert_tf.finetuning.runs import RECIPE
from tests.albert_tf.pretraining.runs import metrics
from tests.albert_tf.tasks.records import text_records
from tests.tiny import SENTENCES

RECORDS = text_records(SENTENCES)


def test_batches_have_the_same_examples_and_four_lengths_at_most(piece_tokenizer):
    rows = text_rows(RECORDS, piece_tokenizer, {}, 128)
    plain, padded = (
        list(task_batches(rows, 100, 3, lengths, repeat=False)) for lengths in (None, compiled_lengths(100))
    )
    for one, other in zip(plain, padded, strict=True):
        assert one["rows"].numpy().tolist() == other["rows"].numpy().tolist()
        length = one["input_word_ids"].shape[1]
        np.testing.assert_array_equal(one["input_word_ids"], other["input_word_ids"][:, :length])
        assert not other["input_mask"][:, length:].numpy().any()
    assert {batch["input_mask"].shape[1] for batch in padded} <= set(compiled_lengths(100))
    assert len(compiled_lengths(512)) == 4


def test_gpus_compile_unless_told_otherwise(monkeypatch):
    for kind, by_default in (("CPU", False), ("GPU", True)):
        monkeypatch.setattr(distribution, "device_kind", lambda strategy, kind=kind: kind)
        assert [uses_xla(xla) for xla in (None, True, False)] == [by_default, True, False]


def test_elementwise_functions_are_compiled_where_nothing_else_is(monkeypatch):
    """A TPU's programs are compiled in any case."""
    for kind, expected in (("CPU", [True, False, True]), ("GPU", [False, False, True]), ("TPU", [False] * 3)):
        for module in (distribution, stages):
            monkeypatch.setattr(module, "device_kind", lambda strategy, kind=kind: kind)
        assert [stages.is_fused(ComputeConfig(xla=xla)) for xla in (None, True, False)] == expected


@pytest.mark.slow
def test_a_compiled_run_learns_the_same(asked, caplog):
    """But for rounding, and in batches of four lengths; a line announces each shape."""
    caplog.set_level("INFO", "absl")
    recipe = {**RECIPE, "dropout": 0.0, "learning_rate": 1e-4, "seq_length": 64}
    plain, compiled = asked(recipe=recipe), asked(recipe=recipe, xla=True)
    for run in (plain, compiled):
        finetune(run)
    for one, other in zip(metrics(plain.output), metrics(compiled.output), strict=True):
        assert one.get("loss") == pytest.approx(other.get("loss"), abs=1e-3)
        assert one.get("eval_loss") == pytest.approx(other.get("eval_loss"), abs=1e-3)
    lines = [line for line in caplog.messages if line.startswith("compiling the ")]
    shapes = {
        f"the {program} for 8 × {n} " for program in ("step", "prediction") for n in compiled_lengths(64)
    }
    announced = [shape for line in lines for shape in shapes if shape in line]
    assert len(lines) == len(announced) == len(set(announced))
    assert {shape.split()[1] for shape in announced} == {"step", "prediction"}


@pytest.mark.slow
def test_evaluate_and_predict_compile_if_asked(finetuned, own_table, tmp_path, capsys):
    evaluate = ["evaluate", "--run", str(finetuned), "--eval", str(own_table)]
    figures = {}
    for flag in ("--noxla", "--xla"):
        assert cli.run([*evaluate, flag]) == 0
        out, err = capsys.readouterr()
        figures[flag] = json.loads(out)
        assert ("compiling the prediction for " in err) == (flag == "--xla")
    assert figures["--xla"] == pytest.approx(figures["--noxla"])
    predict = ["predict", "--run", str(finetuned), "--input", str(own_table), "--xla"]
    assert cli.run([*predict, "--output", str(tmp_path / "said.csv")]) == 0
    assert "compiling the prediction for " in capsys.readouterr().err
