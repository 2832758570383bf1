"""The model card: its numbers are those of the run's files, and its code runs."""

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import tensorflow as tf
import yaml

import albert_tf
from albert_tf.checkpoints.directory import RunDirectory
from albert_tf.checkpoints.models import MODELS, task_of
from hub_export.card import CARD, PIPELINES, Facts, model_card
from hub_export.serving import Served, serving_signatures
from tests.tiny import TINY

RUN = Path(__file__).resolve().parents[1] / "earlier/run"  # pre-trained for four steps and evaluated
SMALL = TINY.replace(num_hidden_layers=1)


def card_of(network, run, tokenizer=None, license=None, **task):
    """The card of a model, which is served if there is a tokenizer, and its signatures."""
    run = RunDirectory(run)
    run.task = task or task_of(network)
    served = None if tokenizer is None else Served(network, tokenizer, task.get("seq_length", 24), run.task)
    signatures = {} if served is None else serving_signatures(served)
    facts = Facts(run, run.default_step() or 0, network, "float32", served, signatures, 3, license)
    return model_card(facts), signatures


def rows(card, heading):
    """The table of a section, as texts by name."""
    section = card.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| (\w.*?) \| (.*) \|$", section, re.MULTILINE))


@pytest.fixture(scope="module")
def card(piece_tokenizer):
    return card_of(albert_tf.load(RUN), RUN, piece_tokenizer, "cc-by-4.0")[0]


def test_the_metrics_are_those_of_the_exported_step(card):
    lines = [json.loads(line) for line in (RUN / "metrics.jsonl").read_text().splitlines()]
    (expected,) = (line for line in lines if "eval_loss" in line)
    told = rows(card, "Evaluation")
    assert {f"eval_{name}" for name in told} == expected.keys() - {"step"}
    for name, value in told.items():
        assert float(value) == pytest.approx(expected[f"eval_{name}"], rel=1e-3)
    assert f"Of step {expected['step']}," in card


def test_the_recipe_is_that_of_recipe_json(card):
    recipe = json.loads((RUN / "recipe.json").read_text())
    told = rows(card, "Training")
    assert told.keys() == {name for name, value in recipe.items() if value is not None} - {"command"}
    for name in ("optimizer", "learning_rate", "batch_size", "steps", "seq_length", "vocabulary"):
        assert told[name] == str(recipe[name])
    assert (told["train"], told["whole_word"]) == ("`prepared`", "true")
    assert "tensorflow 2.21.0" in told["versions"]


def test_the_network_and_the_fields_in_front(card):
    config = albert_tf.AlbertConfig.from_json_file(RUN / "config.json")
    told = rows(card, "Network")
    for name in ("hidden_size", "sharing", "vocab_size"):
        assert told[name] == str(getattr(config, name))
    assert told["parameters, encoder"] == f"{albert_tf.parameter_count(config)['total']:,}"
    total = sum(variable.numpy().size for variable in albert_tf.load(RUN).variables)
    assert told["parameters, all"] == f"{total:,}"
    front = yaml.safe_load(card.split("---\n")[1])
    assert (front["license"], front["pipeline_tag"]) == ("cc-by-4.0", "fill-mask")
    assert card.endswith("## License\n\ncc-by-4.0\n")


def test_the_python_in_it_runs(exported, monkeypatch):
    modules = exported.encoder.parent
    monkeypatch.chdir(modules)
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", os.environ.get("TF_USE_LEGACY_KERAS", "1"))
    first, second = re.findall(r"```python\n(.*?)```", (modules / CARD).read_text("utf-8"), re.DOTALL)
    known = {}
    exec(first, known)
    assert known["outputs"]["pooled_output"].shape == [2, 32]
    exec(second, known)
    assert known["answers"]["pooled_output"].shape == [1, 32]


def test_a_run_that_says_nothing(tmp_path):
    card, _ = card_of(albert_tf.AlbertEncoder(SMALL), tmp_path)
    assert "Step 0. The run says nothing of how its weights came about." in card
    assert "The run has no metrics of an evaluation of step 0." in card
    assert "None is named" in card
    assert "license" not in yaml.safe_load(card.split("---\n")[1])
    known = {}
    exec("import tensorflow as tf\n" + re.search(r"^names = .*\n.*$", card, re.MULTILINE)[0], known)
    assert known["inputs"].keys() == {"input_word_ids", "input_mask", "input_type_ids"}


def test_folders_of_a_machine_are_not_told(tmp_path):
    recipe = {
        "train": ["/home/ada/corpus/*.txt", "more/text.txt"],
        "init_from": "hub:/home/ada/encoder",
        "input": "https://example.org/albert.tar.gz",
        "held_out": {"what": "1 % of /the/ text | more", "path": "/home/ada/held"},
        "command": "albert-tf pretrain --train /home/ada/corpus",
    }
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    card, _ = card_of(albert_tf.AlbertEncoder(SMALL), tmp_path)
    assert rows(card, "Training") == {
        "train": "`*.txt`, `more/text.txt`",
        "init_from": "hub:encoder",
        "input": "https://example.org/albert.tar.gz",
        "held_out": r"what 1 % of /the/ text \| more, path held",
    }
    assert "ada" not in card and str(tmp_path) not in card


def test_a_fine_tuned_model_tells_its_task_and_labels(tmp_path, piece_tokenizer):
    task = {"model": "classifier", "num_labels": 3, "task": "mnli", "labels": ["yes", "no", "may|be"]}
    card, _ = card_of(
        albert_tf.AlbertClassifier(SMALL, num_labels=3), tmp_path, piece_tokenizer, **task, pooling="mean"
    )
    assert "# ALBERT, fine-tuned for mnli" in card
    assert r"Its labels are `yes`, `no`, `may\|be`, in the order of the scores." in card
    assert yaml.safe_load(card.split("---\n")[1])["pipeline_tag"] == "text-classification"
    assert 'tf.saved_model.load("serving/3")' in card and "`pair`" in card
    assert "inputs have 24 tokens" in card
    assert "the mean of all tokens' states" in card


def test_a_request_is_asked_in_python_and_by_rest_as_its_signature_is(tmp_path, piece_tokenizer):
    model = albert_tf.AlbertMultipleChoice(SMALL, num_choices=2)
    card, signatures = card_of(model, tmp_path, piece_tokenizer, **task_of(model), seq_length=32)
    signature = signatures["serving_default"]
    called = {"serving_default": lambda **inputs: inputs}
    known = {"tf": tf, "served": SimpleNamespace(signatures=called)}
    exec(re.search(r"^answers = .*$", card, re.MULTILINE)[0], known)
    for name, value in known["answers"].items():
        assert value.numpy().tolist() == tf.constant(signature.example[name]).numpy().tolist()
    body = json.loads(re.search(r"-d '(.*)'", card)[1].replace("'\\''", "'"))
    assert body == {"signature_name": "serving_default", "inputs": signature.example}
    listed = re.search(r"It has the signatures (.*)\. Served", card)[1]
    assert set(re.findall(r"`(\w+)`", listed)) == set(signatures)


def test_every_kind_of_model_has_a_pipeline():
    assert PIPELINES.keys() == MODELS.keys()
