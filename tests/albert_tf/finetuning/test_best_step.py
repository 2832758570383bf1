"""Which step of a fine-tuned run is taken, kept, and waited for."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.conversion.convert import convert
from albert_tf.finetuning.finetuned_model import load_finetuned
from albert_tf.runs.build_model import build_model
from albert_tf.runs.run_directory import RunDirectory, StepOrder, read_metrics
from hub_export.export import export
from tests.tiny import TINY, change_json, write_jsonl

NETWORK = TINY.replace(num_hidden_layers=1)


def write_figures(run, values, figure="eval_accuracy", losses=()):
    losses = dict(losses)
    lines = [
        {"step": step, "eval_loss": losses.get(step, 1.0), figure: value} for step, value in values.items()
    ]
    write_jsonl(run / "metrics.jsonl", lines)


@pytest.fixture(scope="module")
def steps(tiny_vocabulary, tmp_path_factory):
    """A fine-tuned run of four steps with weights of their own, without figures."""
    folder = tmp_path_factory.mktemp("steps") / "run"
    entries = {"task": "sst-2", "labels": ["0", "1"], "seq_length": 32}
    model = build_model(NETWORK, {"model": "classifier", "num_labels": 2})
    for step in (2, 4, 6, 8):
        for variable in model.variables:
            variable.assign(tf.fill(variable.shape, step / 100))
        albert_tf.save(model, folder, tiny_vocabulary, step=step, task=entries)
    change_json(folder / "task.json", best_by="eval_accuracy")
    return folder


def test_the_best_evaluation_decides_and_the_loss_among_equals(steps, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(steps, run)
    equal = {2: 0.5, 4: 0.9, 6: 0.9, 8: 0.9}
    for values, losses, best in (
        ({2: 0.5, 4: 0.9, 6: 0.7, 8: 0.8}, {}, 4),
        (equal, {}, 4),  # of equals the first
        ({2: None, 4: None, 6: 0.1, 8: None}, {}, 6),  # which were NaN
        ({2: None, 4: None}, {}, 8),  # of none the newest
        ({}, {}, 8),
        ({2: 0.5, 3: 0.99, 4: 0.6}, {}, 4),  # whose checkpoint is gone
        (equal, {2: 0.1, 4: 0.4, 6: 0.3, 8: 0.3}, 6),  # not step 2, whose accuracy is lower
        (equal, {4: 0.4, 6: 0.3, 8: None}, 6),
        (equal, {4: None, 6: None, 8: 9.0}, 8),
    ):
        write_figures(run, values, losses=losses)
        assert RunDirectory(run).default_step() == best, (values, losses)
    for other in ("eval_f1", "accuracy"):  # the latter of training
        write_figures(run, {2: 0.9, 4: 0.1}, other)
        assert RunDirectory(run).default_step() == 8
    write_figures(run, {1: 0.2, 2: 0.1, 3: 0.1}, "eval_rmse", {1: 0.1, 2: 0.5, 3: 0.4})
    assert StepOrder("eval_rmse").step(read_metrics(run), [1, 2, 3]) == 3
    change_json(run / "task.json", best_by="eval_loss")
    write_figures(run, equal, losses={2: 0.5, 4: 0.2, 6: 0.3})
    assert RunDirectory(run).default_step() == 4
    assert RunDirectory(steps).default_step() == 8


@pytest.mark.parametrize(
    ("values", "taken", "told"),
    [
        ({2: 0.5, 4: 0.9, 6: 0.7, 8: 0.8}, 4, None),
        ({2: 0.5, 3: 0.99, 4: 0.9}, 4, "the best step, 3, has no checkpoint: the next best, 4, is used"),
        ({3: 0.99}, 8, "the newest, 8, is used"),
        ({}, 8, "the newest, 8, is used"),
    ],
)
def test_another_step_than_the_best_is_told(steps, tmp_path, caplog, values, taken, told):
    run = tmp_path / "run"
    shutil.copytree(steps, run)
    write_figures(run, values)
    for _ in range(2):  # it is told once
        assert load_finetuned(run).step == taken
    lines = [line for line in caplog.messages if "is used" in line]
    assert len(lines) == (0 if told is None else 1)
    assert told is None or lines[0].endswith(told)


def test_a_pretrained_run_is_taken_at_its_newest(tiny_vocabulary, tmp_path):
    model = build_model(NETWORK, {"model": "pretrainer", "sentence_objective": "sop"})
    for step in (1, 2):
        albert_tf.save(model, tmp_path / "run", tiny_vocabulary, step=step)
    write_figures(tmp_path / "run", {1: 0.9, 2: 0.1})
    assert RunDirectory(tmp_path / "run").default_step() == 2


@pytest.mark.slow
def test_all_who_read_a_run_take_it_unless_they_are_told(steps, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(steps, run)
    write_figures(run, {2: 0.5, 4: 0.9, 6: 0.7, 8: 0.8})
    np.testing.assert_allclose(albert_tf.load(run).encoder.pooler.kernel, np.full([32, 32], 0.04), rtol=1e-6)
    assert load_finetuned(run).step == 4
    assert load_finetuned(run, 8).step == 8
    export(run, tmp_path / "hub", encoder_only=True, check=False)
    variables = tf.saved_model.load(str(tmp_path / "hub/encoder")).variables
    np.testing.assert_allclose(variables[0].numpy().ravel()[:5], 0.04, rtol=1e-6)
    for step, expected in ((None, 0.04), (2, 0.02)):
        convert("run", "google", run, tmp_path / f"google-{step}", step=step)
        (index,) = (tmp_path / f"google-{step}").glob("*.index")
        found = tf.train.load_checkpoint(str(index.with_suffix(""))).get_tensor("bert/pooler/dense/bias")
        np.testing.assert_allclose(found, expected, rtol=1e-6)
