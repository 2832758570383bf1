"""Pre-training: text or prepared documents in, a run directory out."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.checkpoints.directory import RunContents, RunDirectory
from albert_tf.checkpoints.growth import Growth, grown_from
from albert_tf.checkpoints.models import build_model
from albert_tf.config import AlbertConfig
from albert_tf.conversion.start import run_at, start_of_run
from albert_tf.data import naming_damaged_files
from albert_tf.models.memory import TRAINING, check_memory
from albert_tf.models.sharing import at_depth
from albert_tf.optimization import recipe_optimizer
from albert_tf.pretraining.budget import Size, as_begun, fitted, with_steps
from albert_tf.pretraining.cooccurrence import MAX_COUNTED, counts, first_weights
from albert_tf.pretraining.corpus import Corpus, corpus_of
from albert_tf.pretraining.objective import pretraining_metrics, pretraining_objective
from albert_tf.pretraining.pace import seconds_per_update
from albert_tf.pretraining.settings import Pretraining, check_same_run, read_recipe
from albert_tf.recipes import PretrainingRecipe
from albert_tf.stages import Stage
from albert_tf.training.evaluator import evaluator
from albert_tf.training.phases import Phase, Training, built_optimizer, is_fused, model_options
from albert_tf.training.settings import Execution
from albert_tf.training.strategies import hosts_of
from albert_tf.training.trainer import Report, train, training_scope
from albert_tf.utils.errors import InputError

# The first value of a variable by its name; None where it begins at random.
FirstValues = Callable[[str], np.ndarray | None]


@naming_damaged_files()
def pretrain(settings: Pretraining, report: Report = logging.info) -> None:
    """Trains, or goes on where a former call stopped.

    Args:
      settings: the settings of the run.
      report: called with lines about the start: where weights come from, or that a checkpoint is damaged.
    Raises:
      ValueError: settings contradict each other, or those of the run that is there; a file is damaged.
      FileNotFoundError: an input is missing.
      TrainingFailed: a loss or a weight is non-finite.
      Preempted: SIGTERM came, and the state is saved; or another host is lost.
      KeyboardInterrupt: Ctrl-C came; once training has begun, the state is saved.
    """
    run = RunDirectory(settings.output, "output")
    with training_scope(run, settings.execution, report) as strategy:
        if settings.budget is not None:
            settings = _of_size(settings, _size(run, settings, strategy, report))
        config = _checked_config(settings, strategy)
        if run.is_begun:
            check_same_run(run, config, settings)
        corpus = corpus_of(settings, run)
        first_values = None if run.steps() else _first_values(settings, config, corpus, report)
        held_out = corpus.held_out
        recipe = {**settings.record(run), "held_out": None if held_out is None else held_out.record()}
        train(
            run,
            _training(settings, config, corpus, first_values),
            RunContents(config, settings.task, settings.vocabulary, settings.tokenizer, recipe),
            report,
            note=f"; held out: {held_out.what}" if held_out else "",
            more="--init_from in another --output"
            if settings.budget or settings.recipe.stages
            else "more --steps",
        )


def _of_size(settings: Pretraining, size: Size) -> Pretraining:
    return dataclasses.replace(settings, config=size.config, recipe=size.recipe)


def _size(run: RunDirectory, settings: Pretraining, strategy: tf.distribute.Strategy, report: Report) -> Size:
    """The size that a run with a budget was begun with, or that there is time for."""
    budget = settings.budget
    assert budget is not None
    if run.is_begun:
        return with_steps(as_begun(budget.sizes, run.config), read_recipe(run).steps)
    if hosts_of(strategy).count > 1:
        raise InputError("a budget is for one machine, and TF_CONFIG names several: say --steps")
    if settings.init_from is not None:  # a wrong one is refused before a minute is spent
        for size in budget.sizes:
            sized = _of_size(settings, size)
            _growth(sized, _checked_config(sized, strategy))
    corpus = corpus_of(settings, run)

    def pace(size: Size) -> list[float]:
        sized = _of_size(settings, size)
        return seconds_per_update(_training(sized, _checked_config(sized, strategy), corpus))

    report("measuring the time of an update, which takes about a minute")
    size = fitted(budget, pace)
    report(
        f"{budget.seconds:g} s are time for {size.recipe.steps:,} updates, {size.recipe.warmup_steps:,} "
        f"of them warm-up, of a network {size.config.hidden_size} wide and "
        f"{size.config.num_hidden_layers} deep"
    )
    return size


def _checked_config(settings: Pretraining, strategy: tf.distribute.Strategy) -> AlbertConfig:
    """The network, with as many word embeddings as the vocabulary has pieces; ValueError if it is no good."""
    config = settings.config.replace(vocab_size=len(settings.pieces))
    check_memory(config, TRAINING)
    check_stages(settings.recipe, config)
    for stage in settings.recipe.all_stages:
        batch_size = settings.recipe.at(stage).batch_size
        settings.execution.check_divides(batch_size, strategy.num_replicas_in_sync)
    return config


def check_stages(recipe: PretrainingRecipe, config: AlbertConfig) -> None:
    """ValueError unless a network can be trained in the stages of a recipe, and is whole in the last."""
    for number, stage in enumerate(recipe.all_stages):
        where = f"stages[{number}]: " if recipe.stages else ""
        try:
            depth = at_depth(config, stage.num_hidden_layers).num_hidden_layers
        except InputError as error:
            raise InputError(f"{where}{error}") from error
        length = recipe.at(stage).examples.seq_length
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


def _first_values(
    settings: Pretraining, config: AlbertConfig, corpus: Corpus, report: Report
) -> FirstValues | None:
    """The first values of a new run: random ones, those of another run, or by counts of its text."""
    if settings.recipe.word_embeddings == "cooccurrence":
        # Every host reads the text as a whole.
        counted = counts(corpus.training_tokens(MAX_COUNTED), config.vocab_size)
        report(f"word embeddings from the co-occurrence of {counted.pieces.sum():,} pieces")
        return first_weights(counted, config)
    if settings.init_from is None:
        return None
    growth = _growth(settings, config)
    for line in growth.listing():
        report(line)
    return growth.read


def _growth(settings: Pretraining, config: AlbertConfig) -> Growth:
    """The start of weights that begin as those of `init_from`."""
    assert settings.init_from is not None
    origin = run_at(settings.init_from)
    start_of_run(origin, settings.vocabulary, settings.tokenizer)  # which refuses another text
    return grown_from(origin, config, settings.task, extend_positions=settings.extend_positions)


def _training(
    settings: Pretraining, config: AlbertConfig, corpus: Corpus, first_values: FirstValues | None = None
) -> Training:
    """The model, its optimizer and its phases. Positions that none has trained begin as copies of others."""
    recipe, execution = settings.recipe, settings.execution
    keras.utils.set_random_seed(settings.seed)
    model = build_model(config, settings.task, read=first_values, **model_options(execution))
    phases: list[Phase] = []
    trained = 0 if settings.init_from is None else config.max_position_embeddings
    for stage, end in zip(recipe.all_stages, recipe.stage_ends, strict=True):
        phase = _phase(recipe, stage, end, corpus, model, execution)
        length = recipe.at(stage).examples.seq_length
        if 0 < trained < length:
            repeat = functools.partial(model.encoder.embeddings.repeat_positions, trained, length)
            phase = dataclasses.replace(phase, on_start=repeat)
        phases.append(phase)
        trained = max(trained, length)
    optimizer = recipe_optimizer(recipe.optimizer, recipe, recipe.steps, recipe.warmup_steps)
    return Training(
        model=model,
        optimizer=built_optimizer(optimizer, model, execution),
        objective=pretraining_objective(recipe.examples.sentence_objective, fused=is_fused(execution)),
        phases=phases,
        metrics=pretraining_metrics,
        seed=settings.seed,
        execution=execution,
        loop=settings.loop,
    )


def _phase(
    whole: PretrainingRecipe,
    stage: Stage,
    end: int,
    corpus: Corpus,
    model: keras.Model,
    execution: Execution,
) -> Phase:
    """The updates of a stage, which is evaluated as it trains: of this depth, at this length."""
    recipe, is_staged = whole.at(stage), bool(whole.stages)
    depth = stage.num_hidden_layers or model.config.num_hidden_layers
    length, batch_size = recipe.examples.seq_length, recipe.batch_size
    evaluation = corpus.evaluation_batches(recipe.examples, execution.rows_at_once(batch_size))
    objective = pretraining_objective(recipe.examples.sentence_objective)
    evaluate = evaluator(functools.partial(model, num_hidden_layers=depth), objective)
    shape = {"num_hidden_layers": depth, "seq_length": length, "batch_size": batch_size}
    words = f"to step {end}: depth {depth}, {batch_size} examples of {length} tokens an update"
    return Phase(
        end=end,
        batch_size=batch_size,
        seq_length=length,
        batches=lambda seed: corpus.training_feed(recipe, seed, execution.data_service),
        evaluate=lambda: pretraining_metrics(evaluate(evaluation)),
        arguments={"num_hidden_layers": depth},
        description=shape if is_staged else {},
        note=words if is_staged else "",
    )
