"""One update: forward, backward, sum over the replicas, optimizer; and several of them in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras as keras

from albert_tf.optimization import global_norm
from albert_tf.training.losses import Objective, Term

Batch = Mapping[str, tf.Tensor]
Gradients = dict[int, tf.Tensor]  # by the position of the variable in model.trainable_variables


class Totals(NamedTuple):
    """What several updates amount to."""

    terms: dict[str, Term]  # summed over the updates
    gradient_norm: tf.Tensor  # of the last update, before clipping


def training_steps(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    objective: Objective,
    step: tf.Variable,
    *,
    seed: int,
    accumulate: int = 1,
    xla: bool = False,
) -> Callable[[Iterator[Batch], tf.Tensor], Totals]:
    """The function that trains: it takes an iterator of this host's batches and a number of updates.

    A batch holds the rows of all replicas and of all microbatches of this host. Losses are divided by the
    weights of the whole global batch: neither the number of replicas nor that of microbatches changes an
    update.

    Args:
      model: called with a batch, `training` and `seed`.
      optimizer: built under the same strategy as the model.
      objective: the losses.
      step: int64 scalar, the updates done so far; every update moves it on.
      seed: of all dropout of the run.
      accumulate: microbatches an update; their gradients are added up in float32.
      xla: whether XLA compiles forward and backward. The update stays outside: a compiled
        `apply_gradients` fails under MirroredStrategy.
    Returns:
      A tf.function, to be called under the strategy that is current now.
    """
    strategy = tf.distribute.get_strategy()
    gradients_of = _gradient_function(model, objective, xla)

    def update(batch: Batch, step_seed: tf.Tensor) -> Totals:
        replica = tf.distribute.get_replica_context()
        replica_seed = tf.random.fold_in(step_seed, replica.replica_id_in_sync_group)
        rows = replica_rows(batch, replica, accumulate)
        weights = replica.all_reduce("SUM", objective.weights(rows))
        scale = _loss_scale(optimizer)

        def microbatch(index: tf.Tensor) -> tuple[dict[str, Term], Gradients]:
            part = {name: tensor[index] for name, tensor in rows.items()}
            return gradients_of(part, weights, tf.random.fold_in(replica_seed, index), scale)

        sums = replica.all_reduce("SUM", sum_over(microbatch, accumulate))
        terms, gradients = _unscaled(sums, optimizer)
        pairs = [(gradient, model.trainable_variables[index]) for index, gradient in gradients.items()]
        optimizer.apply_gradients(pairs, skip_gradients_aggregation=True)
        return Totals(terms, global_norm(gradients.values()))

    @tf.function
    def train_steps(iterator: Iterator[Batch], count: tf.Tensor) -> Totals:
        zero = tf.zeros([])
        terms = {name: Term(zero, zero, zero) for name in objective.names}
        gradient_norm = zero
        for _ in tf.range(count):
            step_seed = tf.random.fold_in(tf.constant([seed, 0]), step)
            replicas = strategy.run(update, (next(iterator), step_seed))
            # Every replica holds the same sums.
            done = tf.nest.map_structure(lambda part: strategy.experimental_local_results(part)[0], replicas)
            terms = tf.nest.map_structure(tf.add, terms, done.terms)
            gradient_norm = done.gradient_norm
            step.assign_add(1)
        return Totals(terms, gradient_norm)

    return train_steps


def replica_rows(batch: Batch, replica: tf.distribute.ReplicaContext, accumulate: int = 1) -> Batch:
    """The rows of a host's batch that one replica works on, a microbatch after another.

    Args:
      batch: tensors [rows, …] of static shape.
      replica: the replica's context.
      accumulate: microbatches, A.
    Returns:
      Tensors [A, rows / (replicas · A), …].
    """
    replicas = replica.num_replicas_in_sync

    def rows(tensor: tf.Tensor) -> tf.Tensor:
        shape = [replicas, accumulate, tensor.shape[0] // (replicas * accumulate), *tensor.shape[1:]]
        return tf.reshape(tensor, shape)[replica.replica_id_in_sync_group]

    return {name: rows(tensor) for name, tensor in batch.items()}


def sum_over(function: Callable[[tf.Tensor], Any], count: int) -> Any:
    """function(0) + … + function(count - 1), any nested structure of tensors, one at a time in memory."""
    first = function(tf.constant(0))
    if count == 1:
        return first
    _, total = tf.while_loop(
        lambda index, _: index < count,
        lambda index, total: (index + 1, tf.nest.map_structure(tf.add, total, function(index))),
        (tf.constant(1), first),
        parallel_iterations=1,
    )
    return total


def _gradient_function(
    model: keras.Model, objective: Objective, xla: bool
) -> Callable[[Batch, Mapping[str, tf.Tensor], tf.Tensor, tf.Tensor], tuple[dict[str, Term], Gradients]]:
    """The terms of a microbatch and the gradients of its share of the scaled loss, as one graph."""
    variables = model.trainable_variables

    def gradients_of(
        batch: Batch, weights: Mapping[str, tf.Tensor], seed: tf.Tensor, scale: tf.Tensor
    ) -> tuple[dict[str, Term], Gradients]:
        with tf.GradientTape() as tape:
            terms = objective.terms(model(batch, training=True, seed=seed), batch)
            losses = [tf.math.divide_no_nan(term.loss, weights[name]) for name, term in terms.items()]
            loss = tf.add_n(losses) * scale
        gradients = tape.gradient(loss, variables)
        # A variable that no loss depends on has none (the pooler, where there is no sentence loss).
        return terms, {
            index: tf.convert_to_tensor(gradient)
            for index, gradient in enumerate(gradients)
            if gradient is not None
        }

    return tf.function(gradients_of, autograph=False, jit_compile=xla or None)


def _loss_scale(optimizer: keras.optimizers.Optimizer) -> tf.Tensor:
    """What float16's losses are multiplied with; 1 without a LossScaleOptimizer."""
    one = tf.ones([])
    scaled = isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer)
    return optimizer.get_scaled_loss(one) if scaled else one


def _unscaled(
    sums: tuple[dict[str, Term], Gradients], optimizer: keras.optimizers.Optimizer
) -> tuple[dict[str, Term], Gradients]:
    terms, gradients = sums
    if isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer):
        values = optimizer.get_unscaled_gradients(list(gradients.values()))
        gradients = dict(zip(gradients, values, strict=True))
    return terms, gradients
