"""Pre-training: text or prepared documents in, a run directory out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.checkpoints.growth import check_same_text, grown_from
from albert_tf.checkpoints.models import build_model
from albert_tf.checkpoints.run import RECIPE
from albert_tf.config import AlbertConfig
from albert_tf.data import naming_damaged_files
from albert_tf.errors import InputError
from albert_tf.files import read_json
from albert_tf.model.memory import TRAINING, check_memory
from albert_tf.optimization import recipe_optimizer
from albert_tf.origins import published_run
from albert_tf.pretraining.batches import held_out_batches, hold_out, training_feed
from albert_tf.pretraining.objective import pretraining_figures, pretraining_objective
from albert_tf.pretraining.settings import Pretraining, check_same_run
from albert_tf.text import Vocabulary
from albert_tf.training.engine import Evaluate, Job, train_run
from albert_tf.training.evaluator import evaluator


@naming_damaged_files()
def pretrain(settings: Pretraining, report: Callable[[str], None] = logging.info) -> None:
    """Trains, or goes on where a former call stopped.

    Args:
      settings: what to do.
      report: what is told of the start: where weights come from, or that a checkpoint is damaged.
    Raises:
      ValueError: settings contradict each other, or those of the run that is there; a file is damaged.
      FileNotFoundError: an input is missing.
      TrainingFailed: a loss or a weight is non-finite.
      Preempted: SIGTERM came, and the state is saved; or another host is lost.
      KeyboardInterrupt: Ctrl-C came; once training has begun, the state is saved.
    """
    train_run(
        Path(settings.output),
        lambda strategy: _job(settings, strategy, report),
        settings.execution,
        report,
    )


def _job(settings: Pretraining, strategy: tf.distribute.Strategy, report: Callable[[str], None]) -> Job:
    run, recipe = Path(settings.output), settings.recipe
    config = settings.config.replace(vocab_size=len(Vocabulary.from_file(settings.vocabulary)))
    check_memory(config, TRAINING)
    if recipe.examples.seq_length > config.max_position_embeddings:
        raise InputError(
            f"seq_length={recipe.examples.seq_length} is more than "
            f"max_position_embeddings={config.max_position_embeddings} of the config"
        )
    settings.execution.check_divides(recipe.batch_size, strategy.num_replicas_in_sync)
    resumed = (run / RECIPE).exists()
    if resumed:
        check_same_run(run, config, settings)
    held_out = hold_out(settings, read_json(run / RECIPE) if resumed else None)
    held_out_data = held_out_batches(settings, held_out)
    objective = pretraining_objective(recipe.examples.sentence_objective)

    def evaluation(model: keras.Model) -> Evaluate:
        evaluate = evaluator(model, objective)
        return lambda: pretraining_figures(evaluate(held_out_data))

    return Job(
        config=config,
        task=settings.task,
        vocabulary=Path(settings.vocabulary),
        tokenizer=settings.tokenizer,
        record={**settings.record(), "held_out": None if held_out is None else held_out.record()},
        model=functools.partial(_model, settings, config, report),
        optimizer=lambda: recipe_optimizer(recipe.optimizer, recipe, recipe.steps, recipe.warmup_steps),
        objective=objective,
        feed=lambda seed: training_feed(settings, strategy, seed, held_out),
        evaluation=evaluation,
        figures=pretraining_figures,
        seed=settings.seed,
        steps=recipe.steps,
        batch_size=recipe.batch_size,
        seq_length=recipe.examples.seq_length,
        loop=settings.loop,
        note=f"; held out: {held_out.what}" if held_out else "",
    )


def _model(
    settings: Pretraining, config: AlbertConfig, report: Callable[[str], None], going_on: bool
) -> keras.Model:
    """The model with its first weights: random ones, or those of another run."""
    build = functools.partial(
        build_model, config, settings.task, dtype=settings.execution.policy, remat=settings.execution.remat
    )
    if settings.init_from is None or going_on:
        return build()
    origin = published_run(settings.init_from)
    check_same_text(origin, settings.vocabulary, settings.tokenizer)
    growth = grown_from(origin, config, settings.task, extend_positions=settings.extend_positions)
    model = build(read=growth.read)
    for line in growth.listing():
        report(line)
    return model
