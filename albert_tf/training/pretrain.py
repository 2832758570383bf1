"""Pre-training: text or prepared documents in, a run directory out."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.checkpoints.files import sole_use
from albert_tf.checkpoints.growth import check_same_text, grown_from
from albert_tf.checkpoints.run import RECIPE, build_model, create_run, write_json
from albert_tf.checkpoints.steps import checkpoint_steps, clean_up
from albert_tf.choices import POLICIES
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.model.memory import TRAINING, check_memory
from albert_tf.optimization import create_optimizer
from albert_tf.recipes import PretrainingRecipe
from albert_tf.text import Vocabulary
from albert_tf.training.batches import held_out_batches, seed_of, training_feed
from albert_tf.training.evaluation import evaluator
from albert_tf.training.loop import FLOAT16_PATIENCE, TrainingState, Work, train
from albert_tf.training.losses import pretraining_objective
from albert_tf.training.preemption import Preempted, stop_at_once
from albert_tf.training.resume import check_same_start, restore, set_damaged_aside
from albert_tf.training.settings import Pretraining
from albert_tf.training.step import replica_update, training_steps
from albert_tf.training.strategies import (
    HOST_LOST,
    Feed,
    device_kind,
    hosts_of,
    keeps_iterator,
    make_strategy,
    over_hosts,
)


def pretrain(settings: Pretraining, report: Callable[[str], None] = logging.info) -> None:
    """Trains, or goes on where a former call stopped.

    Args:
      settings: what to do.
      report: what is told of the start: where weights come from, or that a checkpoint is damaged.
    Raises:
      ValueError: settings contradict each other, or those of the run that is there.
      FileNotFoundError: an input is missing.
      TrainingFailed: a loss or a weight is not finite.
      Preempted: SIGTERM came, and the state is saved; or another host is lost.
      KeyboardInterrupt: Ctrl-C came; once training has begun, the state is saved.
    """
    run = Path(settings.output)
    with stop_at_once(run):
        strategy = make_strategy(settings.strategy, settings.tpu, report)
        try:
            with strategy.scope():
                _pretrain(settings, strategy, report)
        except HOST_LOST as error:
            if hosts_of(strategy).count == 1:
                raise
            raise Preempted(
                f"another host of TF_CONFIG does not answer any more ({type(error).__name__}): type the same "
                f"command again on all of them, it goes on from the newest checkpoint in {run}"
            ) from error


def _pretrain(settings: Pretraining, strategy: tf.distribute.Strategy, report: Callable[[str], None]) -> None:
    run, recipe = Path(settings.output), settings.recipe
    config = settings.config.replace(vocab_size=len(Vocabulary.from_file(settings.vocabulary)))
    _check_sizes(settings, config, strategy.num_replicas_in_sync)
    hosts = hosts_of(strategy)
    resumed = (run / RECIPE).exists()
    if resumed:
        settings.check_same_run(run, config)

    @functools.cache
    def draw(at: int) -> Feed:
        return training_feed(settings, strategy, seed_of(settings.seed, at))

    # Whatever is wrong with the settings or the text of a new run shows here, before anything is written.
    going_on = resumed and bool(checkpoint_steps(run))
    if not going_on:
        draw(0)
    held_out_data = held_out_batches(settings)
    optimizer = _optimizer(recipe, settings.precision)
    model = _model(settings, config, going_on, report)
    optimizer.build(model.trainable_variables)
    step, drawn_at = (
        tf.Variable(0, dtype=tf.int64, trainable=False, name=name) for name in ("step", "drawn_at")
    )
    state = TrainingState(model=model, optimizer=optimizer, step=step, drawn_at=drawn_at)
    record = {**settings.record(), "replicas": strategy.num_replicas_in_sync}
    if hosts.is_chief and not resumed:
        try:
            create_run(run, config, settings.task, settings.vocabulary, settings.tokenizer, record)
        except FileExistsError as error:
            if not (run / RECIPE).exists():  # it was there before
                raise
            raise BlockingIOError(
                f"{run} is in use by another process, which has just begun it: wait for its end, or name "
                "another --output"
            ) from error
    with sole_use(run) if hosts.is_chief else contextlib.nullcontext():
        if hosts.is_chief:
            for lost in clean_up(run):
                report(f"ckpt-{lost} has no .index any more: its data is renamed to damaged-ckpt-{lost}")
        is_exact = keeps_iterator(strategy, settings.data_service)
        state, feed, iterator, damaged = restore(run, state, recipe.steps, draw, is_exact, report)
        every_host = over_hosts(strategy)
        start = int(tf.convert_to_tensor(step))
        check_same_start(every_host(start), run)  # which waits until all of them have read
        if hosts.is_chief:
            set_damaged_aside(run, damaged, start, report)
            write_json(run / RECIPE, record)
            report(_plan(settings, model, strategy, start))
        objective = pretraining_objective(recipe.sentence_objective)
        evaluate = evaluator(model, objective)
        update = replica_update(
            model,
            optimizer,
            objective,
            replicas_per_batch=feed.replicas_per_batch,
            accumulate=settings.accumulate,
            xla=settings.xla,
        )
        work = Work(
            train_steps=training_steps(update, objective.names, step, seed=settings.seed),
            evaluate=lambda: evaluate(held_out_data),
            examples_per_step=recipe.batch_size,
            seq_length=recipe.seq_length,
            patience=FLOAT16_PATIENCE if settings.precision == "float16" else 0,
            is_chief=hosts.is_chief,
            any_host=lambda flag: any(every_host(float(flag))),
        )
        train(run, state, iterator, settings.loop, work)


def _plan(settings: Pretraining, model: keras.Model, strategy: tf.distribute.Strategy, start: int) -> str:
    """The line that a run begins with."""
    if start == settings.recipe.steps:
        return f"{settings.output} is at its last step, {start}: no update is left, unless with more --steps"
    parameters = sum(variable.shape.num_elements() for variable in model.trainable_variables)
    return (
        f"{parameters:,} parameters, {settings.precision}, {strategy.num_replicas_in_sync} × "
        f"{device_kind(strategy)}: {'going on' if start else 'training'} from step {start}, to "
        f"{settings.recipe.steps}"
    )


def _check_sizes(settings: Pretraining, config: AlbertConfig, replicas: int) -> None:
    recipe = settings.recipe
    check_memory(config, TRAINING)
    if recipe.seq_length > config.max_position_embeddings:
        raise InputError(
            f"seq_length={recipe.seq_length} is more than "
            f"max_position_embeddings={config.max_position_embeddings} of the config"
        )
    if recipe.batch_size % (replicas * settings.accumulate):
        raise InputError(
            f"batch_size={recipe.batch_size} cannot be divided among {replicas} replicas times "
            f"accumulate={settings.accumulate}: make it a multiple of {replicas * settings.accumulate}"
        )


def _model(
    settings: Pretraining, config: AlbertConfig, going_on: bool, report: Callable[[str], None]
) -> keras.Model:
    """The model with its first weights: random ones, or those of another run."""
    keras.utils.set_random_seed(settings.seed)
    build: dict[str, Any] = {"dtype": POLICIES[settings.precision], "remat": settings.remat}
    if settings.init_from is None or going_on:  # then a checkpoint is about to be restored
        return build_model(config, settings.task, **build)
    check_same_text(settings.init_from, settings.vocabulary, settings.tokenizer)
    growth = grown_from(
        settings.init_from,
        config,
        settings.task,
        extend_positions=settings.extend_positions,
        seed=settings.seed,
    )
    model = build_model(config, settings.task, growth.read, **build)
    for line in growth.listing():
        report(line)
    return model


def _optimizer(recipe: PretrainingRecipe, precision: str) -> keras.optimizers.Optimizer:
    optimizer = create_optimizer(
        recipe.optimizer,
        init_lr=recipe.learning_rate,
        num_train_steps=recipe.steps,
        num_warmup_steps=recipe.warmup_steps,
        weight_decay=recipe.weight_decay,
        clip_norm=recipe.clip_norm,
        beta_1=recipe.beta_1,
        beta_2=recipe.beta_2,
        epsilon=recipe.epsilon,
    )
    # float16's smallest gradients would be 0 without a scale.
    return keras.mixed_precision.LossScaleOptimizer(optimizer) if precision == "float16" else optimizer
