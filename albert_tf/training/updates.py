"""One update: forward, backward, sum over the replicas, optimizer; and several of them in a row."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras as keras

from albert_tf.models.losses import Objective, Term
from albert_tf.optimization import global_norm

Batch = Mapping[str, tf.Tensor]
Gradients = dict[int, tf.Tensor]  # by the position of the variable in model.trainable_variables
Update = tuple[dict[str, Term], tf.Tensor]  # terms of the global batch, gradient norm before clipping


class Totals(NamedTuple):
    """Sums over several updates; one has failed if its loss or gradient is non-finite."""

    terms: dict[str, Term]  # summed over the updates that did not fail
    gradient_norm: tf.Tensor  # of the last update, before clipping
    failed: tf.Tensor  # the updates at the end that have, one after the other
    input_wait: tf.Tensor  # seconds of waiting for batches, by that for the first one


class InputWait:
    """True while the next batch is waited for, outside or inside of a graph; any thread may ask.

    It stays true where the iterator has failed. No update is being computed meanwhile: all weights are then
    those of the same step.
    """

    def __init__(self) -> None:
        self._outside, self._inside = False, tf.Variable(False, trainable=False, name="input_wait")

    def __bool__(self) -> bool:
        return self._outside or bool(tf.convert_to_tensor(self._inside))

    def next_batch(self, iterator: Iterator[Batch]) -> Batch:
        """The next batch, outside of a graph."""
        self._outside = True
        batch = next(iterator)
        self._outside = False
        return batch

    def call_with_next(
        self, function: Callable[[Batch, Totals], Totals], iterator: Iterator[Batch], totals: Totals
    ) -> Totals:
        """The function of the next batch, inside of a graph: what computed the totals is done with before."""
        with tf.control_dependencies(tf.nest.flatten(totals)):
            self._inside.assign(True)
            with tf.control_dependencies([tf.convert_to_tensor(self._inside)]):
                batch = next(iterator)
        with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
            self._inside.assign(False)
            arrived = tf.convert_to_tensor(self._inside)
        totals = function(batch, totals)
        with tf.control_dependencies([arrived, *tf.nest.flatten(totals)]):  # all of the call, not only these
            return tf.nest.map_structure(tf.identity, totals)


class TrainSteps(NamedTuple):
    """The function that trains, and whether it is waiting for a batch."""

    train: Callable[[Iterator[Batch], int], Totals]
    input_wait: InputWait

    def __call__(self, iterator: Iterator[Batch], count: int) -> Totals:
        """So many updates."""
        return self.train(iterator, count)


def training_steps(
    update: Callable[[Batch, tf.Tensor], Update],
    names: Iterable[str],
    step: tf.Variable,
    *,
    seed: int,
    before_update: Callable[[Batch], None] | None = None,
) -> TrainSteps:
    """The function that trains: under the current strategy, from an iterator of batches, so many updates.

    Args:
      update: as `replica_update` makes it.
      names: of the objective's terms.
      step: int64 scalar, the updates done so far; every update moves it on.
      seed: of all dropout of the run.
      before_update: called with a batch that may have a new shape, before it is computed.
    """
    strategy, input_wait = tf.distribute.get_strategy(), InputWait()
    zero = tf.zeros([])
    nothing = Totals({name: Term(zero, zero, zero) for name in names}, zero, tf.constant(0), zero)

    def train_step(batch: Batch, totals: Totals) -> Totals:
        # Where the batch does not come, counters stay as they are, too: they depend on no value of it.
        with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
            arrived = tf.no_op()
        with tf.control_dependencies([arrived]):
            step_seed = tf.random.fold_in(tf.constant([seed, 0]), step)
            replicas = strategy.run(update, (batch, step_seed))
            step.assign_add(1)
        # Every replica holds the same sums.
        terms, gradient_norm = tf.nest.map_structure(
            lambda part: strategy.experimental_local_results(part)[0], replicas
        )
        losses = [term.loss for term in terms.values()]
        good = tf.reduce_all(tf.math.is_finite(tf.stack([*losses, gradient_norm])))
        return Totals(
            tf.nest.map_structure(lambda total, x: total + tf.where(good, x, 0), totals.terms, terms),
            gradient_norm,
            tf.where(good, 0, totals.failed + 1),
            totals.input_wait,
        )

    functions: list[Callable] = []

    def train_steps(iterator: Iterator[Batch], count: int) -> Totals:
        is_first = not functions
        if is_first:  # traced once, for batches of all lengths
            totals_spec = tf.nest.map_structure(tf.TensorSpec.from_tensor, nothing)
            signature = [iterator.element_spec, totals_spec]  # type: ignore[attr-defined]
            one = tf.function(train_step, autograph=False, input_signature=signature)

            @tf.function
            def several(iterator: Iterator[Batch], count: tf.Tensor, totals: Totals) -> Totals:
                for _ in tf.range(count):
                    totals = input_wait.call_with_next(one, iterator, totals)
                return totals

            functions.extend([one, several])
        one, several = functions
        # Where any batch may have a new shape, Python looks at each; else they are a loop in the graph.
        looks_at_each = before_update is not None and not _is_static(iterator)

        def next_batch() -> Batch:
            batch = input_wait.next_batch(iterator)
            if before_update is not None:
                before_update(batch)
            return batch

        started = time.perf_counter()
        batch = next_batch()
        waited = time.perf_counter() - started  # the device is done with all before
        totals = call_traced(one, batch, nothing)
        if looks_at_each:
            for _ in range(int(count) - 1):
                totals = call_traced(one, next_batch(), totals)
        elif count > 1:
            totals = call_traced(several, iterator, tf.constant(int(count) - 1), totals)
        # The first batch of all waits for the pipeline to start, others are as quick as the first of a call.
        return totals._replace(input_wait=tf.constant(waited * (1 if is_first else int(count))))

    return TrainSteps(train_steps, input_wait)


def call_traced(function: Any, *arguments: Any) -> Any:
    """Calls a tf.function; TensorFlow, which counts traces by source, warns of retracing after a few runs."""
    return function.get_concrete_function(*arguments)(*arguments)


def _is_static(iterator: Iterator[Batch]) -> bool:
    """True if all batches have the same shape."""
    specs = tf.nest.flatten(iterator.element_spec, expand_composites=True)  # type: ignore[attr-defined]
    return all(spec.shape.is_fully_defined() for spec in specs)


def replica_update(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    objective: Objective,
    *,
    replicas_per_batch: int | None = None,
    accumulate: int = 1,
    xla: bool = False,
    arguments: Mapping[str, Any] | None = None,
) -> Callable[[Batch, tf.Tensor], Update]:
    """The part of one replica in an update: a function of a batch and of the update's seed, int [2].

    Losses are divided by the weights of the whole global batch, so that the number of replicas and that of
    microbatches change an update's sums by rounding alone. They do change what dropout draws: each replica
    and each microbatch has a seed of its own.

    Args:
      model: called with a batch, `training` and `seed`.
      optimizer: built under the same strategy as the model.
      objective: the losses.
      replicas_per_batch: replicas that divide a batch among themselves: those of a host, or 1 where every
        replica is given a batch of its own; None: all.
      accumulate: microbatches an update; their gradients are added up in float32.
      xla: True: XLA compiles forward and backward. The update stays outside: a compiled `apply_gradients`
        fails under MirroredStrategy.
      arguments: what the model is called with besides.
    """
    gradients_of = _gradient_function(model, objective, xla, arguments or {})
    is_scaled = isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer)  # float16's

    def update(batch: Batch, step_seed: tf.Tensor) -> Update:
        replica = tf.distribute.get_replica_context()
        replica_seed = tf.random.fold_in(step_seed, replica.replica_id_in_sync_group)
        rows = replica_rows(batch, replica, accumulate, replicas_per_batch)
        weights = replica.all_reduce("SUM", objective.weights(rows))
        scale = optimizer.get_scaled_loss(tf.ones([])) if is_scaled else tf.ones([])

        def microbatch(index: tf.Tensor) -> tuple[dict[str, Term], Gradients]:
            part = {name: tensor[index] for name, tensor in rows.items()}
            return gradients_of(part, weights, tf.random.fold_in(replica_seed, index), scale)

        terms, gradients = replica.all_reduce("SUM", sum_over(microbatch, accumulate))
        if is_scaled:
            unscaled = optimizer.get_unscaled_gradients(list(gradients.values()))
            gradients = dict(zip(gradients, unscaled, strict=True))
        pairs = [(gradient, model.trainable_variables[index]) for index, gradient in gradients.items()]
        optimizer.apply_gradients(pairs, skip_gradients_aggregation=True)
        return terms, global_norm(gradients.values())

    return update


def replica_rows(
    batch: Batch,
    replica: tf.distribute.ReplicaContext,
    accumulate: int = 1,
    replicas_per_batch: int | None = None,
) -> Batch:
    """The rows of a batch that one replica works on, a microbatch after another.

    Tensors [A, rows / (R · A), …] of tensors [rows, …], A microbatches and R replicas that divide the batch
    (None: all). Rows are static, and of the other dimensions all but one.
    """
    replicas = replicas_per_batch or replica.num_replicas_in_sync

    def rows(tensor: tf.Tensor) -> tf.Tensor:
        others = [-1 if size is None else size for size in tensor.shape[1:]]
        shape = [replicas, accumulate, tensor.shape[0] // (replicas * accumulate), *others]
        return tf.reshape(tensor, shape)[replica.replica_id_in_sync_group % replicas]

    return {name: rows(tensor) for name, tensor in batch.items()}


def sum_over(function: Callable[[tf.Tensor], Any], count: int) -> Any:
    """function(0) + … + function(count - 1), any nested structure of tensors, one at a time in memory."""
    if count == 1:
        return function(tf.constant(0))
    # The carry starts at zero: with function(0) in it, that one would be computed beside the loop, and two
    # results would be in memory at once.
    traced = tf.function(function, autograph=False).get_concrete_function(tf.TensorSpec([], tf.int32))
    zeros = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), traced.structured_outputs)
    _, total = tf.while_loop(
        lambda index, _: index < count,
        lambda index, total: (index + 1, tf.nest.map_structure(tf.add, total, function(index))),
        (tf.constant(0), zeros),
        parallel_iterations=1,
    )
    return total


def _gradient_function(
    model: keras.Model, objective: Objective, xla: bool, arguments: Mapping[str, Any]
) -> Callable[[Batch, Mapping[str, tf.Tensor], tf.Tensor, tf.Tensor], tuple[dict[str, Term], Gradients]]:
    """The terms of a microbatch and the gradients of its share of the scaled loss, as one graph."""
    variables = model.trainable_variables

    def gradients_of(
        batch: Batch, weights: Mapping[str, tf.Tensor], seed: tf.Tensor, scale: tf.Tensor
    ) -> tuple[dict[str, Term], Gradients]:
        with tf.GradientTape() as tape:
            terms = objective.terms(model(batch, training=True, seed=seed, **arguments), batch)
            losses = [
                tf.math.divide_no_nan(term.loss, weights[name]) * objective.factors.get(name, 1.0)
                for name, term in terms.items()
            ]
            loss = tf.add_n(losses) * scale
        gradients = tape.gradient(loss, variables)
        # A variable that no loss depends on has none (the pooler, where there is no sentence loss).
        return terms, {
            index: _of_shape(gradient, variable.shape)
            for index, (gradient, variable) in enumerate(zip(gradients, variables, strict=True))
            if gradient is not None
        }

    return tf.function(gradients_of, autograph=False, jit_compile=xla or None)


def _of_shape(gradient: tf.Tensor | tf.IndexedSlices, shape: tf.TensorShape) -> tf.Tensor:
    """A variable's gradient as a tensor of static shape."""
    # Where the length of sequences is not static, TensorFlow does not know that of the positions' gradient.
    # What is known is not ensured: that would add operations to XLA's program that no TPU runs by itself.
    gradient = tf.convert_to_tensor(gradient)
    return gradient if gradient.shape.is_fully_defined() else tf.ensure_shape(gradient, shape)
