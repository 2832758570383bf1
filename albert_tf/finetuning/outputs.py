"""A model's outputs of examples, each once and in their order, whatever batches they were in."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.features import ENCODER_INPUTS, ROWS
from albert_tf.models.losses import Objective, Term
from albert_tf.models.padding import skip_padding
from albert_tf.tasks.examples.batches import task_batches
from albert_tf.tasks.examples.rows import TokenRows
from albert_tf.tasks.kind import Examples, FinetunedKind
from albert_tf.training.updates import Batch, replica_rows

Tensors = Mapping[str, tf.Tensor]


# Called with the number of examples that a batch has had.
Progress = Callable[[int], Any]


class Predicted(NamedTuple):
    """Predictions of examples, and their losses."""

    predictions: list[Any]  # one a record
    terms: dict[str, Term]  # summed over the examples; empty where nobody asks for losses


def row_outputs(
    model: Callable[..., Tensors],
    seq_length: int,
    batch_size: int,
    keep: Callable[[Tensors, Tensors], Tensors],
    objective: Objective | None = None,
) -> Callable[..., tuple[dict[str, np.ndarray], dict[str, Term]]]:
    """A function to a model's outputs of each example, once and in their order.

    Args:
      model: called with the encoder's inputs and training=False.
      seq_length: longest sequence.
      batch_size: examples at a time, divided among the replicas of the strategy that is current now.
      keep: from the model's outputs and its batch to what is wanted, [B, …] with static shapes but for B; it
        becomes a graph.
      objective: losses to sum up on the way; the examples are labelled then.
    Returns:
      A function of N rows, and of what is called with their progress, to values [N, …] by the names that
      `keep` has and to summed terms. It traces the model no more often when it is called again.
    """
    strategy = tf.distribute.get_strategy()
    is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)

    def replica_outputs(batch: Batch) -> tuple[Tensors, dict[str, Term]]:
        replica = tf.distribute.get_replica_context()
        rows = batch
        if replica.num_replicas_in_sync > 1:
            rows = {name: tensor[0] for name, tensor in replica_rows(batch, replica).items()}
        inputs = {name: rows[name] for name in ENCODER_INPUTS}
        outputs = model(inputs if is_tpu else skip_padding(inputs), training=False)
        kept = keep(outputs, rows)
        terms = {} if objective is None else objective.terms(outputs, rows)
        if replica.num_replicas_in_sync == 1:
            return kept, terms
        gathered = {name: replica.all_gather(tensor, axis=0) for name, tensor in kept.items()}
        return gathered, replica.all_reduce("SUM", terms) if terms else {}

    @tf.function(reduce_retracing=True)  # which is traced twice, the second time for any length
    def forward(batch: Batch) -> tuple[Tensors, dict[str, Term]]:
        replicas = strategy.run(replica_outputs, (batch,))
        return tf.nest.map_structure(lambda part: strategy.experimental_local_results(part)[0], replicas)

    def outputs(rows: TokenRows, progress: Progress) -> tuple[dict[str, np.ndarray], dict[str, Term]]:
        found: dict[str, np.ndarray] = {}
        sums: dict[str, Term] = {}
        # Replicas want the same share of every batch.
        size = batch_size if strategy.num_replicas_in_sync > 1 else min(batch_size, len(rows))
        for batch in task_batches(rows, seq_length, size, shuffle=False, repeat=False):
            numbers = batch[ROWS].numpy()
            kept, terms = forward(batch)
            terms = tf.nest.map_structure(float, terms)
            sums = tf.nest.map_structure(operator.add, sums, terms) if sums else terms
            for name, tensor in kept.items():
                values = tensor.numpy()
                if name not in found:
                    found[name] = np.empty([len(rows), *values.shape[1:]], values.dtype)
                found[name][numbers[numbers >= 0]] = values[numbers >= 0]
            progress(int((numbers >= 0).sum()))
        return found, sums

    return outputs


def predictor(
    kind: FinetunedKind, model: Any, batch_size: int, has_loss: bool = False
) -> Callable[..., Predicted]:
    """A function from examples, and what is called with their progress, to a prediction of each record.

    Args:
      kind: of the model.
      model: called with the encoder's inputs and training=False.
      batch_size: as `row_outputs` has it.
      has_loss: True to sum up losses on the way; the examples are labelled then.
    """
    objective = kind.objective() if has_loss else None
    outputs = row_outputs(model, kind.seq_length, batch_size, kind.keep, objective)

    def predict(examples: Examples, progress: Progress = lambda count: None) -> Predicted:
        found, terms = outputs(examples.rows, progress)
        return Predicted(kind.decode(examples, found), terms)

    return predict
