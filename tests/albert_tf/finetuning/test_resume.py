"""Stopping a fine-tuning run and going on: bit for bit where nothing has changed."""

import dataclasses
import json
import shutil
import signal

import numpy as np
import pytest

import albert_tf
from albert_tf.errors import InputError
from albert_tf.finetuning.finetune import finetune
from albert_tf.runs.checkpoints import checkpoint_steps
from albert_tf.signals import Preempted
from albert_tf.tasks.columns import Columns
from tests.albert_tf.commands import ends, words_of
from tests.albert_tf.finetuning.runs import CONFIG, LOOP, RECIPE, ROWS
from tests.albert_tf.pretraining.runs import metrics, weights
from tests.albert_tf.training.hosts import start
from tests.albert_tf.training.toy import dying_after, signalled
from tests.tiny import TINY, write_jsonl


def assert_same_weights(found, expected, step=6):
    np.testing.assert_equal(weights(found, step), weights(expected, step))


def test_sigterm_saves_and_the_same_settings_resume(finetuned, asked, monkeypatch):
    """In the middle of an epoch of five batches; nothing but its own folder is needed to go on."""
    made = asked(loop={"log_every": 1, "eval_every": 3, "checkpoint_every": 100})
    with monkeypatch.context() as patch, pytest.raises(Preempted, match="after step 4"):
        signalled(patch, signal.SIGTERM, 4, "loss")
        finetune(made)
    assert checkpoint_steps(made.output) == [3, 4]
    lines = []
    finetune(made, lines.append)
    assert any(line.endswith("going on from step 4, to 6; 38 examples") for line in lines)
    assert_same_weights(made.output, finetuned)
    evaluations = [[x for x in metrics(run) if "eval_loss" in x] for run in (made.output, finetuned)]
    assert evaluations[0] == evaluations[1]


@pytest.mark.slow
def test_more_steps_go_on(finetuned, asked, tmp_path):
    copy, lines = tmp_path / "run", []
    shutil.copytree(finetuned, copy)
    finetune(asked(copy), lines.append)
    assert "is at its last step, 6" in lines[0]
    # The warm-up, which nobody names, is that of the run and not a tenth of the steps.
    unsaid = {name: value for name, value in RECIPE.items() if name != "warmup_steps"}
    finetune(asked(copy, recipe={**unsaid, "steps": 8}), lines.append)
    assert any(line.endswith("going on from step 6, to 8; 38 examples; extended from 6") for line in lines)
    recipe = json.loads((copy / "recipe.json").read_text())
    assert (recipe["steps"], recipe["warmup_steps"]) == (8, 2)
    assert [line["step"] for line in metrics(copy) if "eval_loss" in line] == [3, 6, 8]
    with pytest.raises(InputError, match="run is at step 8 already: `steps` 6 is less than that"):
        finetune(asked(copy))
    epochs = {name: value for name, value in RECIPE.items() if name != "steps"} | {"epochs": 1}
    with pytest.raises(InputError, match=r"at step 8 already: `epochs` 1 \(5 steps\) is less than that"):
        finetune(asked(copy, recipe=epochs))
    for file in (copy / "checkpoints").glob("ckpt-*.data-*"):
        file.write_bytes(b"")
    lines.clear()
    with pytest.raises(InputError, match="none of the checkpoints"):
        finetune(asked(copy, recipe={**unsaid, "steps": 9}), lines.append)
    assert lines == []  # nothing was extended


@pytest.mark.slow
def test_a_tagger_remembers_its_words(asked, tmp_path):
    """It splits plain text as it was trained, and goes on so. Without entities there is no F1."""
    (tmp_path / "own.conll").write_text("(\to\nAda\tb_per\n)\to\n\n" * 8)
    (tmp_path / "none.conll").write_text("(\to\nsea\to\n\n" * 2)
    files = {"train": tmp_path / "own.conll", "eval": tmp_path / "none.conll"}
    made, lines = asked(task="tagging", **files, columns=None), []
    finetune(made, lines.append)
    assert "tags: 'o' (16), 'b_per' (8)" in lines
    assert any("no evaluation has a f1" in line for line in lines)
    assert [line["eval_f1"] for line in metrics(made.output) if "eval_accuracy" in line] == [None, None]
    task = made.output / "task.json"
    entries = json.loads(task.read_text())
    assert entries["words"] == "punctuation"
    entities = albert_tf.pipeline(made.output)("(Ada/Löwe)")
    assert all({entity["label"]} <= {"per"} for entity in entities)
    with pytest.raises(InputError, match="words is 'punctuation' there and 'spaces' here"):
        finetune(asked(made.output, task="tagging", **files, columns=None, words="spaces"))
    finetune(asked(made.output, task="tagging", **files, columns=None), lines.append)
    assert any("is at its last step" in line for line in lines)
    assert json.loads(task.read_text()) == entries
    for wrong in ({"task": "tagging", **files, "columns": None, "words": "marks"}, {"words": "spaces"}):
        with pytest.raises(InputError, match="words"):
            asked(**wrong)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recipe": {**RECIPE, "learning_rate": 0.02}}, r"learning_rate is 0\.01 there and 0\.02 here"),
        ({"recipe": {**RECIPE, "pooling": "mean"}}, "pooling is 'first' there and 'mean' here"),
        ({"recipe": {**RECIPE, "long": "windows"}}, "long is 'truncate' there and 'windows' here"),
        ({"seed": 7}, "seed is 0 there and 7 here"),
        ({"freeze": "encoder"}, "freeze is None there and 'encoder' here"),
        ({"config": CONFIG.replace(num_hidden_layers=2)}, "num_hidden_layers is 1 there and 2 here"),
        ({"columns": Columns("text", "text", "kind")}, "columns is .* there and .*'text_pair'.* here"),
        ({"task": "regression", "columns": Columns("text", None, "length")}, "num_labels is 2 there and 1"),
        ({"eval": None}, "other examples than .*own.jsonl"),
        ({"config": None, "init_from": "nowhere"}, "init_from is None there and 'nowhere' here"),
        ({"tokenizer": {"lowercase": False}}, "lowercase"),
    ],
)
def test_other_settings_are_refused(finetuned, asked, changes, message):
    with pytest.raises(InputError, match=message):
        finetune(asked(finetuned, **changes))
    assert checkpoint_steps(finetuned) == [3, 6]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": "Another text."}, r"other examples than .*changed\.jsonl"),
        ({"kind": "verse"}, r"labels is \['speech', 'tale'\] there and"),
    ],
)
def test_other_data_is_refused_wherever_it_lies(
    finetuned, asked, change, message, own_table, tmp_path, monkeypatch
):
    rows = [*ROWS[:3], ROWS[3] | change, *ROWS[4:]]
    file = write_jsonl(tmp_path / "changed.jsonl", rows)
    with pytest.raises(InputError, match=message):
        finetune(asked(finetuned, train=file))
    if "text" in change:
        with pytest.raises(InputError, match=message):
            finetune(asked(finetuned, eval=file))
    monkeypatch.setattr("albert_tf.finetuning.finetune.train", lambda *_, **__: None)
    shutil.copy(own_table, tmp_path / "moved.jsonl")
    finetune(asked(finetuned, train=tmp_path / "moved.jsonl"))


@pytest.mark.slow
def test_a_run_that_never_got_to_a_checkpoint_starts_again(finetuned, asked, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(finetuned, copy)
    shutil.rmtree(copy / "checkpoints")
    (copy / "metrics.jsonl").unlink()
    lines = []
    finetune(asked(copy, loop={**LOOP, "log_every": 6}), lines.append)
    assert any("training from step 0, to 6" in line for line in lines)
    assert_same_weights(copy, finetuned)


@pytest.mark.slow
def test_a_run_of_fewer_layers_resumes_exactly(asked, tiny_vocabulary, tmp_path):
    """By its own network, whose depth cannot change."""

    def shallow(output=None, layers=1):
        made = asked(output, config=None, vocabulary=None, init_from=origin)
        return dataclasses.replace(made, num_hidden_layers=layers)

    origin, network = tmp_path / "deep", CONFIG.replace(vocab_size=TINY.vocab_size, num_hidden_layers=2)
    albert_tf.save(albert_tf.AlbertEncoder(network), origin, tiny_vocabulary)
    straight, stopped = shallow(), shallow()
    finetune(straight)
    with dying_after(3):
        finetune(stopped)
    finetune(stopped)
    assert_same_weights(stopped.output, straight.output)
    with pytest.raises(InputError, match="num_hidden_layers is 1 there and 2 here"):
        finetune(shallow(stopped.output, 2))


# Fine-tuning in two processes that train together.


@pytest.mark.slow
def test_two_hosts_train_as_one_does(own_table, tiny_vocabulary, tmp_path):
    config = tmp_path / "tiny.json"
    config.write_text(CONFIG.to_json_string())
    flags = {
        "task": "classification", "train": own_table, "eval": own_table, "text": "text", "label": "kind",
        "config": config, "vocabulary": tiny_vocabulary, "batch_size": 8, "seq_length": 32, "steps": 6,
        "warmup_steps": 2, "learning_rate": 0.001, "dropout": 0.0, "classifier_dropout": 0.0, "log_every": 1,
        "eval_every": 3, "checkpoint_every": 3,
    }  # fmt: skip
    logs = [tmp_path / "host-0.log", tmp_path / "host-1.log"]
    for name, hosts in (("one", logs[:1]), ("two", logs)):
        command = ["-m", "albert_tf", *words_of("finetune", output=tmp_path / name, **flags)]
        assert ends(start(command, hosts), hosts) == [0] * len(hosts), logs[0].read_text()[-3000:]
    assert json.loads((tmp_path / "two/recipe.json").read_text())["replicas"] == 2
    assert checkpoint_steps(tmp_path / "two") == checkpoint_steps(tmp_path / "one")
    expected, found = weights(tmp_path / "one", 6), weights(tmp_path / "two", 6)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-4, err_msg=name)
    one, two = ([x for x in metrics(tmp_path / name) if "eval_loss" in x] for name in ("one", "two"))
    for line, other in zip(one, two, strict=True):
        assert other == pytest.approx(line, rel=1e-3)
