"""The training step: forward, backward, sum over the replicas, optimizer; and several steps in a row."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras as keras
from absl import logging
from tqdm import tqdm

from albert_tf.constants import INPUT_MASK, Tensors
from albert_tf.models.loss_sums import LossFn, LossSum
from albert_tf.optimization import global_norm
from albert_tf.training.distribution import run_on_replicas

Batch = Mapping[str, tf.Tensor]
Gradients = dict[int, tf.Tensor]  # by the position of the variable in model.trainable_variables


class Totals(NamedTuple):
    """Sums over several steps. A step fails if its loss or its gradient is not finite."""

    terms: dict[str, LossSum]  # summed over the steps that did not fail
    gradient_norm: tf.Tensor  # of the last step, before clipping
    failed: tf.Tensor  # number of failed steps in a row at the end
    input_wait: tf.Tensor  # seconds of waiting for batches, estimated from the first batch of the call


class InputWait:
    """True while training waits for the next batch, outside or inside a graph. Any thread may read it.

    It stays true if the iterator fails. No step is computed while it is true, so all weights belong to the
    same step.
    """

    def __init__(self) -> None:
        self._outside, self._inside = False, tf.Variable(False, trainable=False, name="input_wait")

    def __bool__(self) -> bool:
        return self._outside or bool(tf.convert_to_tensor(self._inside))

    def next_batch(self, iterator: Iterator[Batch]) -> Batch:
        """The next batch, outside a graph."""
        self._outside = True
        batch = next(iterator)
        self._outside = False
        return batch

    def call_with_next(
        self, function: Callable[[Batch, Totals], Totals], iterator: Iterator[Batch], totals: Totals
    ) -> Totals:
        """Calls the function on the next batch, inside a graph, once the totals are computed."""
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


class TrainStep:
    """Trains a model for a number of steps: `train_step(iterator, count)`.

    In one step each replica computes the losses and gradients of its rows, one microbatch after the other.
    The gradients are summed over the replicas, and the optimizer applies them.

    Losses are divided by the weights of the whole global batch. The number of replicas and the number of
    microbatches therefore change a step by rounding alone. They do change dropout: each replica and each
    microbatch draws from its own seed.

    Create it under the strategy under which the model and the optimizer were created.

    Args:
      model: called with a batch, `training`, `seed` and `arguments`.
      optimizer: built for the model's variables.
      loss_fn: the losses.
      batch_spec: `element_spec` of the dataset.
      step: int64 scalar variable, the steps done so far. Each step adds 1.
      seed: of all dropout of the run.
      replicas_per_batch: number of replicas that share one batch. 1: each replica gets its own. None: all
        replicas.
      accumulate: number of microbatches. Their gradients are added up in float32.
      xla: True if XLA compiles forward and backward. The optimizer stays outside: a compiled
        `apply_gradients` fails under MirroredStrategy.
      arguments: further arguments of the model's call.
      on_batch: called with each batch that may have a new shape, before it is computed.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        loss_fn: LossFn,
        batch_spec: Mapping[str, tf.TensorSpec],
        *,
        step: tf.Variable,
        seed: int,
        replicas_per_batch: int | None = None,
        accumulate: int = 1,
        xla: bool = False,
        arguments: Mapping[str, Any] | None = None,
        on_batch: Callable[[Batch], None] | None = None,
    ):
        self.model, self.optimizer, self.loss_fn = model, optimizer, loss_fn
        self.step, self.seed, self.arguments = step, seed, dict(arguments or {})
        self.replicas_per_batch, self.accumulate, self.on_batch = replicas_per_batch, accumulate, on_batch
        self.strategy, self.input_wait = tf.distribute.get_strategy(), InputWait()
        zero = tf.zeros([])
        terms = {name: LossSum(zero, zero, zero) for name in loss_fn.names}
        self._no_steps = Totals(terms, zero, tf.constant(0), zero)
        totals_spec = tf.nest.map_structure(tf.TensorSpec.from_tensor, self._no_steps)
        self._gradients = tf.function(self.gradients, autograph=False, jit_compile=xla or None)
        # The signature has it traced once, for batches of all lengths.
        self._one_step = tf.function(
            self.one_step, autograph=False, input_signature=[batch_spec, totals_spec]
        )
        self._many_steps = tf.function(self.many_steps, autograph=False)
        specs = tf.nest.flatten(batch_spec, expand_composites=True)
        self._has_static_shapes = all(spec.shape.is_fully_defined() for spec in specs)
        self._has_started = False

    def __call__(self, iterator: Iterator[Batch], count: int) -> Totals:
        """Computes `count` steps on the next batches, and returns their sums."""
        started = time.perf_counter()
        batch = self._next_batch(iterator)
        waited = time.perf_counter() - started  # the device has finished all earlier steps
        # Concrete functions: TensorFlow counts traces by source, and would warn of retracing after several
        # runs in one process.
        one_step, remaining = self._one_step.get_concrete_function(), int(count) - 1
        totals = one_step(batch, self._no_steps)
        if self.on_batch is not None and not self._has_static_shapes:
            for _ in range(remaining):  # any of them may have a new shape
                totals = one_step(self._next_batch(iterator), totals)
        elif remaining:
            arguments = iterator, tf.constant(remaining), totals
            totals = self._many_steps.get_concrete_function(*arguments)(*arguments)
        # An estimate: each batch takes as long as the first one of the call. Only the very first batch of all
        # also waits for the pipeline to start.
        wait = waited * int(count) if self._has_started else waited
        self._has_started = True
        return totals._replace(input_wait=tf.constant(wait))

    def _next_batch(self, iterator: Iterator[Batch]) -> Batch:
        batch = self.input_wait.next_batch(iterator)
        if self.on_batch is not None:
            self.on_batch(batch)
        return batch

    def many_steps(self, iterator: Iterator[Batch], count: tf.Tensor, totals: Totals) -> Totals:
        """Adds the next `count` steps to the totals, as a loop in the graph."""

        def add(index: tf.Tensor, totals: Totals) -> tuple[tf.Tensor, Totals]:
            return index + 1, self.input_wait.call_with_next(self._one_step, iterator, totals)

        _, totals = tf.while_loop(lambda index, _: index < count, add, (tf.constant(0), totals))
        return totals

    def one_step(self, batch: Batch, totals: Totals) -> Totals:
        """Adds a step to the totals."""
        # The counters do not depend on the batch: without this they could change before it arrives.
        with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
            arrived = tf.no_op()
        with tf.control_dependencies([arrived]):
            seed = tf.random.fold_in(tf.constant([self.seed, 0]), self.step)
            terms, gradient_norm = run_on_replicas(self.strategy, self.replica_step, batch, seed)
            self.step.assign_add(1)
        losses = [term.loss for term in terms.values()]
        good = tf.reduce_all(tf.math.is_finite(tf.stack([*losses, gradient_norm])))
        return Totals(
            tf.nest.map_structure(lambda total, x: total + tf.where(good, x, 0), totals.terms, terms),
            gradient_norm,
            tf.where(good, 0, totals.failed + 1),
            totals.input_wait,
        )

    def replica_step(self, batch: Batch, seed: tf.Tensor) -> tuple[dict[str, LossSum], tf.Tensor]:
        """One replica's part of a step.

        Args:
          batch: tensors [rows, …]. This replica takes its share of the rows.
          seed: seed of the step, int32 [2].
        Returns:
          The terms of the global batch, and the norm of its gradient before clipping.
        """
        replica, optimizer = tf.distribute.get_replica_context(), self.optimizer
        seed = tf.random.fold_in(seed, replica.replica_id_in_sync_group)
        rows = replica_rows(batch, replica, self.accumulate, self.replicas_per_batch)
        weight_sums = replica.all_reduce("SUM", self.loss_fn.weight_sums(rows))
        is_scaled = isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer)  # for float16
        scale = optimizer.get_scaled_loss(tf.ones([])) if is_scaled else tf.ones([])

        def arguments(index: int | tf.Tensor) -> tuple[Batch, Mapping[str, tf.Tensor], tf.Tensor, tf.Tensor]:
            micro_rows = {name: tensor[index] for name, tensor in rows.items()}
            return micro_rows, weight_sums, tf.random.fold_in(seed, index), scale

        if self.accumulate == 1:
            sums = self._gradients(*arguments(0))
        else:
            sums = sum_over(lambda index: self._gradients(*arguments(index)), self.accumulate)
        terms, gradients = replica.all_reduce("SUM", sums)
        if is_scaled:
            unscaled = optimizer.get_unscaled_gradients(list(gradients.values()))
            gradients = dict(zip(gradients, unscaled, strict=True))
        variables = self.model.trainable_variables
        pairs = [(gradient, variables[index]) for index, gradient in gradients.items()]
        optimizer.apply_gradients(pairs, skip_gradients_aggregation=True)
        return terms, global_norm(gradients.values())

    def gradients(
        self, batch: Batch, weight_sums: Mapping[str, tf.Tensor], seed: tf.Tensor, scale: tf.Tensor
    ) -> tuple[dict[str, LossSum], Gradients]:
        """The terms of a microbatch, and the gradients of its share of the scaled loss.

        Args:
          batch: the microbatch.
          weight_sums: sum of each term's weights over the global batch.
          seed: seed of dropout, int32 [2].
          scale: factor of the loss, for float16.
        Returns:
          The terms, and the gradient of each variable that has one.
        """
        variables, loss_fn = self.model.trainable_variables, self.loss_fn
        with tf.GradientTape() as tape:
            outputs = self.model(batch, training=True, seed=seed, **self.arguments)
            terms = loss_fn.terms(outputs, batch)
            losses = [
                tf.math.divide_no_nan(term.loss, weight_sums[name]) * loss_fn.loss_weights.get(name, 1.0)
                for name, term in terms.items()
            ]
            loss = tf.add_n(losses) * scale
        gradients = tape.gradient(loss, variables)
        # Variables that no loss depends on have no gradient (the pooler, if there is no sentence loss).
        return terms, {
            index: _with_shape(gradient, variable.shape)
            for index, (gradient, variable) in enumerate(zip(gradients, variables, strict=True))
            if gradient is not None
        }


def replica_rows(
    batch: Batch,
    replica: tf.distribute.ReplicaContext,
    accumulate: int = 1,
    replicas_per_batch: int | None = None,
) -> Batch:
    """Selects the rows of a batch that one replica computes, divided into microbatches.

    Args:
      batch: tensors [rows, …]. The number of rows is static, and at most one other dimension is not.
      replica: context of the replica.
      accumulate: number of microbatches, A.
      replicas_per_batch: number of replicas that share the batch, R. None: all.
    Returns:
      Tensors [A, rows / (R · A), …].
    """
    replicas = replicas_per_batch or replica.num_replicas_in_sync

    def rows(tensor: tf.Tensor) -> tf.Tensor:
        others = [-1 if size is None else size for size in tensor.shape[1:]]
        shape = [replicas, accumulate, tensor.shape[0] // (replicas * accumulate), *others]
        return tf.reshape(tensor, shape)[replica.replica_id_in_sync_group % replicas]

    return {name: rows(tensor) for name, tensor in batch.items()}


def sum_over(function: Callable[[tf.Tensor], Any], count: int) -> Any:
    """function(0) + … + function(count - 1), nested structures of tensors, with one result in memory."""
    # The sum starts at zero. If it started at function(0), which is computed outside of the loop, two results
    # would be in memory at once.
    traced = tf.function(function, autograph=False).get_concrete_function(tf.TensorSpec([], tf.int32))
    zeros = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), traced.structured_outputs)
    _, total = tf.while_loop(
        lambda index, _: index < count,
        lambda index, total: (index + 1, tf.nest.map_structure(tf.add, total, function(index))),
        (tf.constant(0), zeros),
        parallel_iterations=1,
    )
    return total


def _with_shape(gradient: tf.Tensor | tf.IndexedSlices, shape: tf.TensorShape) -> tf.Tensor:
    """A variable's gradient as a tensor of static shape."""
    # If the sequence length is not static, TensorFlow does not know the shape of the positions' gradient. A
    # known shape is not ensured: that would add operations to XLA's program that a TPU cannot run by itself.
    gradient = tf.convert_to_tensor(gradient)
    return gradient if gradient.shape.is_fully_defined() else tf.ensure_shape(gradient, shape)


def divide_among_replicas(
    compute: Callable[[Batch], tuple[Tensors, dict[str, LossSum]]], is_compiled: bool
) -> Any:
    """Creates a `tf.function` of a batch, whose rows the replicas of the current strategy divide.

    Args:
      compute: function from the rows of a replica to outputs [rows, …] and to summed losses.
      is_compiled: True to compile `compute` with XLA.
    Returns:
      A function with the results of `compute` for all rows. With several replicas, the number of rows is
      static and a multiple of theirs.
    """
    strategy = tf.distribute.get_strategy()
    compute_rows = tf.function(compute, autograph=False, jit_compile=is_compiled or None)

    def replica_results(batch: Batch) -> tuple[Tensors, dict[str, LossSum]]:
        replica = tf.distribute.get_replica_context()
        if replica.num_replicas_in_sync == 1:
            return compute_rows(batch)
        outputs, terms = compute_rows(
            {name: tensor[0] for name, tensor in replica_rows(batch, replica).items()}
        )
        gathered = {name: replica.all_gather(tensor, axis=0) for name, tensor in outputs.items()}
        return gathered, replica.all_reduce("SUM", terms) if terms else {}

    return tf.function(lambda batch: run_on_replicas(strategy, replica_results, batch), autograph=False)


def compilation_log(program: str) -> Callable[[Batch], None]:
    """Creates a function that logs a line for each new shape of batches.

    Call it outside of the graph, right before a batch is computed.

    Args:
      program: name of the compiled program in the line, such as "evaluation".
    """
    strategy = tf.distribute.get_strategy()
    shapes: set[tuple[int, ...]] = set()

    def log(batch: Batch) -> None:
        shape = tuple(strategy.experimental_local_results(batch[INPUT_MASK])[0].shape)
        if shape not in shapes:
            shapes.add(shape)
            size = " × ".join(map(str, shape))
            with tqdm.external_write_mode():  # above a progress bar
                logging.info(
                    "compiling the %s for %s tokens, once; on a GPU that takes about a minute", program, size
                )

    return log
