"""Predictions of examples, each once and in their order, whatever batches they were in."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.features import ENCODER_INPUTS, ROWS
from albert_tf.models.exits import call_with_patience, check_patience
from albert_tf.models.losses import Term
from albert_tf.models.padding import skip_padding
from albert_tf.tasks.examples.batches import few_lengths, task_batches
from albert_tf.tasks.kind import Examples, FinetunedKind, Tensors
from albert_tf.training.compilation import compilation_log
from albert_tf.training.metrics import term_metrics
from albert_tf.training.strategies import compiles, device_kind
from albert_tf.training.train_step import Batch, call_traced, replica_rows

# Called with the number of examples that a batch has had.
Progress = Callable[[int], Any]

LAYERS = "layers"  # output of a model whose examples leave early


class Predicted(NamedTuple):
    """Predictions of examples, and their losses."""

    predictions: list[Any]  # one a record
    terms: dict[str, Term]  # summed over the examples; empty where nobody asks for losses
    layers: np.ndarray | None = None  # number of layers that each example took, where it may leave early


def lengths_to_compile(seq_length: int, xla: bool | None) -> tuple[int, ...] | None:
    """Lengths to pad batches to where XLA compiles, one on a TPU, whose shapes are static; else None."""
    if device_kind(tf.distribute.get_strategy()) == "TPU":
        return (seq_length,)
    return few_lengths(seq_length) if compiles(xla) else None


def predictor(
    kind: FinetunedKind,
    model: Any,
    batch_size: int,
    has_loss: bool = False,
    xla: bool | None = None,
    patience: int | None = None,
) -> Callable[..., Predicted]:
    """A function from examples, and what is called with their progress, to a prediction of each record.

    It traces the model no more often when it is called again. Examples of which `batch_size` at a time are
    divided among the replicas of the current strategy are labelled where losses are to be summed up on the
    way (`has_loss`); `xla` is that of `Execution`, and `patience` that of `predict`.
    """
    objective = kind.objective() if has_loss else None
    strategy = tf.distribute.get_strategy()
    if patience is not None:
        check_patience(patience, getattr(model, "early_exit", False), xla)
    is_compiled = compiles(xla) and patience is None
    lengths = lengths_to_compile(kind.seq_length, xla) if patience is None else None
    before_batch = compilation_log("prediction") if is_compiled else None

    @tf.function(autograph=False, jit_compile=is_compiled or None)
    def compute(rows: Batch) -> tuple[Tensors, dict[str, Term]]:
        inputs = {name: rows[name] for name in ENCODER_INPUTS}
        if patience is None:
            outputs = model(skip_padding(inputs) if lengths is None else inputs, training=False)
        else:
            outputs = call_with_patience(model, inputs, patience)
        kept = {name: outputs[name] for name in outputs.keys() & {LAYERS}}
        return {**kept, **kind.keep(outputs, rows)}, {} if objective is None else objective.terms(
            outputs, rows
        )

    def replica_outputs(batch: Batch) -> tuple[Tensors, dict[str, Term]]:
        replica = tf.distribute.get_replica_context()
        if replica.num_replicas_in_sync == 1:
            return compute(batch)
        kept, terms = compute({name: tensor[0] for name, tensor in replica_rows(batch, replica).items()})
        gathered = {name: replica.all_gather(tensor, axis=0) for name, tensor in kept.items()}
        return gathered, replica.all_reduce("SUM", terms) if terms else {}

    @tf.function(reduce_retracing=True)  # which is traced twice, the second time for any length
    def forward(batch: Batch) -> tuple[Tensors, dict[str, Term]]:
        replicas = strategy.run(replica_outputs, (batch,))
        return tf.nest.map_structure(lambda part: strategy.experimental_local_results(part)[0], replicas)

    def predict(examples: Examples, progress: Progress = lambda count: None) -> Predicted:
        rows = examples.rows
        found: dict[str, np.ndarray] = {}
        sums: dict[str, Term] = {}
        # Replicas want the same share of every batch.
        size = batch_size if strategy.num_replicas_in_sync > 1 else min(batch_size, len(rows))
        for batch in task_batches(rows, kind.seq_length, size, lengths, shuffle=False, repeat=False):
            numbers = batch[ROWS].numpy()
            is_example = numbers >= 0
            if before_batch is not None:
                before_batch(batch)
            kept, terms = call_traced(forward, batch)
            terms = tf.nest.map_structure(float, terms)
            sums = tf.nest.map_structure(operator.add, sums, terms) if sums else terms
            for name, tensor in kept.items():
                values = tensor.numpy()
                if name not in found:
                    found[name] = np.empty([len(rows), *values.shape[1:]], values.dtype)
                found[name][numbers[is_example]] = values[is_example]
            progress(int(is_example.sum()))
        return Predicted(kind.decode(examples, found), sums, found.get(LAYERS))

    return predict


def mean_loss(found: Iterable[Predicted]) -> dict[str, float]:
    """The `loss` of all predictions together; empty where they do not tell it."""
    sums = summed_terms(found)
    return {"loss": term_metrics(sums)["loss"]} if sums else {}


def summed_terms(found: Iterable[Predicted]) -> dict[str, Term]:
    """The losses of all predictions together; empty where they do not tell them."""
    terms = [predicted.terms for predicted in found if predicted.terms]
    return functools.reduce(functools.partial(tf.nest.map_structure, operator.add), terms) if terms else {}
