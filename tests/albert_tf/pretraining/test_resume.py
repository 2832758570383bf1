"""Stopping and going on: bit for bit where nothing has changed."""

import functools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import albert_tf
from albert_tf.errors import InputError
from albert_tf.pretraining import pretrain as run_module
from albert_tf.pretraining.pretrain import pretrain
from albert_tf.runs.checkpoints import checkpoint_steps
from tests.albert_tf.pretraining.runs import CONFIG, RECIPE, metrics, stopped_at, weights


def test_a_resumed_run_ends_with_the_same_weights(run, settings, tmp_path):
    """How a run dies, the tests of the loop show with a toy, and test_killed.py with whole processes."""
    copy = stopped_at(run, 3, tmp_path / "run")
    assert checkpoint_steps(copy) == [3]
    pretrain(settings(copy))
    assert checkpoint_steps(copy) == [3, 6]
    found = weights(copy)
    for name, value in weights(run).items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
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
    with pytest.raises(InputError, match=r"--eval of other text: held_out\.txt"):
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
