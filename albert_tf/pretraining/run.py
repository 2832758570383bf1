"""Pre-training: text or prepared documents in, a run directory out."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.checkpoints.growth import Growth, check_same_text, grown_from
from albert_tf.checkpoints.models import build_model
from albert_tf.checkpoints.run import RECIPE, read_config
from albert_tf.config import AlbertConfig
from albert_tf.data import naming_damaged_files
from albert_tf.errors import InputError
from albert_tf.files import read_json
from albert_tf.model.memory import TRAINING, check_memory
from albert_tf.model.sharing import at_depth
from albert_tf.optimization import recipe_optimizer
from albert_tf.origins import published_run
from albert_tf.pretraining.batches import (
    HeldOut,
    held_out_batches,
    hold_out,
    training_feed,
    training_tokens,
)
from albert_tf.pretraining.budget import Budget, Size, as_begun, fitted, with_steps
from albert_tf.pretraining.cooccurrence import MOST_COUNTED, counts, first_weights
from albert_tf.pretraining.objective import pretraining_figures, pretraining_objective
from albert_tf.pretraining.pace import seconds_per_update
from albert_tf.pretraining.settings import Pretraining, check_same_run, read_recipe
from albert_tf.recipes import PretrainingRecipe, ResolvedStage
from albert_tf.text import Vocabulary
from albert_tf.training.engine import Evaluate, Job, Stretch, is_fused, model_options, train_run
from albert_tf.training.evaluator import evaluator
from albert_tf.training.strategies import hosts_of


@naming_damaged_files()
def pretrain(settings: Pretraining, report: Callable[[str], None] = logging.info) -> None:
    """Trains, or goes on where a former call stopped.

    Args:
      settings: what to do.
      report: called with lines about the start: where weights come from, or that a checkpoint is damaged.
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
    if settings.budget is not None:
        size = _size(settings, settings.budget, strategy, report)
        settings = dataclasses.replace(settings, config=size.config, recipe=size.recipe)
    return _sized_job(settings, strategy, report)


def _size(
    settings: Pretraining, budget: Budget, strategy: tf.distribute.Strategy, report: Callable[[str], None]
) -> Size:
    """What a run with a budget trains: what it was begun with, or what there is time for."""
    run = Path(settings.output)
    if (run / RECIPE).exists():
        return with_steps(as_begun(budget.sizes, read_config(run)), read_recipe(run).steps)
    if hosts_of(strategy).count > 1:
        raise InputError("a budget is for one machine, and TF_CONFIG names several: say --steps")

    def pace(size: Size) -> list[float]:
        recipe = size.recipe.replace(word_embeddings="random")  # nothing need be counted for this
        tried = dataclasses.replace(
            settings, config=size.config, recipe=recipe, init_from=None, extend_positions=False
        )
        return seconds_per_update(_sized_job(tried, strategy, report), settings.execution)

    if settings.init_from is not None:  # a wrong one is refused before a minute is spent
        for size in budget.sizes:
            _growth(settings, _with_vocabulary(settings, size.config))
    report("measuring the time of an update, which takes about a minute")
    size = fitted(budget, pace)
    report(
        f"{budget.seconds:g} s are time for {size.recipe.steps:,} updates, {size.recipe.warmup_steps:,} "
        f"of them warm-up, of a network {size.config.hidden_size} wide and "
        f"{size.config.num_hidden_layers} deep"
    )
    return size


def _sized_job(settings: Pretraining, strategy: tf.distribute.Strategy, report: Callable[[str], None]) -> Job:
    run, recipe = Path(settings.output), settings.recipe
    config = _with_vocabulary(settings, settings.config)
    check_memory(config, TRAINING)
    _check_stages(recipe, config)
    for stage in recipe.resolved_stages:
        settings.execution.check_divides(stage.recipe.batch_size, strategy.num_replicas_in_sync)
    resumed = (run / RECIPE).exists()
    if resumed:
        check_same_run(run, config, settings)
    held_out = hold_out(settings, read_json(run / RECIPE) if resumed else None)
    return Job(
        config=config,
        task=settings.task,
        vocabulary=Path(settings.vocabulary),
        tokenizer=settings.tokenizer,
        record={**settings.record(), "held_out": None if held_out is None else held_out.record()},
        model=functools.partial(_model, settings, config, held_out, report),
        optimizer=lambda: recipe_optimizer(recipe.optimizer, recipe, recipe.steps, recipe.warmup_steps),
        objective=pretraining_objective(
            recipe.examples.sentence_objective, fused=is_fused(settings.execution)
        ),
        stretches=_stretches(settings, config, strategy, held_out),
        figures=pretraining_figures,
        seed=settings.seed,
        loop=settings.loop,
        note=f"; held out: {held_out.what}" if held_out else "",
        more="--init_from in another --output"
        if settings.budget or settings.recipe.stages
        else "more --steps",
    )


def _with_vocabulary(settings: Pretraining, config: AlbertConfig) -> AlbertConfig:
    """The network with as many word embeddings as the vocabulary has pieces."""
    return config.replace(vocab_size=len(Vocabulary.from_file(settings.vocabulary)))


def _check_stages(recipe: PretrainingRecipe, config: AlbertConfig) -> None:
    """ValueError unless a network can be trained in the stages of a recipe, and is whole in the last."""
    for number, stage in enumerate(recipe.resolved_stages):
        where = f"stages[{number}]: " if recipe.stages else ""
        try:
            depth = at_depth(config, stage.num_hidden_layers).num_hidden_layers
        except InputError as error:
            raise InputError(f"{where}{error}") from error
        length = stage.recipe.examples.seq_length
        if length > config.max_position_embeddings:
            raise InputError(
                f"{where}seq_length={length} is more than "
                f"max_position_embeddings={config.max_position_embeddings} of the config"
            )
    if depth != config.num_hidden_layers:
        raise InputError(
            f"{where}the last stage has num_hidden_layers={depth}, and the config "
            f"{config.num_hidden_layers}: leave it out there, so that the run ends with its network"
        )


def _stretches(
    settings: Pretraining, config: AlbertConfig, strategy: tf.distribute.Strategy, held_out: HeldOut | None
) -> list[Stretch]:
    """The updates of each stage. Positions that none has trained begin as copies of those that one has."""
    stretches: list[Stretch] = []
    trained = 0 if settings.init_from is None else config.max_position_embeddings
    for stage in settings.recipe.resolved_stages:
        stretch = _stretch(settings, config, strategy, held_out, stage)
        length = stage.recipe.examples.seq_length
        if 0 < trained < length:
            begin = functools.partial(_repeat_positions, trained=trained, positions=length)
            stretch = dataclasses.replace(stretch, begin=begin)
        stretches.append(stretch)
        trained = max(trained, length)
    return stretches


def _repeat_positions(model: keras.Model, trained: int, positions: int) -> None:
    model.encoder.embeddings.repeat_positions(trained, positions)


def _stretch(
    settings: Pretraining,
    config: AlbertConfig,
    strategy: tf.distribute.Strategy,
    held_out: HeldOut | None,
    stage: ResolvedStage,
) -> Stretch:
    """The updates of a stage, which is evaluated as it trains: of this depth, at this length."""
    recipe, is_staged = stage.recipe, bool(settings.recipe.stages)
    layers = stage.num_hidden_layers or config.num_hidden_layers
    shape = {
        "num_hidden_layers": layers,
        "seq_length": recipe.examples.seq_length,
        "batch_size": recipe.batch_size,
    }
    words = f"depth {layers}, {recipe.batch_size} examples of {recipe.examples.seq_length} tokens an update"
    settings = dataclasses.replace(settings, recipe=recipe)
    held_out_data = held_out_batches(settings, held_out)
    objective = pretraining_objective(recipe.examples.sentence_objective)

    def evaluation(model: keras.Model) -> Evaluate:
        evaluate = evaluator(functools.partial(model, num_hidden_layers=layers), objective)
        return lambda: pretraining_figures(evaluate(held_out_data))

    return Stretch(
        end=stage.end,
        feed=lambda seed: training_feed(settings, strategy, seed, held_out),
        evaluation=evaluation,
        batch_size=recipe.batch_size,
        seq_length=recipe.examples.seq_length,
        arguments={"num_hidden_layers": layers},
        shape=shape if is_staged else {},
        note=f"to step {stage.end}: {words}" if is_staged else "",
    )


def _model(
    settings: Pretraining,
    config: AlbertConfig,
    held_out: HeldOut | None,
    report: Callable[[str], None],
    going_on: bool,
) -> keras.Model:
    """The model with its first weights: random ones, those of another run, or what counts of its text say."""
    build = functools.partial(build_model, config, settings.task, **model_options(settings.execution))
    if going_on:
        return build()
    if settings.recipe.word_embeddings == "cooccurrence":
        return build(read=_counted(settings, config, held_out, report))
    if settings.init_from is None:
        return build()
    growth = _growth(settings, config)
    model = build(read=growth.read)
    for line in growth.listing():
        report(line)
    return model


def _growth(settings: Pretraining, config: AlbertConfig) -> Growth:
    """Where the weights come from that begin as those of `init_from`."""
    assert settings.init_from is not None
    origin = published_run(settings.init_from)
    check_same_text(origin, settings.vocabulary, settings.tokenizer)
    return grown_from(origin, config, settings.task, extend_positions=settings.extend_positions)


def _counted(
    settings: Pretraining, config: AlbertConfig, held_out: HeldOut | None, report: Callable[[str], None]
) -> Callable[[str], np.ndarray | None]:
    """The first weights by the text to train on, which every host reads as a whole."""
    counted = counts(training_tokens(settings, held_out, MOST_COUNTED), config.vocab_size)
    report(f"word embeddings from the co-occurrence of {counted.pieces.sum():,} pieces")
    return first_weights(counted, config)
