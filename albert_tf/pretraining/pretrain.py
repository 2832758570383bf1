"""Pre-training: text or prepared documents in, a run directory out."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.conversion.init_from import resolve_run
from albert_tf.data.tfrecords import naming_damaged_files
from albert_tf.errors import InputError
from albert_tf.models.loss_sums import LossFn, LossSum
from albert_tf.models.memory import TRAINING, check_memory
from albert_tf.models.sharing import with_num_layers
from albert_tf.optimization import recipe_optimizer
from albert_tf.pretraining.budget import ModelSize, measure_size, size_of_run
from albert_tf.pretraining.cooccurrence import MAX_COUNTED, counts, first_weights
from albert_tf.pretraining.corpus import Corpus
from albert_tf.pretraining.loss import pretraining_loss_fn, pretraining_metrics
from albert_tf.pretraining.pretraining_settings import Pretraining, check_same_run, read_recipe
from albert_tf.recipes import PretrainingRecipe, Stage
from albert_tf.runs.build_model import build_model
from albert_tf.runs.run_directory import RunContents, RunDirectory
from albert_tf.runs.warm_start import WarmStart, warm_start_from
from albert_tf.settings import flatten_record
from albert_tf.text.tokenizer import open_tokenizer
from albert_tf.training.compute_settings import ComputeConfig
from albert_tf.training.metrics_logger import evaluator
from albert_tf.training.stages import Training, TrainingStage, build_optimizer, is_fused, model_options
from albert_tf.training.trainer import LogLine, train, training_scope

# The first value of a variable by its name; None where it begins at random.
FirstValues = Callable[[str], np.ndarray | None]

# A function from the objective of pre-training to that of a run; it is called in the scope of its strategy.
Extend = Callable[[LossFn], LossFn]


@naming_damaged_files()
def pretrain(
    settings: Pretraining, report: LogLine = logging.info, extend: Extend = lambda objective: objective
) -> None:
    """Trains, or goes on where a former call stopped.

    Args:
      settings: the settings of the run.
      report: called with lines about the start: where weights come from, or that a checkpoint is damaged.
      extend: adds further terms to the objective, such as those of a teacher.
    Raises:
      ValueError: settings contradict each other, or those of the run that is there; a file is damaged.
      FileNotFoundError: an input is missing.
      TrainingFailed: a loss or a weight is non-finite.
      Preempted: SIGTERM came, and the state is saved; or another host is lost.
      KeyboardInterrupt: Ctrl-C came; once training has begun, the state is saved.
    """
    run, execution = RunDirectory(settings.output, "output"), settings.execution
    tokenizer = {"lowercase": settings.lowercase, "strip_accents": settings.strip_accents}
    task = _task(settings.recipe)
    with training_scope(run, execution, report):
        # A resumed run needs no origin any more.
        origin = None if run.steps() or settings.init_from is None else resolve_run(settings.init_from)
        if origin is not None:
            origin.vocabulary_for(settings.vocabulary, tokenizer)  # or an error now
        vocabulary = open_tokenizer(settings.vocabulary).vocabulary
        padding, offset = vocabulary.special_ids.padding, settings.config.position_offset
        if offset and padding != offset - 1:
            report(
                f"padding has id {padding} in the vocabulary, and RoBERTa's code counts positions by id "
                f"{offset - 1}, as byte-level BPE has it: `convert` will refuse this run"
            )
        sizes: Sequence[ModelSize] = [ModelSize(config=settings.config, recipe=settings.recipe)]
        if settings.budget:
            sizes = settings.budget.sizes
            if run.is_begun:
                sizes = [size_of_run(sizes, run.config).with_steps(read_recipe(run).steps)]
        sizes = [
            dataclasses.replace(size, config=size.config.replace(vocab_size=len(vocabulary)))
            for size in sizes
        ]
        growths = {}
        for size in sizes:  # before much is read
            check_size(size, execution)
            if origin is not None:
                growths[size.config] = warm_start_from(
                    origin, size.config, task, extend_positions=settings.extend_positions
                )
        corpus = Corpus(settings.train, settings.eval, {"vocabulary": settings.vocabulary, **tokenizer})
        corpus = corpus.holding_out(settings.recipe.examples, run.recipe if run.is_begun else None)
        text = corpus.record()
        training = functools.partial(_training, settings, corpus, extend)

        size = sizes[0]
        if settings.budget and not run.is_begun:
            size = measure_size(settings.budget.seconds, sizes, training, report)
        record = {
            **flatten_record(size.recipe),
            **text,
            **settings.run_record(run),
            "vocabulary": vocabulary.fingerprint,
            "extend_positions": settings.extend_positions,
            "budget": settings.budget and settings.budget.seconds,
        }
        if run.is_begun:
            run.check_vocabulary(settings.vocabulary, vocabulary.fingerprint)
            check_same_run(run, {**size.config.to_dict(), **task, **tokenizer, **record}, size.recipe)

        read = None if run.steps() else _first_values(size, growths.get(size.config), corpus, report)
        contents = RunContents(size.config, task, settings.vocabulary, tokenizer, record)
        note = f"; held out: {corpus.held_out.what}" if corpus.held_out else ""
        train(run, training(size, read), contents, report, note)


def _first_values(
    size: ModelSize, growth: WarmStart | None, corpus: Corpus, report: LogLine
) -> FirstValues | None:
    """The weights of another run, or word embeddings from counts; None: all begin at random."""
    if growth is not None:
        for line in growth.listing():
            report(line)
        return growth.read
    if size.recipe.word_embeddings != "cooccurrence":
        return None
    counted = counts(corpus.training_tokens(MAX_COUNTED), size.config.vocab_size)
    report(f"word embeddings from the co-occurrence of {counted.pieces.sum():,} pieces")
    return first_weights(counted, size.config)


def check_size(size: ModelSize, execution: ComputeConfig) -> None:
    """ValueError unless a network can be trained by its recipe here, and is whole in the last stage."""
    config, recipe = size.config, size.recipe
    check_memory(config, TRAINING)
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    for number, stage in enumerate(recipe.all_stages):
        part = recipe.at(stage)
        try:
            depth = with_num_layers(config, stage.num_hidden_layers).num_hidden_layers
            config.check_length(part.examples.seq_length)
            if stage == recipe.all_stages[-1] and depth != config.num_hidden_layers:
                raise InputError(
                    f"the last stage has num_hidden_layers={depth}, and the config "
                    f"{config.num_hidden_layers}: leave it out there, so that the run ends with its network"
                )
            execution.check_divides(part.batch_size, replicas)
        except InputError as error:
            raise InputError(f"stages[{number}]: {error}" if recipe.stages else str(error)) from error


def _training(
    settings: Pretraining, corpus: Corpus, extend: Extend, size: ModelSize, read: FirstValues | None = None
) -> Training:
    """The model of a size, its optimizer and its phases."""
    execution, recipe = settings.execution, size.recipe
    keras.utils.set_random_seed(settings.seed)
    model = build_model(size.config, _task(recipe), read=read, **model_options(execution))
    optimizer = recipe_optimizer(recipe.optimizer, recipe, recipe.steps, recipe.warmup_steps)
    objective_of = functools.partial(pretraining_loss_fn, recipe.examples.sentence_objective)
    objective = extend(objective_of(fused=is_fused(execution)))
    if "mlm" in objective.names and not recipe.examples.masked_lm_prob:
        raise InputError(
            "masked_lm_prob=0: no token is masked, there is nothing to learn: set masked_lm_prob"
        )
    metrics = functools.partial(pretraining_metrics, factors=objective.factors)
    return Training(
        model=model,
        optimizer=build_optimizer(optimizer, model, execution),
        objective=objective,
        phases=_phases(settings, model, recipe, corpus, extend(objective_of()), metrics),
        metrics=metrics,
        seed=settings.seed,
        execution=execution,
        loop=settings.loop,
    )


def _task(recipe: PretrainingRecipe) -> dict[str, Any]:
    """The entries of task.json."""
    return {"model": "pretrainer", "sentence_objective": recipe.examples.sentence_objective}


def _phases(
    settings: Pretraining,
    model: keras.Model,
    recipe: PretrainingRecipe,
    corpus: Corpus,
    objective: LossFn,
    metrics: Callable[[Mapping[str, LossSum]], dict[str, float]],
) -> list[TrainingStage]:
    """A phase for each stage of a recipe, evaluated as it trains: of this depth, at this length.

    Positions that are not trained yet begin, in the first stage that has them, as copies of those that are.
    """
    execution, phases = settings.execution, list[TrainingStage]()
    trained = 0 if settings.init_from is None else model.config.max_position_embeddings

    def phase(stage: Stage, end: int) -> TrainingStage:
        part = recipe.at(stage)
        length, depth = part.examples.seq_length, stage.num_hidden_layers or model.config.num_hidden_layers
        shape = {"num_hidden_layers": depth, "seq_length": length, "batch_size": part.batch_size}
        evaluate = evaluator(functools.partial(model, num_hidden_layers=depth), objective, execution.xla)
        evaluation = corpus.evaluation_batches(part.examples, execution.rows_at_once(part.batch_size))
        repeat = functools.partial(model.encoder.embeddings.repeat_positions, trained, length)
        return TrainingStage(
            end=end,
            batch_size=part.batch_size,
            seq_length=length,
            batches=functools.partial(corpus.training_feed, part, data_service=execution.data_service),
            evaluate=lambda: metrics(evaluate(evaluation)),
            arguments={"num_hidden_layers": depth},
            description=shape if recipe.stages else {},
            on_start=repeat if 0 < trained < length else None,
        )

    for stage, end in zip(recipe.all_stages, recipe.stage_ends, strict=True):
        phases.append(phase(stage, end))
        trained = max(trained, recipe.at(stage).examples.seq_length)
    return phases
