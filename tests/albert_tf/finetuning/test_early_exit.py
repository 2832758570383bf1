"""A run with a classifier after each layer: its loss, its resume, where its texts leave, its exports."""

import csv
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf import cli
from albert_tf.conversion.convert import convert
from albert_tf.errors import InputError
from albert_tf.finetuning.evaluation import evaluate_finetuned
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.finetuned_model import load_finetuned
from albert_tf.finetuning.predict import predict
from albert_tf.tasks.columns import Columns
from hub_export.export import export
from tests.albert_tf.finetuning.runs import CONFIG, RECIPE, ROWS
from tests.albert_tf.finetuning.test_resume import assert_same_weights
from tests.albert_tf.pretraining.runs import weights

L = 4
DEEP = {"config": CONFIG.replace(num_hidden_layers=L, num_hidden_groups=1, initializer_range=0.5)}
EXITS = {**RECIPE, "learning_rate": 1e-4, "early_exit": True}
TEXTS = [row["text"] for row in ROWS]


@pytest.fixture(scope="module")
def exits(asked, made_once):
    """A run of six updates."""
    made = made_once("exits", lambda folder: finetune(asked(folder, recipe=EXITS, **DEEP)))
    return made


@pytest.fixture(scope="module")
def layers(exits, own_table):
    """The layer at which each text leaves, and its scores, by patience."""
    trained = load_finetuned(exits)
    records = trained.spec.format.read(own_table, True, Columns("text", None, "kind"))
    found = {n: trained._replace(patience=n).predict(records, 8) for n in range(1, L + 1)}
    return {n: (x.layers, np.stack([p.scores for p in x.predictions])) for n, x in found.items()}


@pytest.mark.slow
def test_its_files_say_so_and_it_goes_on_exactly(exits, asked, tmp_path):
    task = json.loads((exits / "task.json").read_text())
    assert task["early_exit"] is True and "exit_threshold" not in task
    before, after = weights(exits, 3), weights(exits, 6)
    assert before["exits/output_weights:0"].shape == (L - 1, 2, CONFIG.hidden_size)
    for name in ("exits/output_weights:0", "exits/output_bias:0"):
        assert np.all(np.any(before[name] != after[name], axis=tuple(range(1, before[name].ndim))))
    copy = shutil.copytree(exits, tmp_path / "run")
    shutil.rmtree(copy / "checkpoints")
    shutil.copytree(exits / "checkpoints", copy / "checkpoints", ignore=shutil.ignore_patterns("*-6*"))
    finetune(asked(copy, recipe=EXITS, **DEEP))
    assert_same_weights(copy, exits)
    with pytest.raises(InputError, match="early_exit is True there and False here"):
        finetune(asked(exits, recipe=RECIPE, **DEEP))


@pytest.mark.slow
def test_it_begins_with_a_run_of_one_classifier(exits, asked, tmp_path):
    lines = []
    changes = {"config": None, "vocabulary": None, "recipe": {**EXITS, "steps": 1, "warmup_steps": 0}}
    again = asked(tmp_path / "again", **{**changes, "init_from": exits})
    finetune(again, lines.append)
    assert any(line == f"weights from {str(exits)!r}" for line in lines)  # nothing is new
    plain = asked(
        tmp_path / "plain",
        **{**changes, "recipe": {**changes["recipe"], "early_exit": False}},
        init_from=exits,
    )
    finetune(plain)
    assert not any(name.startswith("exits") for name in weights(plain.output, 1))
    finetune(asked(tmp_path / "exits", **changes, init_from=plain.output), lines.append)
    assert lines[-1] and any(line.endswith("; new: exits") for line in lines)


@pytest.mark.slow
def test_texts_leave_whatever_they_are_batched_with(exits, layers, own_table):
    assert layers[L - 1][0].tolist() == layers[L][0].tolist() == [L] * len(TEXTS)
    assert 2 <= layers[1][0].min() < layers[1][0].max()
    trained = load_finetuned(exits)
    records = trained.spec.format.read(own_table, True, Columns("text", None, "kind"))
    one = trained._replace(patience=1).predict(records, 1)
    np.testing.assert_array_equal(one.layers, layers[1][0])
    np.testing.assert_allclose(np.stack([p.scores for p in one.predictions]), layers[1][1], atol=1e-5)
    whole = trained.predict(records, 8)
    assert whole.layers is None
    np.testing.assert_allclose(np.stack([p.scores for p in whole.predictions]), layers[L][1], atol=1e-5)


@pytest.mark.slow
def test_everything_that_answers_takes_a_patience(exits, layers, own_table, tmp_path):
    best = layers[1][1].max(axis=1)
    predict(exits, own_table, tmp_path / "out.csv", patience=1)
    with (tmp_path / "out.csv").open() as file:
        np.testing.assert_allclose([float(row["score"]) for row in csv.DictReader(file)], best, atol=1e-5)
    answers = albert_tf.pipeline(exits, patience=1, batch_size=5)(TEXTS)
    np.testing.assert_allclose([answer["score"] for answer in answers], best, atol=1e-5)
    model = albert_tf.TextClassifier.from_pretrained(exits)
    for n in (1, 2):
        np.testing.assert_allclose(model.predict_proba(TEXTS, patience=n), layers[n][1], atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(TEXTS), layers[L][1], atol=1e-5)
    with pytest.raises(InputError, match="early_exit"):
        model.fit(TEXTS, [0] * len(TEXTS))


@pytest.mark.slow
def test_so_does_what_is_served(exits, layers, tmp_path):
    export(exits, tmp_path / "hub", seq_length=32)
    answers = albert_tf.pipeline(tmp_path / "hub/serving", patience=1)(TEXTS)
    best = layers[1][1].max(axis=1)
    np.testing.assert_allclose([answer["score"] for answer in answers], best, atol=1e-5)
    served = tf.saved_model.load(str(tmp_path / "hub/serving/1")).signatures["early_exit"]
    patience = np.arange(len(TEXTS), dtype=np.int32) % L + 1
    found = served(text=tf.constant(TEXTS), patience=tf.constant(patience))
    expected = [layers[n][0][row] for row, n in enumerate(patience)]
    np.testing.assert_array_equal(found["layers"], expected)
    assert "other runtimes convert" in (tmp_path / "hub/README.md").read_text()


@pytest.mark.slow
def test_the_table_of_analyse(exits, layers, own_table, tmp_path, capsys):
    output = tmp_path / "out"
    words = ["analyse", "exits", "--run", exits, "--eval", own_table, "--output", output]
    assert cli.run(list(map(str, words))) == 0
    assert capsys.readouterr().out.startswith("patience")
    rows = list(csv.DictReader((output / "exits.csv").open()))
    assert [row["patience"] for row in rows] == ["1", "2", str(L)]
    for row in rows:
        assert float(row["layers"]) == pytest.approx(layers[int(row["patience"])][0].mean())
        assert float(row["ms_per_example"]) > 0
        figures = evaluate_finetuned(exits, file=own_table, patience=int(row["patience"])).metrics
        assert float(row["accuracy"]) == figures["accuracy"]
    assert rows[-1]["speed_up"] == "1.0" and (output / "exit_metrics.png").exists()


@pytest.mark.slow
def test_regression_has_a_threshold(asked, tmp_path):
    made = asked(
        tmp_path / "run",
        task="regression",
        columns=Columns("text", None, "length"),
        recipe={**EXITS, "steps": 3},
        loop={"eval_every": 3, "checkpoint_every": 3},
        **DEEP,
    )
    finetune(made)
    lengths = [row["length"] for row in ROWS]
    model = albert_tf.load(made.output)
    assert model.exit_threshold == pytest.approx(np.std(lengths) / 10)
    np.testing.assert_allclose(model.exits.output_bias, np.full([L - 1, 1], np.mean(lengths)), atol=0.1)


@pytest.mark.slow
def test_others_have_one_classifier(exits, tmp_path):
    done = convert("run", "huggingface", exits, tmp_path / "there")
    assert done.unused == ["exits/output_weights", "exits/output_bias"]
    convert("huggingface", "run", tmp_path / "there", tmp_path / "back")
    found, expected = weights(tmp_path / "back", 0), weights(exits)
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


@pytest.mark.slow
def test_a_patience_needs_exits(finetuned, exits, own_table, tmp_path):
    for run, options, message in (
        (finetuned, {}, "patience=2: the model has no exits"),
        (exits, {"xla": True}, "patience=2: XLA"),
    ):
        with pytest.raises(InputError, match=message):
            predict(run, own_table, tmp_path / "out.csv", patience=2, **options)
