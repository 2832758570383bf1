"""Stopping and going on: bit for bit where nothing has changed."""

import functools
import json
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

import albert_tf
from albert_tf.errors import InputError
from albert_tf.pretraining import pretrain as run_module
from albert_tf.pretraining.pretrain import pretrain
from albert_tf.runs.checkpoints import checkpoint_steps
from tests.albert_tf.commands import ends, pretraining, start, wait_for
from tests.albert_tf.pretraining import killed_script
from tests.albert_tf.pretraining.runs import CONFIG, RECIPE, metrics, stopped_at, weights
from tests.tiny import TINY


def recorded(run):
    return json.loads((run / "recipe.json").read_text())


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
    assert recorded(tmp_path / "run")["eval_since"] == 6 and "eval_since" not in recorded(run)
    since = []
    monkeypatch.setattr(run_module, "train", lambda run, training, *_: since.append(training.best.after))
    pretrain(settings(run))
    pretrain(settings(tmp_path / "run", eval=["held_out.txt"]))
    assert since == [-1, 6]
    (tmp_path / "held_out.txt").write_text("Another text.\nOf two sentences.\n" * 20)
    with pytest.raises(InputError, match=r"`eval` of other text: held_out\.txt"):
        pretrain(settings(tmp_path / "run", eval=["held_out.txt"]))
    pretrain(settings(tmp_path / "run", eval=["./held_out.txt"]))


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ("weight_decay", r"weight_decay is 'missing' there and 0\.01 here"),
        ("held_out", r"recipe\.json lacks held_out: it is damaged, or not of pre-training"),
        ("train_files", r"recipe\.json lacks train_files: "),
    ],
)
def test_a_run_whose_recipe_has_lost_an_entry_is_refused(run, settings, tmp_path, lost, message):
    copy = shutil.copytree(run, tmp_path / "run")
    recipe = json.loads((run / "recipe.json").read_text())
    del recipe[lost]
    (copy / "recipe.json").write_text(json.dumps(recipe))
    with pytest.raises(InputError, match=message):
        pretrain(settings(copy))
    assert json.loads((copy / "recipe.json").read_text()) == recipe


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
