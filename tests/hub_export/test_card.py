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
from hub_export.__main__ import main
from hub_export.card import CARD, PIPELINES, model_card
from hub_export.check.__main__ import main as check
from hub_export.export import export
from hub_export.facts import Facts
from hub_export.serving import Served, serving_signatures
from tests.tiny import TINY

RUN = Path(__file__).resolve().parents[1] / "earlier/run"  # pre-trained for four steps and evaluated
SMALL = TINY.replace(num_hidden_layers=1)


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("modules")
    export(RUN, folder, seq_length=16, check=False, license="cc-by-4.0")
    return folder


@pytest.fixture(scope="module")
def card(modules):
    return (modules / CARD).read_text("utf-8")


def facts(model, run, **changes):
    """What would be told of an encoder that is exported alone."""
    known = {"task": {"model": "encoder"}, "step": 0, "dtype": "float32", "served": None}
    return Facts(
        **{"run": RunDirectory(run), "model": model, "signatures": {}, "version": 1, "license": None}
        | known
        | changes
    )


def rows(card, heading):
    """The table of a section, as texts by name."""
    section = card.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| (\w.*?) \| (.*) \|$", section, re.MULTILINE))


def test_the_figures_are_those_of_metrics_jsonl(card):
    lines = [json.loads(line) for line in (RUN / "metrics.jsonl").read_text().splitlines()]
    (expected,) = (line for line in lines if "eval_loss" in line)
    told = rows(card, "Evaluation")
    assert told.pop("figure") == ""
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
    assert told["train"] == "`prepared`"
    assert told["whole_word"] == "true"
    assert "tensorflow 2.21.0" in told["versions"]


def test_the_network_is_that_of_the_variables(card, modules):
    config = json.loads((RUN / "config.json").read_text())
    told = rows(card, "Network")
    assert {name: told[name] for name in ("hidden_size", "sharing", "vocab_size")} == {
        name: str(config[name]) for name in ("hidden_size", "sharing", "vocab_size")
    }
    total = albert_tf.parameter_count(albert_tf.AlbertConfig.from_json_file(RUN / "config.json"))["total"]
    assert told["parameters, encoder"] == f"{total:,}"
    reader = tf.train.load_checkpoint(str(modules / "encoder/variables/variables"))
    shapes = reader.get_variable_to_shape_map()
    stored = sum(
        int(tf.TensorShape(shape).num_elements())
        for name, shape in shapes.items()
        if "VARIABLE_VALUE" in name and "save_counter" not in name
    )
    assert told["parameters, all"] == f"{stored:,}"


def test_the_fields_in_front_are_yaml(card):
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["license"] == "cc-by-4.0" and front["pipeline_tag"] == "fill-mask"
    assert card.endswith("## License\n\ncc-by-4.0\n")


def test_the_python_in_it_runs(card, modules, monkeypatch):
    monkeypatch.chdir(modules)
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", os.environ.get("TF_USE_LEGACY_KERAS", "1"))
    first, second = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    known = {}
    exec(first, known)
    assert known["outputs"]["pooled_output"].shape == [2, 16]
    exec(second, known)
    assert known["answers"]["pooled_output"].shape == [1, 16]


def test_the_request_in_it_is_one_that_the_model_answers(card, modules):
    body = json.loads(re.search(r"-d '(.*)'", card)[1])
    signatures = tf.saved_model.load(str(modules / "serving/1")).signatures
    inputs = {name: tf.constant(value) for name, value in body["inputs"].items()}
    assert signatures[body["signature_name"]](**inputs)
    listed = re.search(r"It has the signatures (.*)\. Served", card)[1]
    assert set(re.findall(r"`(\w+)`", listed)) == set(signatures)


def test_a_check_does_not_mind_the_card(modules, capsys):
    for folder in (modules, modules / "encoder"):  # with the card, and without
        check([str(folder)])
        assert "encoder: passed" in capsys.readouterr().out


def test_a_run_that_says_nothing(tmp_path):
    card = model_card(facts(albert_tf.AlbertEncoder(SMALL), tmp_path, step=7))
    assert "Step 7. The run says nothing of how its weights came about." in card
    assert "The run has no figures of an evaluation of step 7." in card
    assert card.endswith("## License\n\nNone is named: ask whoever made the model and its text.\n")
    assert "license" not in yaml.safe_load(card.split("---\n")[1])
    known = {}
    exec("import tensorflow as tf\n" + re.search(r"^names = .*\n.*$", card, re.MULTILINE)[0], known)
    assert known["inputs"].keys() == {"input_word_ids", "input_mask", "input_type_ids"}


def test_figures_are_those_of_the_exported_step(tmp_path):
    lines = [
        {"step": 2, "eval_loss": 3.0, "eval_f1": 0.25},
        {"step": 4, "loss": 9.0, "eval_loss": 2.0},
        {"step": 4, "eval_loss": 1.5, "eval_accuracy": None},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    model = albert_tf.AlbertEncoder(SMALL)
    assert facts(model, tmp_path, step=2).figures() == {"loss": 3.0, "f1": 0.25}
    assert facts(model, tmp_path, step=4).figures() == {"loss": 1.5}
    assert facts(model, tmp_path, step=6).figures() == {}


def test_of_a_fine_tuned_run_it_is_the_best_step(tmp_path):
    model = albert_tf.AlbertClassifier(SMALL, num_labels=2)
    for step in (1, 2):
        model.variables[-1].assign([step, 0])
        albert_tf.save(model, tmp_path / "run", step=step, task={"task": "rte", "best_by": "eval_accuracy"})
    lines = [{"step": 1, "eval_accuracy": 0.75}, {"step": 2, "eval_accuracy": 0.5}]
    (tmp_path / "run/metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for step, accuracy in ((None, "0.75"), (2, "0.5")):
        export(tmp_path / "run", tmp_path / "out", encoder_only=True, check=False, step=step)
        card = (tmp_path / "out" / CARD).read_text("utf-8")
        assert rows(card, "Evaluation")["accuracy"] == accuracy
        assert f"Of step {step or 1}," in card


def test_folders_of_a_machine_are_not_told(tmp_path):
    recipe = {
        "train": ["/home/ada/corpus/*.txt", "more/text.txt"],
        "init_from": "hub:/home/ada/encoder",
        "input": "https://example.org/albert.tar.gz",
        "held_out": {"what": "1 % of /the/ text | more", "path": "/home/ada/held"},
        "command": "albert-tf pretrain --train /home/ada/corpus",
    }
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    card = model_card(facts(albert_tf.AlbertEncoder(SMALL), tmp_path))
    assert rows(card, "Training") == {
        "train": "`*.txt`, `more/text.txt`",
        "init_from": "hub:encoder",
        "input": "https://example.org/albert.tar.gz",
        "held_out": r"what 1 % of /the/ text \| more, path held",
    }
    assert "ada" not in card and str(tmp_path) not in card


def test_a_fine_tuned_model_tells_its_task_and_labels(tmp_path, tiny_tokenizer):
    task = {"model": "classifier", "num_labels": 3, "task": "mnli", "labels": ["yes", "no", "may|be"]}
    model = albert_tf.AlbertClassifier(SMALL, num_labels=3)
    served = Served(model, tiny_tokenizer.tokenize, 24, task)
    card = model_card(
        facts(model, tmp_path, task=task, served=served, signatures=serving_signatures(served), version=3)
    )
    assert "# ALBERT, fine-tuned for mnli" in card
    assert r"Its labels are `yes`, `no`, `may\|be`, in the order of the scores." in card
    assert yaml.safe_load(card.split("---\n")[1])["pipeline_tag"] == "text-classification"
    assert 'tf.saved_model.load("serving/3")' in card and "`pair`" in card
    assert "inputs have 24 tokens" in card
    assert "the mean of all tokens' states" not in card
    assert "the mean of all tokens' states" in model_card(
        facts(model, tmp_path, task={**task, "pooling": "mean"}, served=served)
    )
    total = sum(variable.numpy().size for variable in model.variables)
    assert rows(card, "Network")["parameters, all"] == f"{total:,}"


@pytest.mark.parametrize(
    ("make", "entries", "answer"),
    [
        (lambda: albert_tf.AlbertClassifier(SMALL, num_labels=1), {"columns": {"text": "a"}}, "score"),
        (lambda: albert_tf.AlbertTokenClassifier(SMALL, num_labels=2), {"labels": ["O", "B"]}, "labels"),
        (lambda: albert_tf.AlbertSpanLabeler(SMALL), {"max_query_length": 16}, "answer"),
        (lambda: albert_tf.AlbertMultipleChoice(SMALL, num_choices=2), {}, "choice"),
    ],
)
def test_each_kind_is_asked_in_python_as_its_signature_is(make, entries, answer, tmp_path, tiny_tokenizer):
    model = make()
    task = {**task_of(model), **entries}
    served = Served(model, tiny_tokenizer.tokenize, 64, task)
    signatures = serving_signatures(served)
    card = model_card(facts(model, tmp_path, task=task, served=served, signatures=signatures))
    functions = {name: signature.function for name, signature in signatures.items()}
    known = {"tf": tf, "served": SimpleNamespace(signatures=functions)}
    exec(re.search(r"^answers = .*$", card, re.MULTILINE)[0], known)
    assert answer in known["answers"]


def test_every_kind_of_model_has_a_pipeline():
    assert PIPELINES.keys() == MODELS.keys()


@pytest.mark.parametrize("name", [" ", "two\nlines"])
def test_a_license_without_a_name_is_refused(name, tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--run", str(RUN), "--output", str(tmp_path / "out"), "--license", name])
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"hub_export: license={name!r} must be a name in one line, such as apache-2.0"


def test_somebody_elses_readme_stays(tmp_path):
    (tmp_path / CARD).write_text("# My project\n")
    with pytest.raises(FileExistsError, match=r"README\.md is not the card of an export: name another"):
        export(RUN, tmp_path, encoder_only=True, check=False)
    assert (tmp_path / CARD).read_text() == "# My project\n"
    assert [path.name for path in tmp_path.iterdir()] == [CARD]


def test_a_card_is_replaced_with_the_modules_or_not_at_all(tmp_path, monkeypatch):
    export(RUN, tmp_path, encoder_only=True, check=False)
    first = (tmp_path / CARD).read_text()

    def fail(module, folder, signatures=None):
        raise OSError("full")

    with monkeypatch.context() as patched:
        patched.setattr(tf.saved_model, "save", fail)
        with pytest.raises(OSError, match="full"):
            export(RUN, tmp_path, encoder_only=True, check=False, license="mit")
    assert (tmp_path / CARD).read_text() == first
    export(RUN, tmp_path, encoder_only=True, check=False, license="mit")
    assert (tmp_path / CARD).read_text() == first.replace("---\n\n# ", 'license: "mit"\n---\n\n# ').replace(
        "None is named: ask whoever made the model and its text.", "mit"
    )
