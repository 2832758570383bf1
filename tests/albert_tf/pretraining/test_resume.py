"""Stopping and going on: bit for bit where nothing has changed."""

import functools
import json
import logging
import os
import re
import shutil
import signal

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints import checkpoint_parts, checkpoint_steps
from albert_tf.errors import InputError
from albert_tf.pretraining import run as pretraining
from albert_tf.pretraining.run import pretrain
from albert_tf.training import engine, loop
from albert_tf.training.preemption import Preempted
from albert_tf.training.resume import seed_of
from tests.albert_tf.pretraining.runs import CONFIG, RECIPE, metrics, weights


def pretrain_until(last, made):
    """Trains and dies once the checkpoint of a step is written."""
    original = loop.write_checkpoint

    def write_and_die(folder, step, /, **parts):
        original(folder, step, **parts)
        if step == last:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "write_checkpoint", write_and_die)
        with pytest.raises(KeyboardInterrupt):
            pretrain(made)


def assert_same_weights(found, expected):
    found, expected = weights(found), weights(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_a_resumed_run_ends_with_the_same_weights(run, settings):
    stopped = settings(recipe=RECIPE.replace(steps=6), checkpoint_every=2)
    pretrain_until(4, stopped)
    assert checkpoint_steps(stopped.output) == [2, 3, 4]
    pretrain(stopped)
    assert_same_weights(stopped.output, run)
    steps = [line["step"] for line in metrics(stopped.output) if "loss" in line]
    assert steps == [2, 4, 6]


def test_sigterm_saves_and_the_same_settings_resume(run, settings, monkeypatch):
    made = settings(log_every=1, checkpoint_every=100)
    record = loop.Logbook.record

    def terminate(self, step, figures):
        record(self, step, figures)
        if step == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(loop.Logbook, "record", terminate)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Preempted, match="after step 2"):
        pretrain(made)
    assert signal.getsignal(signal.SIGTERM) is before
    assert checkpoint_steps(made.output) == [2]
    monkeypatch.undo()
    pretrain(made)
    assert_same_weights(made.output, run)


def test_ctrl_c_saves_and_a_second_one_does_not_wait(settings, monkeypatch):
    made = settings(log_every=1, checkpoint_every=100)
    record = loop.Logbook.record

    def interrupted(times):
        def interrupt(self, step, figures):
            record(self, step, figures)
            for _ in range(times if step == 2 else 0):
                os.kill(os.getpid(), signal.SIGINT)

        return interrupt

    monkeypatch.setattr(loop.Logbook, "record", interrupted(1))
    with pytest.raises(KeyboardInterrupt, match="interrupted after step 2, which is saved in"):
        pretrain(made)
    assert checkpoint_steps(made.output) == [2]
    other = settings(log_every=1, checkpoint_every=100)
    monkeypatch.setattr(loop.Logbook, "record", interrupted(2))
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        pretrain(other)
    assert checkpoint_steps(other.output) == []


def test_sigterm_before_training_has_begun(settings, monkeypatch):
    def terminated(*_):
        os.kill(os.getpid(), signal.SIGTERM)

    made = settings()
    monkeypatch.setattr("albert_tf.pretraining.run.held_out_batches", terminated)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(
        Preempted, match="stopped by SIGTERM; the same command begins anew: nothing is saved yet"
    ):
        pretrain(made)
    assert signal.getsignal(signal.SIGTERM) is before
    assert not made.output.exists()


def test_a_model_alone_is_nothing_to_go_on_from(run, settings, tmp_path):
    """It is no damage either: `save` has written it."""
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    albert_tf.save(albert_tf.load(run), copy, step=8)
    with pytest.raises(ValueError, match=r"ckpt-8\.index holds no optimizer and no step: training cannot"):
        pretrain(settings(copy, recipe=RECIPE.replace(steps=9)))
    assert checkpoint_steps(copy) == [3, 6, 8]


def test_a_run_without_its_vocabulary_is_not_whole(run, settings, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    (copy / "spiece.model").unlink()
    with pytest.raises(ValueError, match=r"spiece\.model is missing: copy .* there"):
        pretrain(settings(copy))


@pytest.mark.slow
def test_more_steps_go_on_and_old_checkpoints_go(run, settings):
    made = settings(recipe=RECIPE.replace(steps=3), checkpoint_every=1, keep=2)
    pretrain(made)
    assert checkpoint_steps(made.output) == [2, 3]
    pretrain(settings(made.output, recipe=RECIPE.replace(steps=5), checkpoint_every=1, keep=2))
    assert checkpoint_steps(made.output) == [4, 5]


def test_fewer_steps_than_there_are_is_refused(run, settings):
    recipe = (run / "recipe.json").read_text()
    with pytest.raises(ValueError, match="is at step 6 already: --steps 4 is less than that"):
        pretrain(settings(run, recipe=RECIPE.replace(steps=4)))
    assert (run / "recipe.json").read_text() == recipe


def damaged(run, step, keep=1000):
    """Cuts the data of a checkpoint off."""
    data = run / "checkpoints" / f"ckpt-{step}.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:keep])


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(run, settings, tmp_path, caplog):
    copy, lines = tmp_path / "run", []
    shutil.copytree(run, copy)
    damaged(copy, 6)
    pretrain(settings(copy), report=lines.append)
    first, second = (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
    assert re.search(r"ckpt-6\.index or its \.data file is damaged", first)
    assert second == "ckpt-6 is renamed to damaged-ckpt-6; going on from step 3"
    (line,) = lines
    assert re.fullmatch(r"[\d,]+ parameters, float32, 1 × CPU: going on from step 3, to 6", line)
    assert checkpoint_steps(copy) == [3, 6]
    assert {path.name for path in (copy / "checkpoints").glob("damaged-*")} == {
        "damaged-ckpt-6.index", "damaged-ckpt-6.data-00000-of-00001"
    }  # fmt: skip
    assert_same_weights(copy, run)


@pytest.fixture
def seeds(monkeypatch):
    """The seeds that batches are drawn with, as a list that grows."""
    drawn, original = [], pretraining.training_feed

    def recorded(settings, strategy, seed, held_out):
        drawn.append(seed)
        return original(settings, strategy, seed, held_out)

    monkeypatch.setattr(pretraining, "training_feed", recorded)
    return drawn


@pytest.fixture(scope="module")
def run_without_iterator(settings):
    """Three updates of a run whose input cannot be saved, such as that of several hosts."""
    made = settings(recipe=RECIPE.replace(steps=3), eval_every=0, checkpoint_every=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "keeps_iterator", lambda *_: False)
        pretrain(made)
    assert checkpoint_parts(made.output, 3) == {"model", "optimizer", "step"}
    return made.output


@pytest.mark.slow
def test_where_a_checkpoint_has_no_iterator_batches_are_drawn_anew(
    run_without_iterator, settings, seeds, tmp_path
):
    """And what is saved from there on goes on bit for bit again, with the batches of that draw."""
    alone, stopped = (settings(tmp_path / name, checkpoint_every=1) for name in ("alone", "stopped"))
    for made in (alone, stopped):
        shutil.copytree(run_without_iterator, made.output)
    pretrain(alone)
    pretrain_until(5, stopped)
    pretrain(stopped)
    assert seeds == [seed_of(0, 3)] * 3
    assert_same_weights(stopped.output, alone.output)


def test_the_seed_is_that_of_the_step_restored(run_without_iterator, settings, seeds, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "keeps_iterator", lambda *_: False)
    copy = tmp_path / "run"
    shutil.copytree(run_without_iterator, copy)
    damaged(copy, 3)
    pretrain(settings(copy, eval_every=0), report=lambda line: None)
    assert seeds == [seed_of(0, 2)]


def test_damaged_checkpoints_are_renamed_once_all_hosts_have_read(run, settings, tmp_path, monkeypatch):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    damaged(copy, 6)
    there = []

    def over_hosts(strategy):
        def everywhere(number):
            there.append((copy / "checkpoints" / "ckpt-6.index").exists())
            return [number]

        return everywhere

    monkeypatch.setattr(engine, "over_hosts", over_hosts)
    pretrain(settings(copy), report=lambda line: None)
    assert there[0]  # what a slower host may be reading when the first one asks for its step


def test_only_damaged_checkpoints_end_the_run_and_stay(run, settings, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    before = sorted(path.name for path in (copy / "checkpoints").iterdir())
    damaged(copy, 3)
    damaged(copy, 6, keep=0)
    with pytest.raises(ValueError, match=r"none of the checkpoints in .*run can be read: name another"):
        pretrain(settings(copy), report=lambda line: None)
    assert sorted(path.name for path in (copy / "checkpoints").iterdir()) == before


def test_what_a_killed_process_left_is_cleaned_up(run, settings, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    folder = copy / "checkpoints"
    (folder / ".ckpt-9.writing").mkdir()
    (folder / ".ckpt-9.writing" / "ckpt-9.data-00000-of-00001").write_bytes(b"half")
    (folder / "ckpt-1.data-00000-of-00001").write_bytes(b"its index is deleted")
    before = sorted(path.name for path in (run / "checkpoints").iterdir())
    pretrain(settings(copy))
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [("float16", "float32"), ("bfloat16", "float16")])
def test_precision_may_change_when_a_run_resumes(first, second, settings):
    """A GPU's float16 run goes on as float32 elsewhere, and back; the loss scale comes and goes."""
    made, reported = settings(recipe=RECIPE.replace(steps=2), precision=first, checkpoint_every=2), []
    pretrain(made)
    for steps, precision in ((4, second), (6, first)):
        recipe = RECIPE.replace(steps=steps)
        pretrain(
            settings(made.output, recipe=recipe, precision=precision, accumulate=2, checkpoint_every=2),
            reported.append,
        )
    assert not [line for line in reported if "damaged" in line]  # which would be left out
    assert [line.partition("from ")[2] for line in reported] == ["step 2, to 4", "step 4, to 6"]
    assert checkpoint_steps(made.output) == [2, 3, 4, 6]
    recipe = json.loads((made.output / "recipe.json").read_text())
    assert (recipe["precision"], recipe["accumulate"], recipe["strategy"]) == (first, 2, "auto")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recipe": RECIPE.replace(learning_rate=0.02)}, "learning_rate is 0.01 there and 0.02 here"),
        ({"seed": 7}, "seed is 0 there and 7 here"),
        ({"config": CONFIG.replace(num_hidden_layers=2)}, "num_hidden_layers is 3 there and 2 here"),
        ({"lowercase": False}, "lowercase is True there and False here"),
    ],
)
def test_other_settings_are_refused(run, settings, changes, message):
    with pytest.raises(ValueError, match=message):
        pretrain(settings(run, **changes))
    assert checkpoint_steps(run) == [3, 6]


def test_text_that_was_moved_is_the_same(run, settings, tiny_corpus, tmp_path, monkeypatch):
    shutil.copytree(run, tmp_path / "run")
    shutil.copy(tiny_corpus, tmp_path / tiny_corpus.name)
    monkeypatch.chdir(tmp_path)
    lines = []
    pretrain(settings(tmp_path / "run", train=[tiny_corpus.name]), lines.append)
    assert "is at its last step, 6" in lines[-1]


def test_text_of_other_content_is_refused_and_named(run, settings, tiny_corpus, tmp_path):
    changed, further = tmp_path / tiny_corpus.name, tmp_path / "further.txt"
    changed.write_text(tiny_corpus.read_text().replace("a", "e", 1))
    further.write_text("A further text.\n")
    for train, named in (([changed], changed), ([tiny_corpus, further], further)):
        with pytest.raises(InputError, match=f"other text: {named.name}"):
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
    with pytest.raises(InputError, match=r"evaluated on other text: held_out\.txt"):
        pretrain(settings(tmp_path / "run", eval=["held_out.txt"]))
    pretrain(settings(tmp_path / "run", eval=["./held_out.txt"]), lambda line: None)


def test_text_of_an_older_run_is_compared_by_its_path(run, settings, tiny_corpus, tmp_path):
    """Its recipe says nothing of the content, and one name stands for many texts."""
    shutil.copytree(run, tmp_path / "run")
    recipe = json.loads((run / "recipe.json").read_text())
    older = {name: value for name, value in recipe.items() if not name.endswith("_files")}
    (tmp_path / "run" / "recipe.json").write_text(json.dumps(older))
    (tmp_path / tiny_corpus.name).write_text("Another text.\n")
    with pytest.raises(InputError, match="train is "):
        pretrain(settings(tmp_path / "run", train=[str(tmp_path / tiny_corpus.name)]))
    pretrain(settings(tmp_path / "run"), lambda line: None)
    assert json.loads((tmp_path / "run" / "recipe.json").read_text()) == recipe


def test_where_weights_began_is_compared_by_them(run, settings, tmp_path, monkeypatch):
    """As far as it is still there: a begun run needs it no more."""
    recipe = RECIPE.replace(steps=1, warmup_steps=0)
    made = settings(init_from=run, recipe=recipe)
    pretrain(made, lambda line: None)
    shutil.copytree(run, tmp_path / "base")
    monkeypatch.chdir(tmp_path)
    again = functools.partial(settings, made.output, recipe=recipe)
    pretrain(again(init_from="base"), lambda line: None)
    shutil.rmtree(tmp_path / "base" / "checkpoints")
    pretrain(again(init_from="base"), lambda line: None)
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
    with pytest.raises(
        InputError, match=r"settings: weight_decay is 0\.01 there and 0\.1 here; seed is 0 th"
    ):
        pretrain(settings(copy, seed=1, recipe=RECIPE.replace(weight_decay=0.1)))
    assert (copy / "recipe.json").read_text() == old
    pretrain(settings(copy))
    assert json.loads((copy / "recipe.json").read_text()) == recipe


def test_a_recipe_that_says_nonsense_is_named(run, settings, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    recipe = json.loads((run / "recipe.json").read_text())
    (copy / "recipe.json").write_text(json.dumps({**recipe, "warmup_steps": "2"}))
    with pytest.raises(InputError, match=r"recipe\.json: warmup_steps='2' must be of type int"):
        pretrain(settings(copy))


def test_of_two_fresh_starts_the_second_is_told_of_the_first(settings, tmp_path, monkeypatch):
    """And not to name another place or remove this one: it is being trained."""
    made, original = settings(tmp_path / "run"), engine.create_run

    def too_late(run, *arguments):
        original(run, *arguments)
        original(run, *arguments)

    monkeypatch.setattr(engine, "create_run", too_late)
    with pytest.raises(BlockingIOError, match="is in use by another process, which has just begun it: wait"):
        pretrain(made)
    assert (made.output / "recipe.json").exists()


def test_a_folder_that_was_there_is_no_run_in_use(settings, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("The only copy.")
    with pytest.raises(FileExistsError, match="exists already: name another place"):
        pretrain(settings(tmp_path / "run"))
