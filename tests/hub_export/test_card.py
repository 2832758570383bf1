"""The model card: its numbers are those of the run's files, and its code runs."""

import json
import os
import re

import yaml

import albert_tf
from albert_tf.runs.build_model import task_of
from albert_tf.runs.run_directory import RunDirectory
from hub_export.card import CARD, model_card
from hub_export.serving_signatures import ServingModel, serving_signatures
from tests.tiny import TINY, write_jsonl

RECIPE = {"optimizer": "adamw", "steps": 4, "versions": {"python": "3.12.1"}, "command": "albert-tf pretrain"}
METRICS = {"eval_loss": 5.9, "eval_mlm_loss": 5.2, "eval_sop_accuracy": 0.6}
SMALL = TINY.replace(num_hidden_layers=1)


def card_of(network, run, tokenizer=None, license=None, **task):
    """The card of a model, which is served if there is a tokenizer."""
    if not run.exists():
        albert_tf.save(network, run)
    run = RunDirectory(run)
    run.task = task_of(network) | task
    served = ServingModel(network, tokenizer, 24, run.task)
    signatures = {} if tokenizer is None else serving_signatures(served)
    step = run.default_step() or 0
    return model_card(run, step, network, "float32", 24, "serving/3", signatures, license, xla=False)


def facts_of(card):
    return json.loads(re.search(r"```json\n(.*?)```", card, re.DOTALL)[1])


def test_facts_are_those_of_the_files_of_the_run_and_of_the_exported_step(piece_tokenizer, tmp_path):
    network, run = albert_tf.AlbertPretrainer(SMALL), tmp_path / "run"
    albert_tf.save(network, run, recipe=RECIPE, step=4)
    write_jsonl(run / "metrics.jsonl", [{"step": 2, "eval_loss": 6.0}, {"step": 4, **METRICS}])
    card = card_of(network, run, piece_tokenizer, "cc-by-4.0")
    facts = facts_of(card)
    assert facts["step"] == 4
    assert facts["evaluation"] == {"loss": 5.9, "mlm_loss": 5.2, "sop_accuracy": 0.6}
    assert facts["recipe"] == {name: value for name, value in RECIPE.items() if name != "command"}
    assert facts["network"] == network.config.to_dict()
    assert facts["parameters"] == {
        "all": sum(variable.numpy().size for variable in network.variables),
        "encoder": albert_tf.parameter_count(network.config)["total"],
    }
    assert facts["requests"].keys() == {"serving_default", "pair", "fill_mask", "embed", "tokens"}
    assert yaml.safe_load(card.split("---\n")[1])["license"] == "cc-by-4.0"
    assert card.endswith("## License\n\ncc-by-4.0\n")


def test_the_python_in_it_runs(exported, monkeypatch):
    modules = exported.encoder.parent
    monkeypatch.chdir(modules)
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", os.environ.get("TF_USE_LEGACY_KERAS", "1"))
    known = {}
    for code in re.findall(r"```python\n(.*?)```", (modules / CARD).read_text("utf-8"), re.DOTALL):
        exec(code, known)
    assert known["outputs"]["pooled_output"].shape == [2, 32]
    assert known["answers"]["pooled_output"].shape == [1, 32]


def test_folders_of_a_machine_are_not_told(tmp_path):
    held_out = {"of": "documents", "begin": 0.0, "end": 0.01, "what": "1 % of /the/ text"}
    recipe = {
        "train": ["/home/ada/corpus/*.txt", "more/text.txt"],
        "init_from": "hub:/home/ada/encoder",
        "input": "https://example.org/albert.tar.gz",
        "held_out": {**held_out, "path": "/home/ada/held"},
        "command": "albert-tf pretrain --train /home/ada/corpus",
    }
    encoder = albert_tf.AlbertEncoder(SMALL)
    albert_tf.save(encoder, tmp_path / "run", recipe=recipe)
    card = card_of(encoder, tmp_path / "run")
    assert facts_of(card)["recipe"] == {
        "train": ["*.txt", "more/text.txt"],
        "init_from": "hub:encoder",
        "input": "https://example.org/albert.tar.gz",
        "held_out": {**held_out, "path": "held"},
    }
    assert "ada" not in card and str(tmp_path) not in card
