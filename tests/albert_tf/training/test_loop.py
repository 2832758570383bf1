"""What the loop keeps, and when it gives up."""

import pytest
import tensorflow as tf

from albert_tf.checkpoints import checkpoint_steps
from albert_tf.model.losses import Term
from albert_tf.pretraining.run import pretrain
from albert_tf.training import loop
from albert_tf.training.loop import TrainingFailed, all_finite
from tests.albert_tf.pretraining.runs import RECIPE, metrics


def pretend_losses(monkeypatch, losses):
    """Has evaluations find these losses, one after the other."""
    found = iter(losses)

    def evaluator(model, objective):
        return lambda dataset: {"mlm": Term(next(found), 0.0, 1.0)}

    monkeypatch.setattr("albert_tf.pretraining.run.evaluator", evaluator)


def test_the_best_checkpoint_stays(settings, monkeypatch):
    pretend_losses(monkeypatch, [5.0, 3.0, 4.0, 4.5, 4.2])
    made = settings(recipe=RECIPE.replace(steps=5), log_every=0, eval_every=1, checkpoint_every=1, keep=2)
    pretrain(made)
    assert checkpoint_steps(made.output) == [2, 4, 5]


@pytest.mark.slow
def test_an_evaluation_that_does_not_fit_loses_no_update(run, settings, monkeypatch):
    """Nor its line: the same command makes up for it, and ends as a run that had memory for it."""
    made = settings(eval_every=4, checkpoint_every=0)

    def too_large(model, objective):
        def evaluate(dataset):
            raise tf.errors.ResourceExhaustedError(None, None, "out of memory")

        return evaluate

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("albert_tf.pretraining.run.evaluator", too_large)
        with pytest.raises(tf.errors.ResourceExhaustedError):
            pretrain(made)
    assert checkpoint_steps(made.output) == [4]
    pretrain(made)
    lines = [line for line in metrics(made.output) if "eval_loss" in line]
    assert [line["step"] for line in lines] == [4, 6]
    assert lines[1]["eval_loss"] == metrics(run)[-1]["eval_loss"]
    pretrain(made)  # which is done
    assert [line for line in metrics(made.output) if "eval_loss" in line] == lines


def test_the_last_evaluation_may_show_another_best(settings, monkeypatch):
    pretend_losses(monkeypatch, [5.0, 3.0])
    made = settings(recipe=RECIPE.replace(steps=2), eval_every=1, checkpoint_every=1, log_every=0, keep=1)
    pretrain(made)
    assert checkpoint_steps(made.output) == [2]


def test_a_loss_that_is_no_number_stops_the_run(settings):
    made = settings(
        recipe=RECIPE.replace(learning_rate=1e38, warmup_steps=0), log_every=1, checkpoint_every=1
    )
    with pytest.raises(
        TrainingFailed, match=r"between step \d and step \d; .* --output and a lower --learning_rate"
    ):
        pretrain(made)


def test_weights_that_are_no_numbers_are_not_saved(settings):
    """The loss of the update was finite: its weights are computed with in the next one, which never comes."""
    recipe = RECIPE.replace(learning_rate=1e38, warmup_steps=0, steps=1)
    made = settings(recipe=recipe, log_every=1, checkpoint_every=1)
    with pytest.raises(TrainingFailed, match="between step 0 and step 1; no checkpoint was written before"):
        pretrain(made)
    assert checkpoint_steps(made.output) == []


def test_the_checkpoint_before_bad_weights_is_the_last_good_one(settings, monkeypatch):
    answers = iter([True, True, False])
    monkeypatch.setattr(loop, "all_finite", lambda variables: next(answers))
    made = settings(checkpoint_every=1, eval_every=0)
    with pytest.raises(TrainingFailed, match=r"between step 2 and step 3; the last good .* of step 2"):
        pretrain(made)
    assert checkpoint_steps(made.output) == [1, 2]


def test_all_finite():
    assert all_finite([tf.Variable([1.0, 2.0]), tf.Variable(3.0)])
    assert not all_finite([tf.Variable([1.0, 2.0]), tf.Variable([3.0, float("nan")])])


def test_float16_that_fails_again_and_again_stops(settings, monkeypatch):
    monkeypatch.setattr("albert_tf.training.engine.FLOAT16_PATIENCE", 3)
    made = settings(
        recipe=RECIPE.replace(learning_rate=1e30, warmup_steps=0),
        precision="float16",
        log_every=1,
        eval_every=0,
        checkpoint_every=0,
    )
    with pytest.raises(TrainingFailed, match=r"4 updates in a row, between step .*no checkpoint was written"):
        pretrain(made)


def test_checkpoints_of_bad_weights_are_named(settings):
    recipe = RECIPE.replace(learning_rate=1e30, warmup_steps=0)
    made = settings(recipe=recipe, log_every=0, eval_every=0, checkpoint_every=1)
    expected = r"between step 1 and step 2; the checkpoints there hold no better weights \(of steps 1\)"
    with pytest.raises(TrainingFailed, match=expected):
        pretrain(made)


def test_float16_that_fails_does_not_push_out_good_checkpoints(settings, monkeypatch):
    monkeypatch.setattr("albert_tf.training.engine.FLOAT16_PATIENCE", 3)
    made = settings(
        recipe=RECIPE.replace(learning_rate=1e30, warmup_steps=2, steps=8),
        precision="float16",
        log_every=0,
        eval_every=0,
        checkpoint_every=1,
        keep=2,
    )
    expected = "4 updates in a row, between step 2 and step 6; the last good checkpoint is that of step 1"
    with pytest.raises(TrainingFailed, match=expected):
        pretrain(made)
    assert checkpoint_steps(made.output) == [1, 2, 3, 4, 5]


def test_a_profile_is_written(settings):
    made = settings(profile="2:4", log_every=0, eval_every=0)
    pretrain(made)
    assert list((made.output / "tensorboard").rglob("*.xplane.pb"))
