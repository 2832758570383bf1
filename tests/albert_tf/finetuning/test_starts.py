"""Where the weights of a fine-tuned run begin."""

import dataclasses
import shutil

import numpy as np
import pytest

import albert_tf
from albert_tf.errors import InputError
from albert_tf.finetuning.finetune import finetune, finetune_runs
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.runs.build_model import build_model
from albert_tf.tasks.columns import Columns
from tests.albert_tf.finetuning.runs import RECIPE, ROWS
from tests.albert_tf.pretraining.runs import weights, weights_of
from tests.tiny import TINY, change_json, write_jsonl

NETWORK = TINY.replace(num_hidden_layers=1, initializer_range=0.3)
HEAD = {"classifier/output_weights:0", "classifier/output_bias:0"}


@pytest.fixture(scope="module")
def saved(tiny_vocabulary, tmp_path_factory):
    """A run of a model, as others left it."""

    def make(model, vocabulary=tiny_vocabulary, **entries):
        folder = tmp_path_factory.mktemp("saved") / "run"
        albert_tf.save(build_model(NETWORK, model), folder, vocabulary, task=entries)
        return folder

    return make


@pytest.fixture(scope="module")
def pretrained(saved):
    return saved({"model": "pretrainer", "sentence_objective": "sop"})


@pytest.fixture
def start_of(asked, begun):
    """What a run begins with: its weights by name, and what it tells of them."""

    def start(origin, num_hidden_layers=None, **changes):
        made = asked(**{"init_from": origin, "config": None, "vocabulary": None, **changes})
        made, lines = dataclasses.replace(made, num_hidden_layers=num_hidden_layers), []
        training, _ = begun(finetune, made, lines.append)
        return weights_of(training.model), lines

    return start


@pytest.mark.parametrize("sharing", ["all", "none"])
def test_fewer_layers_than_the_origin_has(sharing, start_of, asked, tiny_vocabulary, tmp_path):
    """Shared ones are the same weights fewer times; of others every second is taken."""
    network = TINY.replace(num_hidden_layers=4, sharing=sharing, initializer_range=0.3)
    albert_tf.save(build_model(network, {"model": "encoder"}), tmp_path / "deep", tiny_vocabulary)
    found, _ = start_of(tmp_path / "deep", num_hidden_layers=2)
    by_hand, there = AlbertEncoder(network.replace(num_hidden_layers=2)), weights(tmp_path / "deep")
    for variable in by_hand.variables:
        origin = variable.name.replace("/group_1/", "/group_2/")
        np.testing.assert_array_equal(found.pop(variable.name), there[origin], err_msg=origin)
    assert found.keys() == HEAD
    for number, message in ((0, "=0 must be at least 1"), (5, "=5 must be at most 4: .*deep has no more")):
        with pytest.raises(InputError, match=f"num_hidden_layers{message}"):
            start_of(tmp_path / "deep", number)
    with pytest.raises(InputError, match="num_hidden_layers=2 of a `config`"):
        dataclasses.replace(asked(), num_hidden_layers=2)


def assert_copied(found, origin, but=()):
    """Every variable that both have is the same, bit for bit, but those."""
    there = weights(origin)
    for name in found.keys() & there.keys():
        assert np.array_equal(found[name], there[name]) == (name not in but), name
    assert {name for name in found if name not in there} <= HEAD


def test_a_pretrained_run(pretrained, start_of):
    found, lines = start_of(pretrained)
    assert_copied(found, pretrained)
    assert found.keys() - weights(pretrained).keys() == HEAD
    assert lines[0] == f"weights from '{pretrained}'; new: classifier"
    assert lines[1].startswith("labels: ")


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({}, True),
        ({"labels": ["tale", "speech"]}, False),
        ({"task": "rte"}, False),
        ({"pooling": "mean"}, False),
        ({"task": None}, True),  # converted
        ({"task": None, "labels": None}, False),  # whose names are 0 and 1
        ({"task": None, "multi_label": True}, False),
    ],
)
def test_a_finetuned_run(saved, start_of, changes, is_same):
    """The head goes on only if it has learnt to tell the same apart, from the same."""
    entries = {"task": "classification", "labels": ["speech", "tale"], "seq_length": 32, **changes}
    entries = {name: value for name, value in entries.items() if value is not None}
    pooling = {"pooling": entries.pop("pooling")} if "pooling" in entries else {}
    origin = saved({"model": "classifier", "num_labels": 2, **pooling}, **entries)
    found, lines = start_of(origin)
    assert_copied(found, origin, but=() if is_same else HEAD - {"classifier/output_bias:0"})
    assert ("new: classifier" not in lines[0]) == is_same


LENGTHS = [row["length"] for row in ROWS]
NUMBERS = {"task": "regression", "columns": Columns("text", None, "length")}


def test_a_regression_begins_at_the_mean(pretrained, start_of):
    found, lines = start_of(pretrained, **NUMBERS)
    assert found["classifier/output_bias:0"] == pytest.approx([np.mean(LENGTHS)], rel=1e-5)
    assert any(line.startswith(f"scores: {min(LENGTHS):g} to {max(LENGTHS):g}") for line in lines)


@pytest.mark.parametrize(
    ("bias", "is_same"),
    [(np.median(LENGTHS), True), (min(LENGTHS) - 0.1, False), (max(LENGTHS) + 0.1, False)],
)
def test_a_regression_goes_on_where_one_of_the_same_scale_was(saved, start_of, bias, is_same):
    """On another scale it would take thousands of steps to move."""
    columns = {"text": "text", "label": "length"}
    origin = saved({"model": "classifier", "num_labels": 1}, task="regression", columns=columns)
    model = albert_tf.load(origin)
    model.classifier.output_bias.assign([bias])
    albert_tf.save(model, origin, step=5)
    found, lines = start_of(origin, **NUMBERS)
    assert_copied(found, origin, but=() if is_same else HEAD)
    expected = bias if is_same else np.mean(LENGTHS)
    assert found["classifier/output_bias:0"] == pytest.approx([expected], rel=1e-5)
    assert ("new: classifier" not in lines[0]) == is_same


def test_the_best_step_of_a_finetuned_run_is_taken(saved, start_of):
    entries = {"task": "rte", "labels": ["a", "b"], "seq_length": 32}
    origin = saved({"model": "classifier", "num_labels": 2}, **entries)
    albert_tf.save(build_model(NETWORK, {"model": "classifier", "num_labels": 2}), origin, step=5)
    change_json(origin / "task.json", best_by="eval_accuracy")
    lines = [{"step": 0, "eval_accuracy": 0.7}, {"step": 5, "eval_accuracy": 0.6}]
    write_jsonl(origin / "metrics.jsonl", lines)
    found, _ = start_of(origin)
    for name in found.keys() - HEAD:
        np.testing.assert_array_equal(found[name], weights(origin, 0)[name], err_msg=name)


@pytest.mark.slow
def test_the_run_that_it_began_with_may_go(pretrained, asked, tmp_path, monkeypatch):
    origin = tmp_path / "origin"
    shutil.copytree(pretrained, origin)
    changes, lines = {"init_from": origin, "config": None, "vocabulary": None}, []
    made = asked(recipe={**RECIPE, "steps": 1, "warmup_steps": 0}, **changes)
    finetune(made)
    shutil.rmtree(origin)
    monkeypatch.setattr("albert_tf.finetuning.finetune.train", lambda *_, **__: None)
    finetune(made, lines.append)
    assert not [line for line in lines if line.startswith("weights")]


def test_a_run_that_was_not_finetuned_is_no_output(asked, pretrained, saved, tmp_path, monkeypatch):
    """It is refused before anything is read, and stays as it was."""
    begun = tmp_path / "begun"
    shutil.copytree(pretrained, begun)
    (begun / "recipe.json").write_text('{"steps": 125000, "warmup_steps": 3125}')
    classifier = {"task": "classification", "labels": ["speech", "tale"], "seq_length": 32}
    of_text_classifier = saved({"model": "classifier", "num_labels": 2}, **classifier)
    monkeypatch.setattr("albert_tf.finetuning.data.read_splits", None)
    for run in (begun, pretrained, of_text_classifier):
        before = sorted(path.name for path in run.rglob("*"))
        with pytest.raises(InputError, match=rf"{run} .*init_from"):
            finetune(asked(run))
        assert sorted(path.name for path in run.rglob("*")) == before
    (tmp_path / "seeds").mkdir()
    shutil.copytree(begun, tmp_path / "seeds/seed-1")
    with pytest.raises(InputError, match=r"seed-1 .*init_from"):  # before the first one trains
        finetune_runs(asked(tmp_path / "seeds"), 2)
    assert [path.name for path in (tmp_path / "seeds").iterdir()] == ["seed-1"]


def test_starts_that_are_none(asked, pretrained, saved, published_vocabulary, tmp_path):
    run, other = tmp_path / "run", published_vocabulary
    without = saved({"model": "encoder"}, vocabulary=None)
    cases = [
        ({"init_from": without}, r"run has no vocabulary"),
        ({"init_from": pretrained, "vocabulary": other}, r"30k-clean\.model is not the vocabulary of"),
        ({"init_from": without, "vocabulary": other}, "30000"),
        ({"init_from": pretrained, "tokenizer": {"lowercase": False}}, "{'lowercase': False}"),
        ({"init_from": pretrained, "recipe": {**RECIPE, "seq_length": 65}}, "seq_length=65 .*64"),
    ]
    for changes, message in cases:
        with pytest.raises(InputError, match=message):
            finetune(asked(run, **{"config": None, "vocabulary": None, **changes}))
    for origin in (tmp_path / "nowhere", f"hub:{tmp_path / 'nowhere'}"):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            finetune(asked(run, config=None, init_from=origin))
    assert not run.exists()


def test_positions_that_the_origin_has_not_trained(run, start_of):
    """It has 64, and sequences of 32 tokens."""
    name = "embeddings/position_embeddings:0"
    found, _ = start_of(run, recipe={**RECIPE, "seq_length": 64})
    np.testing.assert_array_equal(found[name], np.tile(weights(run)[name][:32], [2, 1]))
