"""The loop and its checkpoints, by a toy model: what is kept, when it gives up, and how it goes on."""

import json
import os
import shutil
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import filesystem, signals
from albert_tf.errors import InputError, WorkFailed
from albert_tf.io import lock_folder
from albert_tf.runs.checkpoints import checkpoint_parts, checkpoint_prefix, checkpoint_steps, open_checkpoint
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.signals import Preempted
from albert_tf.training import loop, stages, trainer
from albert_tf.training.compute_settings import ComputeConfig, LoopSettings
from albert_tf.training.distribution import DistributedBatches
from albert_tf.training.loop import TrainingFailed
from albert_tf.training.stages import seed_from_step
from tests.albert_tf.commands import ends, pretraining, start
from tests.albert_tf.pretraining.runs import CONFIG, weights
from tests.albert_tf.training.toy import ROWS, dying_after, fit, points, signalled


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of six updates in two stages without interruption."""
    return fit(tmp_path_factory.mktemp("whole") / "run", 3, 6)


def lines_of(run, name):
    return [(line["step"], line[name]) for line in run.metrics() if name in line]


def assert_same(found, expected):
    """The weights, bit for bit, and what was logged, but for the speed."""
    np.testing.assert_equal(found[1], expected[1])
    for name in ("loss", "eval_loss", "learning_rate", "seq_length", "gradient_norm"):
        assert lines_of(found[0], name) == lines_of(expected[0], name), name


def test_it_trains(whole):
    run, (slope, offset) = whole
    assert slope > 1.1 and offset > 0.1
    assert run.steps() == [1, 2, 3, 4, 5, 6]
    assert [step for step, _ in lines_of(run, "loss")] == [1, 2, 3, 4, 5, 6]
    phase_of_line = [number for _, number in lines_of(run, "seq_length")]
    assert phase_of_line == [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]  # four of them are evaluations
    assert [step for step, _ in lines_of(run, "eval_loss")] == [2, 3, 4, 6]
    rates = [rate for _, rate in lines_of(run, "learning_rate")]
    np.testing.assert_allclose(rates, [0.1 * left / 6 for left in range(6, 0, -1)], rtol=1e-5)


@pytest.mark.parametrize("step", [2, 3, 5])
def test_a_killed_run_goes_on_as_one_that_was_not(whole, step, tmp_path):
    """After step 2 and 3 it makes up for an evaluation; a stage begins as often as its batches."""
    with dying_after(step):
        fit(tmp_path / "run", 3, 6)
    started = []
    assert_same(fit(tmp_path / "run", 3, 6, started=started), whole)
    assert started == ([6] if step <= 3 else [])


@pytest.mark.parametrize(
    ("number", "step", "name"),
    [
        *((signal.SIGTERM, 2, "loss"), (signal.SIGHUP, 2, "loss"), (signal.SIGINT, 3, "eval_loss")),
        *((signal.SIGTERM, 6, "eval_loss"), (signal.SIGINT, 6, "eval_loss")),
    ],
)
def test_a_signal_saves_and_the_same_command_goes_on(whole, number, step, name, tmp_path, monkeypatch):
    """Also in the evaluation that ends a stage or the run: another one may follow."""
    before = signal.getsignal(number)
    expected = KeyboardInterrupt if number == signal.SIGINT else Preempted
    with monkeypatch.context() as patch, pytest.raises(expected, match=f"after step {step}"):
        signalled(patch, number, step, name)
        fit(tmp_path / "run", 3, 6)
    assert signal.getsignal(number) is before
    assert_same(fit(tmp_path / "run", 3, 6), whole)


class DryInput:
    """Batches of points that come to an end, after some, at a pipe that nobody writes to."""

    def __init__(self, folder, good):
        self.pipe, self.good = folder / "pipe", good
        os.mkfifo(self.pipe)

    def __call__(self, seed):
        lines = tf.data.TextLineDataset(str(self.pipe))
        rest = lines.map(lambda line: {"x": tf.fill([ROWS], tf.strings.to_number(line))})
        return DistributedBatches(points(seed).dataset.take(self.good).concatenate(rest), 1)

    def fail(self):
        """Ends the wait: TensorFlow opens the pipe, and finds that it is no file."""
        self.pipe.open("w").close()


def test_a_signal_ends_an_input_wait_and_the_same_command_goes_on(tmp_path, monkeypatch, two_replicas):
    """It is one that Python's handlers do not interrupt, inside of a call of several updates."""
    monkeypatch.setattr(signals, "GRACE_SECONDS", 0.2)
    batches, ends = DryInput(tmp_path, good=5), []

    def end(status, line):
        ends.append((status, line, run.steps()))
        batches.fail()  # else this process would wait for ever

    monkeypatch.setattr(signals, "exit_now", end)
    monkeypatch.setattr(trainer, "make_strategy", lambda *_: two_replicas)
    run = RunDirectory(tmp_path / "run")
    threading.Timer(3, signal.raise_signal, [signal.SIGTERM]).start()
    with pytest.raises(tf.errors.OpError):
        fit(tmp_path / "run", 20, batches=batches, log_every=0, checkpoint_every=0, eval_every=0)
    status, line, steps = ends[0]
    assert status == 75 and "SIGTERM" in line
    assert steps == [5]
    assert checkpoint_parts(run, 5) == {"model", "optimizer", "step"}
    assert fit(tmp_path / "run", 8)[0].steps() == [5, 6, 7, 8]


def test_where_the_input_fails_all_updates_are_saved(whole, tmp_path):
    """In the middle of a call of several updates; the batches are drawn anew."""

    def failing(seed):
        bad = tf.data.Dataset.from_tensors(str(tmp_path)).map(tf.io.read_file)
        bad = bad.map(lambda content: {"x": tf.fill([ROWS], tf.strings.to_number(content))})
        return DistributedBatches(points(seed).dataset.take(5).concatenate(bad), 1)

    changes = {"log_every": 0, "checkpoint_every": 0, "eval_every": 0}
    with pytest.raises(tf.errors.OpError):
        fit(tmp_path / "run", 20, batches=failing, **changes)
    fit(tmp_path / "whole", 20, checkpoint_every=5, keep=10, log_every=0)
    assert checkpoint_steps(tmp_path / "run") == [5]
    saved, expected = (open_checkpoint(checkpoint_prefix(tmp_path / name, 5)) for name in ("run", "whole"))
    names = [name for name in saved.shapes if name.startswith(("model", "optimizer", "step"))]
    assert len(names) == 8
    np.testing.assert_equal(*({name: file.read(name) for name in names} for file in (saved, expected)))


def moved(path):
    path.rename(path.with_name("elsewhere"))


def replaced(path):
    moved(path)
    shutil.copytree(path.with_name("elsewhere"), path)


@pytest.mark.parametrize("change", [moved, replaced, shutil.rmtree])
def test_a_run_that_is_no_longer_where_it_was_ends(change, tmp_path, monkeypatch):
    """Nothing is written to the place of another."""
    path, original, after = tmp_path / "run", loop._Loop.log, []

    def log(self):
        original(self)
        if self.step == 2:
            change(path)
            after.extend(sorted(tmp_path.rglob("*")))

    monkeypatch.setattr(loop._Loop, "log", log)
    with pytest.raises(WorkFailed, match="run was moved, removed or replaced"):
        fit(path)
    assert sorted(tmp_path.rglob("*")) == after


def test_where_a_checkpoint_has_no_iterator_batches_are_drawn_anew(tmp_path, monkeypatch):
    """And what is saved from there on goes on bit for bit again, with the batches of that draw."""
    seeds = []

    def batches(seed):
        seeds.append(seed)
        return points(seed)

    with monkeypatch.context() as patch:
        patch.setattr(stages, "can_save_iterator", lambda *_: False)
        run, _ = fit(tmp_path / "first", 3)
        assert checkpoint_parts(run, 3) == {"model", "optimizer", "step"}
    for name in ("alone", "stopped"):
        shutil.copytree(tmp_path / "first", tmp_path / name)
    alone = fit(tmp_path / "alone", 6, batches=batches)
    with dying_after(5):
        fit(tmp_path / "stopped", 6, batches=batches)
    assert_same(fit(tmp_path / "stopped", 6, batches=batches), alone)
    assert seeds == [seed_from_step(0, 3)] * 3


def test_where_the_iterator_does_not_fit_batches_are_drawn_anew(tmp_path, caplog):
    """As after an upgrade that makes the batches in another way."""
    seeds = []

    def batches(seed):
        seeds.append(seed)
        return DistributedBatches(points(seed).dataset.prefetch(1), 1)

    fit(tmp_path / "run", 3)
    run, _ = fit(tmp_path / "run", 6, batches=batches)
    assert "ckpt-3 is of a version that made other batches: they are drawn anew from there" in caplog.messages
    assert run.steps() == [1, 2, 3, 4, 5, 6]
    assert seeds == [0, seed_from_step(0, 3)]


def damage(run, step, keep=10):
    data = run / "checkpoints" / f"ckpt-{step}.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:keep])


def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_it_used(whole, tmp_path, monkeypatch, caplog):
    """Once all hosts have read: a slower one may be at it when the first asks for its step."""
    copy, there = tmp_path / "run", []
    shutil.copytree(whole[0], copy)
    damage(copy, 6)

    def make_all_gather(strategy):
        there.append((copy / "checkpoints" / "ckpt-6.index").exists())
        return lambda number: [number]

    monkeypatch.setattr(trainer, "make_all_gather", make_all_gather)
    assert_same(fit(copy, 3, 6), whole)
    assert there[0] and "ckpt-6" in caplog.text
    assert len(list((copy / "checkpoints").glob("damaged-ckpt-6.*"))) == 2


def test_a_checkpoint_that_cannot_be_read_ends_the_run_and_stays(whole, tmp_path):
    """It may be sound: going on from an older one would throw training away."""
    copy = tmp_path / "run"
    shutil.copytree(whole[0], copy)
    data = copy / "checkpoints" / "ckpt-6.data-00000-of-00001"
    data.rename(tmp_path / "away")
    data.mkdir()
    before = sorted(path.name for path in (copy / "checkpoints").iterdir())
    with pytest.raises(OSError, match="cannot be read"):
        fit(copy, 3, 6)
    assert sorted(path.name for path in (copy / "checkpoints").iterdir()) == before
    data.rmdir()
    (tmp_path / "away").rename(data)
    assert_same(fit(copy, 3, 6), whole)


def test_only_damaged_checkpoints_end_the_run_and_stay(whole, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(whole[0], copy)
    for step in whole[0].steps():
        damage(copy, step, keep=0)
    before = sorted(path.name for path in (copy / "checkpoints").iterdir())
    with pytest.raises(InputError, match="none of the checkpoints"):
        fit(copy, 3, 6)
    assert sorted(path.name for path in (copy / "checkpoints").iterdir()) == before


def test_steps(whole, tmp_path):
    """A run that is done does nothing, goes on with more steps, and is not what fewer would have made."""
    copy, lines = tmp_path / "run", []
    shutil.copytree(whole[0], copy)
    fit(copy, 3, 6, lines=lines)
    assert "no step is left" in lines[0]
    run, _ = fit(copy, 3, 8, keep=2, eval_every=0, lines=lines)
    assert "going on from step 6, to 8" in lines[1]
    best = min(lines_of(run, "eval_loss")[2:], key=lambda line: line[1])[0]
    assert run.steps() == sorted({7, 8, best})
    with pytest.raises(InputError, match="at step 8 already"):
        fit(copy, 3, 7)


@pytest.mark.parametrize(("recipe", "remedy"), [({}, "larger `steps`"), ({"budget": 25.0}, "`init_from`")])
def test_the_remedy_of_a_run_that_is_done_is_one_that_works(recipe, remedy, tmp_path):
    """A budget has fixed the number of steps."""
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    training = SimpleNamespace(epochs=None, steps=6)
    assert remedy in trainer._start_line(RunDirectory(tmp_path), training, 6, "")


def test_precision_may_change_when_a_run_resumes(tmp_path):
    """A GPU's float16 run goes on as bfloat16 elsewhere, and back; the loss scale comes and goes."""
    for end, precision in ((2, "float16"), (4, "bfloat16"), (6, "float16")):
        run, _ = fit(tmp_path / "run", end, precision=precision, accumulate=end // 2 % 2 + 1)
    assert run.steps() == [1, 2, 3, 4, 5, 6]
    recipe = json.loads((tmp_path / "run/recipe.json").read_text())
    assert (recipe["precision"], recipe["accumulate"], recipe["replicas"]) == ("float16", 2, 1)


def test_the_best_checkpoint_stays(tmp_path):
    losses = iter([5.0, 3.0, 4.0, 4.5, 4.2])
    run, _ = fit(tmp_path / "run", 5, losses=losses, eval_every=1, keep=2)
    assert run.steps() == [2, 4, 5]


def test_a_run_that_gets_no_better_is_stopped(tmp_path):
    """Also when it is typed again, and goes on where it may wait for longer."""
    losses = iter([0.5, 0.2, 0.3, 0.2, 0.8])
    for patience, steps in ((2, 4), (2, 4), (3, 5)):
        run, _ = fit(tmp_path / "run", losses=losses, eval_every=1, early_stop=patience)
        assert run.steps()[-1] == steps


def test_an_evaluation_that_fails_loses_no_update(whole, tmp_path):
    """Nor its line: the same command makes up for it."""

    def too_large():
        raise tf.errors.ResourceExhaustedError(None, None, "out of memory")
        yield

    with pytest.raises(tf.errors.ResourceExhaustedError):
        fit(tmp_path / "run", 3, 6, losses=too_large())
    assert_same(fit(tmp_path / "run", 3, 6), whole)


def test_a_loss_on_held_out_text_that_is_no_number_takes_its_checkpoint_along(tmp_path):
    with pytest.raises(TrainingFailed, match="step 1"):
        fit(tmp_path / "run", losses=iter([np.nan]))
    assert sorted(path.name for path in (tmp_path / "run/checkpoints").glob("*.index")) == ["ckpt-1.index"]


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({"learning_rate": 3e38}, 0),  # the weights are bad after the first update
        ({"learning_rate": 1e38}, 1),  # they are finite then, and the loss is not
        ({"learning_rate": 1e38, "precision": "float16"}, 4),  # which may skip some updates
    ],
)
def test_numbers_that_are_none_stop_the_run(changes, steps, tmp_path, monkeypatch):
    """Checkpoints of good weights are not pushed out meanwhile."""
    monkeypatch.setattr(loop, "MAX_FAILED_FLOAT16", 3)
    with pytest.raises(TrainingFailed):
        fit(tmp_path / "run", 20, eval_every=0, keep=1, **changes)
    assert len(list((tmp_path / "run").glob("checkpoints/*.index"))) == steps


def test_a_profile_is_written(tmp_path):
    fit(tmp_path / "run", profile="2:4")
    assert list((tmp_path / "run/tensorboard").rglob("*.xplane.pb"))


def test_a_place_that_is_taken(whole, tmp_path):
    with lock_folder(tmp_path / whole[0]), pytest.raises(BlockingIOError):
        fit(whole[0], 3, 6)
    (tmp_path / "thesis.txt").write_text("The only copy.")
    with pytest.raises(FileExistsError):
        fit(tmp_path)


def test_hosts_must_start_together(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, "make_all_gather", lambda strategy: lambda step: [step, 4.0])
    with pytest.raises(InputError, match="different steps"):
        fit(tmp_path / "run")


def test_of_two_fresh_starts_the_second_is_told_of_the_first(tmp_path, monkeypatch):
    """And not to name another place or remove this one: it is being trained."""
    original = trainer.RunDirectory.create

    def too_late(run, contents):
        original(run, contents)
        original(run, contents)

    monkeypatch.setattr(trainer.RunDirectory, "create", too_late)
    with pytest.raises(BlockingIOError):
        fit(tmp_path / "run")
    assert (tmp_path / "run/recipe.json").exists()


def test_a_run_that_another_process_has_trained_meanwhile(whole, tmp_path, monkeypatch):
    """Between the look at its steps and the lock; nothing of it is changed."""
    path, lock = tmp_path / "run", trainer.RunDirectory.lock

    def too_late(run):
        shutil.copytree(whole[0].path, path, dirs_exist_ok=True)
        return lock(run)

    monkeypatch.setattr(trainer.RunDirectory, "lock", too_late)
    with pytest.raises(BlockingIOError, match=str(path)):
        fit(path, 3, 8)
    assert RunDirectory(path).metrics() == whole[0].metrics()
    assert checkpoint_steps(path) == whole[0].steps()


def test_another_filesystem(whole):
    """It resumes there, too."""
    with dying_after(3):
        fit("ram://loop/run", 3, 6)
    found = fit("ram://loop/run", 3, 6)
    assert_same(found, whole)
    assert not [
        name for name in filesystem.list_entries("ram://loop/run/checkpoints") if name.startswith(".")
    ]


# When the loop does what.


@pytest.mark.parametrize(
    "changes",
    [
        *({"keep": 0}, {"log_every": -1}, {"early_stop": 2, "eval_every": 0}),
        *({"profile": text} for text in ("10", "3:3", "a:b", "-1:4")),
    ],
)
def test_impossible_settings_are_refused(changes):
    with pytest.raises(InputError, match=next(iter(changes))):
        LoopSettings(**changes)


def test_a_batch_is_divided_without_a_rest():
    ComputeConfig(accumulate=2).check_batch_size(12, replicas=3)
    with pytest.raises(InputError, match="batch_size=12"):
        ComputeConfig(accumulate=4).check_batch_size(12, replicas=2)


def test_calls_end_where_something_is_due():
    settings = LoopSettings(log_every=4, eval_every=6, checkpoint_every=0)
    step, ends = 0, []
    while step < 25:
        step += settings.steps_until_next(step, 25)
        ends.append(step)
    assert ends == [4, 6, 8, 12, 16, 18, 20, 24, 25]
    profiled = LoopSettings(log_every=0, profile="3:7")
    assert [profiled.steps_until_next(step, 25) for step in (0, 3)] == [3, 4]


def test_the_last_update_is_due_for_everything(tmp_path):
    run, _ = fit(tmp_path / "run", 5, log_every=4, eval_every=0, checkpoint_every=2)
    assert [line["step"] for line in run.metrics() if "loss" in line] == [4, 5]
    assert [line["step"] for line in run.metrics() if "eval_loss" in line] == [5]
    assert run.steps() == [2, 4, 5]


# Operations that are deterministic on GPUs, too, as far as a CPU can show it.

FLAGS = {"steps": 6, "batch_size": 4, "checkpoint_every": 3, "log_every": 3, "eval_every": 0}


@pytest.mark.slow
@pytest.mark.parametrize("xla", ["--noxla", "--xla"])
def test_a_deterministic_run_is_the_same_again_and_resumed(xla, tiny_corpus, tiny_vocabulary, tmp_path):
    """With dropout, in a process of its own."""
    run, log = tmp_path / "run", tmp_path / "log"
    words = pretraining(tiny_corpus, tiny_vocabulary, run, CONFIG, **FLAGS)
    place = words.index("--output")
    words = [*words[:place], *words[place + 2 :], xla]
    script = Path(__file__).with_name("deterministic_script.py")
    assert ends([start([script, run, *words], log)], [log]) == [0], log.read_text()[-3000:]
    expected = weights(run, 6)
    for name in ("again", "resumed"):
        for variable, value in weights(f"{run}-{name}", 6).items():
            np.testing.assert_array_equal(value, expected[variable], err_msg=f"{name}: {variable}")
    assert "from step 3" in log.read_text()
