"""The stages of a recipe as phases of training."""

from __future__ import annotations

import functools
from collections.abc import Callable

import tensorflow as tf
import tf_keras as keras

from albert_tf.models.losses import Term
from albert_tf.models.memory import TRAINING, check_memory
from albert_tf.models.sharing import at_depth
from albert_tf.pretraining.budget import Size
from albert_tf.pretraining.corpus import Corpus
from albert_tf.pretraining.objective import pretraining_metrics, pretraining_objective
from albert_tf.recipes import PretrainingRecipe
from albert_tf.training.evaluator import evaluator
from albert_tf.training.phases import Phase
from albert_tf.training.settings import Execution
from albert_tf.utils.errors import InputError


def check_size(size: Size, execution: Execution) -> None:
    """ValueError unless a network can be trained by its recipe here, and is whole in the last stage."""
    config, recipe = size.config, size.recipe
    check_memory(config, TRAINING)
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    last = len(recipe.all_stages) - 1
    for number, stage in enumerate(recipe.all_stages):
        part = recipe.at(stage)
        try:
            depth = at_depth(config, stage.num_hidden_layers).num_hidden_layers
            if part.examples.seq_length > config.max_position_embeddings:
                raise InputError(
                    f"seq_length={part.examples.seq_length} is more than "
                    f"max_position_embeddings={config.max_position_embeddings} of the config"
                )
            if number == last and depth != config.num_hidden_layers:
                raise InputError(
                    f"the last stage has num_hidden_layers={depth}, and the config "
                    f"{config.num_hidden_layers}: leave it out there, so that the run ends with its network"
                )
            execution.check_divides(part.batch_size, replicas)
        except InputError as error:
            raise InputError(f"stages[{number}]: {error}" if recipe.stages else str(error)) from error


def pretraining_phases(
    model: keras.Model, recipe: PretrainingRecipe, corpus: Corpus, execution: Execution, trained: int
) -> list[Phase]:
    """A phase for each stage of a recipe, evaluated as it trains: of this depth, at this length.

    So many positions are trained already; further ones begin, in the first stage that has them, as copies.
    """
    phases = []
    for stage, end in zip(recipe.all_stages, recipe.stage_ends, strict=True):
        part = recipe.at(stage)
        length, batch_size = part.examples.seq_length, part.batch_size
        depth = stage.num_hidden_layers or model.config.num_hidden_layers
        shape = {"num_hidden_layers": depth, "seq_length": length, "batch_size": batch_size}
        objective = pretraining_objective(part.examples.sentence_objective)
        evaluate = evaluator(functools.partial(model, num_hidden_layers=depth), objective)
        evaluation = corpus.evaluation_batches(part.examples, execution.rows_at_once(batch_size))
        repeat = functools.partial(model.encoder.embeddings.repeat_positions, trained, length)
        phases.append(
            Phase(
                end=end,
                batch_size=batch_size,
                seq_length=length,
                batches=functools.partial(corpus.training_feed, part, data_service=execution.data_service),
                evaluate=functools.partial(_evaluated, evaluate, evaluation),
                arguments={"num_hidden_layers": depth},
                description=shape if recipe.stages else {},
                on_start=repeat if 0 < trained < length else None,
            )
        )
        trained = max(trained, length)
    return phases


def _evaluated(
    evaluate: Callable[[tf.data.Dataset], dict[str, Term]], dataset: tf.data.Dataset
) -> dict[str, float]:
    return pretraining_metrics(evaluate(dataset))
