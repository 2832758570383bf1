"""The losses of a model over a data set, and named metrics of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.errors import InputError
from albert_tf.models.loss_sums import LossFn, LossSum
from albert_tf.training.distribution import compiles
from albert_tf.training.train_step import Batch, compilation_log, replica_rows


def evaluator(
    model: keras.Model, objective: LossFn, xla: bool | None = None
) -> Callable[[Iterable[Batch]], dict[str, LossSum]]:
    """A function that sums an objective's terms over a finite data set; it traces the model once.

    The rows of a batch, of static shape, are divided among the replicas of the strategy that is current now.
    `xla` is that of `Execution`. It raises a ValueError if there is no batch.
    """
    strategy = tf.distribute.get_strategy()
    is_compiled = compiles(xla)
    before_batch = compilation_log("evaluation") if is_compiled else None

    @tf.function(autograph=False, jit_compile=is_compiled or None)
    def rows_terms(rows: Batch) -> dict[str, LossSum]:
        return objective.terms(model(rows, training=False), rows)

    def replica_terms(batch: Batch) -> dict[str, LossSum]:
        replica = tf.distribute.get_replica_context()
        rows = {name: tensor[0] for name, tensor in replica_rows(batch, replica).items()}
        return replica.all_reduce("SUM", rows_terms(rows))

    @tf.function
    def batch_terms(batch: Batch) -> dict[str, LossSum]:
        replicas = strategy.run(replica_terms, (batch,))
        return tf.nest.map_structure(lambda part: strategy.experimental_local_results(part)[0], replicas)

    def evaluate(dataset: Iterable[Batch]) -> dict[str, LossSum]:
        totals = None
        for batch in dataset:
            if before_batch is not None:
                before_batch(batch)
            terms = tf.nest.map_structure(float, batch_terms(batch))
            totals = terms if totals is None else tf.nest.map_structure(lambda a, b: a + b, totals, terms)
        if totals is None:
            raise InputError("there is nothing to evaluate on: give more documents")
        return totals

    return evaluate


def loss_metrics(
    terms: Mapping[str, LossSum], factors: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Mean losses and accuracies of summed terms.

    Args:
      terms: of an objective by name.
      factors: of that objective; None: all are 1.
    Returns:
      `loss`, the sum of the means times their factors, and `<term>_loss` (nats) and `<term>_accuracy` for
      each term, but for regression only the loss. A term without any weight is NaN.
    """
    means = {name: LossSum(*(float(part) for part in term)) for name, term in terms.items()}
    figures = {}
    for name, term in means.items():
        weight = term.weight or np.nan
        figures[f"{name}_loss"] = term.loss / weight
        if not np.isnan(term.correct):
            figures[f"{name}_accuracy"] = term.correct / weight
    factors = factors or {}
    return {"loss": sum(figures[f"{name}_loss"] * factors.get(name, 1) for name in means), **figures}
