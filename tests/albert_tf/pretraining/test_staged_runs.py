"""Depth, length and batch size that grow inside one run."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.errors import InputError
from albert_tf.optimization import recipe_optimizer
from albert_tf.pretraining.loss import pretraining_loss_fn
from albert_tf.pretraining.pretrain import pretrain
from albert_tf.pretraining.pretraining_settings import read_recipe, trained_positions
from albert_tf.recipes import Stage
from albert_tf.runs.build_model import build_model
from albert_tf.runs.checkpoints import read_checkpoint
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.training.stages import seed_from_step
from albert_tf.training.train_step import TrainStep
from tests.albert_tf.pretraining.runs import CONFIG, RECIPE, corpus_of, metrics, stopped_at, weights
from tests.tiny import TINY, change_json

# Three updates of one layer on 8 × 16 tokens, and three of two layers on 4 × 32.
STAGES = (Stage(until=0.5, num_hidden_layers=1, seq_length=16), Stage())
STAGED = RECIPE.replace(stages=STAGES)
FULL = CONFIG.replace(vocab_size=TINY.vocab_size)
EVERY = {"log_every": 1, "eval_every": 2, "checkpoint_every": 1, "keep": 10}


@pytest.fixture(scope="module")
def staged(settings):
    """A run in two stages without interruption, which has a checkpoint of every update."""
    made = settings(recipe=STAGED, **EVERY)
    pretrain(made)
    return made.output


@pytest.mark.slow
def test_lines_say_of_which_network_they_are(staged):
    lines = metrics(staged)
    assert [line["step"] for line in lines if "loss" in line] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in lines if "eval_loss" in line] == [2, 3, 4, 6]
    for line in lines:
        shape = (line["num_hidden_layers"], line["seq_length"], line["batch_size"])
        assert shape == ((1, 16, 8) if line["step"] <= 3 else (2, 32, 4))
        if "tokens_per_second" in line:
            assert line["tokens_per_second"] == pytest.approx(
                line["examples_per_second"] * line["seq_length"]
            )
    # One schedule over all updates: two of warm-up to 0.01, then down to 0 after six.
    rates = [line["learning_rate"] for line in lines if "loss" in line]
    np.testing.assert_allclose(rates, [0.01 * x / 6 for x in (0, 3, 4, 3, 2, 1)], rtol=1e-6)


@pytest.mark.slow
def test_the_second_stage_is_made_by_hand(staged, settings):
    """Of the checkpoint between them, its 16 positions twice, the batches of its step, and the optimizer."""
    recipe = STAGED.for_stage(STAGES[1])
    made = settings(recipe=recipe)
    model = build_model(FULL, {"model": "pretrainer", "sentence_objective": "sop"}, fused=True)
    optimizer = recipe_optimizer(recipe.optimizer, recipe, recipe.steps, recipe.warmup_steps)
    optimizer.build(model.trainable_variables)
    step = tf.Variable(0, dtype=tf.int64, trainable=False)
    parts = {"model": model, "step": step}
    read_checkpoint(staged, 3, **parts, optimizer=tf.train.Checkpoint(variables=list(optimizer.variables)))
    positions = model.encoder.embeddings.position_embeddings
    positions.assign(tf.concat([positions[:16], positions[:16], positions[32:]], axis=0))
    feed = corpus_of(made).training_batches(recipe, seed_from_step(made.seed, 3))
    loss_fn = pretraining_loss_fn("sop", fused=True)
    spec = feed.dataset.element_spec
    TrainStep(model, optimizer, loss_fn, spec, step=step, seed=made.seed)(iter(feed.dataset), 3)
    assert int(step) == 6
    expected = weights(staged)
    for variable in model.variables:
        np.testing.assert_array_equal(variable.numpy(), expected[variable.name], err_msg=variable.name)


@pytest.mark.slow
def test_the_recipe_is_written_down_and_decides(staged, settings):
    assert read_recipe(staged) == STAGED
    for stages in ((), (Stage(until=0.5, num_hidden_layers=2, seq_length=16), Stage())):
        with pytest.raises(InputError, match="stages is"):
            pretrain(settings(staged, recipe=RECIPE.replace(stages=stages)))


@pytest.mark.slow
def test_more_steps_may_move_no_update_to_another_stage(staged, settings, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"\[3, 6\]: with `steps` 8 .* \[4, 8\]"):
        pretrain(settings(staged, recipe=STAGED.replace(steps=8)))
    copy = stopped_at(staged, 2, tmp_path / "run")  # still in the first stage
    monkeypatch.setattr("albert_tf.pretraining.pretrain.train", lambda *_, **__: None)
    pretrain(settings(copy, recipe=STAGED.replace(steps=8)))


@pytest.mark.parametrize(
    ("config", "first", "last", "message"),
    [
        (CONFIG.replace(sharing="none"), {"num_hidden_layers": 1}, {}, r"stages\[0\]: num_hidden_layers=1"),
        (CONFIG, {}, {"num_hidden_layers": 1}, r"stages\[1\]: .*num_hidden_layers=1"),
        (CONFIG, {"seq_length": 128}, {}, r"stages\[0\]: seq_length=128"),
        (CONFIG, {"batch_size": 3}, {}, r"stages\[0\]: batch_size=3"),
    ],
)
def test_stages_that_do_not_fit_the_network_are_refused(settings, tmp_path, config, first, last, message):
    recipe = RECIPE.replace(stages=(Stage(until=0.5, **first), Stage(**last)))
    with pytest.raises(InputError, match=message):
        pretrain(settings(tmp_path / "run", config=config, recipe=recipe, accumulate=2))
    assert not (tmp_path / "run").exists()


def test_a_run_has_trained_the_positions_of_the_stages_that_it_has_begun(
    settings, begun, tiny_vocabulary, tmp_path
):
    training, contents = begun(pretrain, settings(recipe=STAGED))
    for step, expected in ((3, 16), (4, 32)):
        run = tmp_path / f"{step}"
        albert_tf.save(training.model, run, tiny_vocabulary, step=step, recipe=contents.recipe)
        assert trained_positions(RunDirectory(run)) == expected


def test_a_later_stage_copies_what_its_origin_and_the_stages_before_have_trained(
    run, settings, begun, tmp_path
):
    """24 positions, those of the origin, before a stage of 32; a stage of 16 needs no copies."""
    origin = shutil.copytree(run, tmp_path / "origin")
    change_json(origin / "recipe.json", seq_length=24)
    training, _ = begun(pretrain, settings(init_from=origin, recipe=STAGED))
    first, second = training.stages
    assert first.on_start is None
    positions = training.model.encoder.embeddings.position_embeddings
    values = np.random.default_rng(0).normal(size=positions.shape).astype(np.float32)
    positions.assign(values)
    second.on_start()
    np.testing.assert_array_equal(positions[:32], [*values[:24], *values[:8]])
