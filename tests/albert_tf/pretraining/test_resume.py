"""Stopping and going on: bit for bit where nothing has changed."""

import functools
import json
import logging
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf import cli
from albert_tf.data.prepare import prepare
from albert_tf.errors import InputError
from albert_tf.pretraining import pretrain as run_module
from albert_tf.pretraining.evaluation import evaluate_run
from albert_tf.pretraining.pretrain import pretrain
from albert_tf.runs.checkpoints import checkpoint_steps
from hub_export.export import export
from tests.albert_tf.commands import ends, pretraining, start, wait_for
from tests.albert_tf.pretraining import killed_script
from tests.albert_tf.pretraining.runs import CONFIG, RECIPE, metrics, stopped_at, weights
from tests.tiny import TINY


def test_a_resumed_run_ends_with_the_same_weights(run, settings, tmp_path):
    """How a run dies, the tests of the loop show with a toy, and test_killed.py with whole processes."""
    copy = stopped_at(run, 3, tmp_path / "run")
    assert checkpoint_steps(copy) == [3]
    pretrain(settings(copy))
    assert checkpoint_steps(copy) == [3, 6]
    np.testing.assert_equal(weights(copy), weights(run))
    lines = metrics(copy)
    assert [line["step"] for line in lines if "loss" in line] == [2, 4, 6]
    assert [line["step"] for line in lines if "eval_loss" in line] == [3, 6]


def test_what_lacks_a_part_is_nothing_to_go_on_from(run, settings, tmp_path):
    """A checkpoint of a model alone is no damage either: `save` has written it."""
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    albert_tf.save(albert_tf.load(run), copy, step=8)
    with pytest.raises(InputError, match=r"ckpt-8\.index holds no optimizer"):
        pretrain(settings(copy, recipe=RECIPE.replace(steps=9)))
    assert checkpoint_steps(copy) == [3, 6, 8]
    (copy / "spiece.model").unlink()
    with pytest.raises(InputError, match="vocabulary"):
        pretrain(settings(copy))


def test_other_settings_are_refused_by_name(run, settings):
    recipe, config = RECIPE.replace(learning_rate=0.02), CONFIG.replace(num_hidden_layers=3)
    with pytest.raises(InputError) as refused:
        pretrain(settings(run, recipe=recipe, config=config, lowercase=False))
    for difference in ("learning_rate is 0.01", "num_hidden_layers is 2", "lowercase is True"):
        assert difference in str(refused.value)
    assert checkpoint_steps(run) == [3, 6]


def test_text_is_the_same_where_its_content_is(run, settings, tiny_corpus, tmp_path, monkeypatch):
    """Moved text is; other content under the same name, and a further file, are named."""
    file = Path(shutil.copy(tiny_corpus, tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_module, "train", lambda *_, **__: None)
    pretrain(settings(run, train=[file.name]))
    file.write_text(tiny_corpus.read_text().replace("a", "e", 1))
    (tmp_path / "further.txt").write_text("A further text.\n")
    for train, named in (([file], file.name), ([tiny_corpus, "further.txt"], r"further\.txt")):
        with pytest.raises(InputError, match=f"other text: {named}"):
            pretrain(settings(run, train=[str(file) for file in train]))
    assert checkpoint_steps(run) == [3, 6]


def test_evaluation_text_may_be_another_but_not_change_under_its_name(
    run, settings, tiny_corpus, tmp_path, monkeypatch
):
    """Else losses on different texts would be compared unnoticed."""
    shutil.copytree(run, tmp_path / "run")
    shutil.copy(tiny_corpus, tmp_path / "held_out.txt")
    monkeypatch.chdir(tmp_path)
    pretrain(settings(tmp_path / "run", eval=["held_out.txt"]), lambda line: None)
    (tmp_path / "held_out.txt").write_text("Another text.\nOf two sentences.\n" * 20)
    monkeypatch.setattr(run_module, "train", lambda *_, **__: None)
    with pytest.raises(InputError, match=r"`eval` of other text: held_out\.txt"):
        pretrain(settings(tmp_path / "run", eval=["held_out.txt"]))
    pretrain(settings(tmp_path / "run", eval=["./held_out.txt"]))


def test_text_of_an_older_run_is_compared_by_its_path(run, settings, tiny_corpus, tmp_path):
    """Its recipe says nothing of the content, and one name stands for many texts."""
    shutil.copytree(run, tmp_path / "run")
    recipe = json.loads((run / "recipe.json").read_text())
    older = {name: value for name, value in recipe.items() if not name.endswith("_files")}
    (tmp_path / "run" / "recipe.json").write_text(json.dumps(older))
    (tmp_path / tiny_corpus.name).write_text("Another text.\n")
    with pytest.raises(InputError, match="train is "):
        pretrain(settings(tmp_path / "run", train=[str(tmp_path / tiny_corpus.name)]))


@pytest.mark.slow
def test_where_weights_began_is_compared_by_them(run, settings, tmp_path, monkeypatch):
    """As far as it is still there: a begun run needs it no more."""
    recipe = RECIPE.replace(steps=1, warmup_steps=0)
    made = settings(init_from=run, recipe=recipe)
    pretrain(made, lambda line: None)
    shutil.copytree(run, tmp_path / "base")
    monkeypatch.chdir(tmp_path)
    again = functools.partial(settings, made.output, recipe=recipe)
    pretrain(again(init_from="base"), lambda line: None)
    monkeypatch.setattr(run_module, "train", lambda *_, **__: None)
    shutil.rmtree(tmp_path / "base" / "checkpoints")
    pretrain(again(init_from="base"))
    shutil.copytree(made.output, tmp_path / "other" / "base")
    for origin in ("elsewhere", "other/base", None):
        with pytest.raises(InputError, match="init_from is 'base' there and "):
            pretrain(again(init_from=origin))


# What the first version wrote; all that came later is to have its default.
FIRST_RECIPE = """{
  "optimizer": "lamb", "learning_rate": 0.01, "batch_size": 4, "steps": 6, "warmup_steps": 2,
  "seq_length": 32, "max_predictions": 5, "train": %s, "eval": %s, "vocabulary": %s
}"""


def test_what_an_older_version_did_not_write_down_has_its_default(run, settings, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    recipe = json.loads((run / "recipe.json").read_text())
    old = FIRST_RECIPE % tuple(json.dumps(recipe[name]) for name in ("train", "eval", "vocabulary"))
    (copy / "recipe.json").write_text(old)
    with pytest.raises(InputError, match=r"weight_decay is 0\.01 .*; seed is 0"):
        pretrain(settings(copy, seed=1, recipe=RECIPE.replace(weight_decay=0.1)))
    assert (copy / "recipe.json").read_text() == old
    pretrain(settings(copy))
    assert json.loads((copy / "recipe.json").read_text()) == recipe


# A run that is killed again and again, wherever it hurts, ends with the weights of one left alone.

STEPS = 30

# In this order; each time but the first the run resumes from its last checkpoint.
KILLS = [
    ("updating", 5),
    ("writing the data", 2),
    ("before the index is renamed", 1),
    ("logging", 3),
    ("before the first file is renamed", 3),
    ("deleting an old checkpoint", 1),
]


@pytest.fixture
def command(tiny_corpus, tiny_vocabulary, tmp_path):
    """The words of a command that trains for so long into a folder, in two stages."""
    stages = tmp_path / "stages.json"
    stages.write_text('[{"until": 0.5, "num_hidden_layers": 1, "seq_length": 16}, {}]')
    config = TINY.replace(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
    often = {"log_every": 1, "eval_every": 10, "checkpoint_every": 3, "keep": 2}
    changes = {"batch_size": 4, "steps": STEPS, "optimizer": "adamw", "stages": stages, **often}
    return lambda output: pretraining(tiny_corpus, tiny_vocabulary, output, config, **changes)


@pytest.mark.slow
def test_a_killed_run_ends_as_one_that_was_left_alone(command, tmp_path):
    alone, killed, log = tmp_path / "alone", tmp_path / "killed", tmp_path / "log"
    assert ends([start(["-m", "albert_tf", *command(alone)], log)], [log]) == [0], log.read_text()[-3000:]
    words, reached = command(killed), []
    for moment, count in KILLS:
        process = start([killed_script.__file__, moment, count, *words], log)
        assert ends([process], [log]) == [-signal.SIGKILL], (moment, log.read_text()[-3000:])
        reached.append(max(checkpoint_steps(killed), default=0))
    begin = log.stat().st_size
    process = start(["-m", "albert_tf", *words], log)
    wait_for("step", log, [process], begin)  # and kills it whatever it is doing then
    process.send_signal(signal.SIGKILL)
    assert ends([process], [log]) == [-signal.SIGKILL]
    assert ends([start(["-m", "albert_tf", *words], log)], [log]) == [0], log.read_text()[-3000:]

    assert reached == sorted(reached)
    assert len(set(reached)) > 2  # it got further between the kills
    np.testing.assert_equal(weights(alone), weights(killed))
    figures = [
        [
            (line["step"], line.get("loss"), line.get("eval_loss"))
            for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        ]
        for run in (alone, killed)
    ]
    assert figures[0] == figures[1]
    names = [sorted(path.name for path in (run / "checkpoints").iterdir()) for run in (alone, killed)]
    assert names[0] == names[1]


# A run, a prepared folder and a vocabulary that an earlier version made: tests/earlier.

EARLIER = Path(__file__).parents[2] / "earlier"


@pytest.fixture
def earlier(tmp_path, monkeypatch):
    """A copy, which is the current folder."""
    shutil.copytree(EARLIER, tmp_path / "earlier")
    monkeypatch.chdir(tmp_path / "earlier")


def test_a_run_loads_and_evaluates(earlier):
    stored = tf.train.load_checkpoint("run/checkpoints/ckpt-4")
    key = "model/encoder/pooler/pooler.Sdense.Skernel/.ATTRIBUTES/VARIABLE_VALUE"
    model = albert_tf.load("run")
    (kernel,) = (x for x in model.variables if x.name.startswith("pooler/dense/kernel"))
    np.testing.assert_array_equal(kernel, stored.get_tensor(key))
    recorded = metrics(Path("run"))[-1]["eval_mlm_loss"]
    # On the same held-out document; pairs and masks are drawn otherwise now.
    assert evaluate_run("run", ["prepared"], batch_size=4)["eval_mlm_loss"] == pytest.approx(
        recorded, rel=0.05
    )


@pytest.mark.slow
def test_a_run_exports(earlier):
    assert export("run", "hub", seq_length=16, check=False)


@pytest.mark.slow
def test_a_run_goes_on_where_it_stopped(earlier, caplog):
    """By its command as it was typed, with more steps."""
    caplog.set_level("INFO", "absl")
    words = json.loads(Path("run/recipe.json").read_text())["command"].split()[1:]
    shutil.copy("run/spiece.model", "spiece.model")
    assert cli.run([*words, "--steps", "6"]) == 0
    warning = "ckpt-4 is of a version that made other batches: they are drawn anew from there"
    assert ("absl", logging.WARNING, warning) in caplog.record_tuples
    assert any("going on from step 4, to 6" in line for line in caplog.messages)
    assert [line["step"] for line in metrics(Path("run"))] == [2, 4, 4, 6, 6]


def test_a_prepared_folder_is_done_and_read(earlier):
    told = []
    prepare("corpus.txt", "prepared", "run/spiece.model", shards=2, eval_share=0.4, report=told.append)
    assert told == ["prepared is finished already, with these settings: nothing to do"]
    batches = albert_tf.pretraining_dataset(
        "prepared", "run/spiece.model", batch_size=4, seq_length=16, repeat=False
    )
    assert sum(int(batch["input_mask"][:, 0].numpy().sum()) for batch in batches) > 20
