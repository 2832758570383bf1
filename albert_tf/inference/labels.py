"""Labels in the forms in which people have them, as losses take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.tokenizers.given import listed
from albert_tf.utils.errors import InputError, shown

_CATEGORICAL = "compile with loss=tf_keras.losses.CategoricalCrossentropy(from_logits=True)"


def takes_one_hot(loss: Any) -> bool:
    """True if a loss, as Keras' `compile` takes it, compares one-hot labels."""
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
    return name.replace("_", "").lower().startswith("categorical")


def check_metrics(metrics: Any, one_hot: bool, num_labels: int) -> None:
    """InputError where a metric of Keras cannot compare logits with the labels that the loss takes."""
    for metric in tf.nest.flatten(metrics):
        name = metric if isinstance(metric, str) else type(metric).__name__
        if name == "AUC" and not getattr(metric, "_from_logits", False):
            raise InputError(
                "metrics: AUC() is of probabilities and the model gives logits: from_logits=True"
            )
        if num_labels > 1 and not one_hot and name in ("AUC", "Precision", "Recall"):
            raise InputError(f"metrics: {name} needs one-hot labels: {_CATEGORICAL}")


def check_one_hot(labels: Any, loss: Any, num_labels: int, argument: str) -> None:
    """InputError for one-hot labels [B, K] where the loss compares numbers."""
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
    is_sparse = name.replace("_", "").lower().startswith("sparsecategorical")
    if is_sparse and labels.shape[1:] == (num_labels,) and num_labels > 1:
        raise InputError(f"{argument} has the shape {tuple(labels.shape)}, which is one-hot: {_CATEGORICAL}")


def targets(
    labels: Any, names: Sequence[str] | None, num_labels: int, count: int, argument: str
) -> np.ndarray:
    """The targets of texts.

    Args:
      labels: of each text a number from 0, a name, or a number for each label; of regression a number.
      names: of the labels, in the order of the logits; None if they have none.
      num_labels: K; 1 is regression.
      count: number of texts, N.
      argument: what the caller calls the labels, for errors.
    Returns:
      int32 [N]; float32 [N] of regression, [N, K] where that was given.
    Raises:
      InputError: a label is missing or does not fit.
    """
    values = listed(labels)
    if len(values) != count:
        raise InputError(f"{argument} holds {len(values)} labels for {count} texts")
    if all(isinstance(value, list) and len(value) == 1 for value in values):
        values = [value for (value,) in values]
    if num_labels > 1 and all(isinstance(value, list) and len(value) == num_labels for value in values):
        return np.array(values, np.float32)
    if num_labels == 1:
        is_known = [isinstance(value, int | float) and bool(np.isfinite(value)) for value in values]
        expected, known = "a finite number", {}
    else:
        known = dict(zip(names or (), range(num_labels), strict=False)) | {n: n for n in range(num_labels)}
        is_known = [not isinstance(value, list) and value in known for value in values]
        expected = f"one of {', '.join(map(repr, known))}"
        for value in values:  # a file's labels, read as numbers by some and as texts by others
            if isinstance(value, int) and known.get(str(value), value) != value:
                raise InputError(
                    f"{argument} holds {value}, the number of one label and the name of another: "
                    "give the names, as texts"
                )
    if not all(is_known):
        wrong = is_known.index(False)
        raise InputError(f"{argument}[{wrong}]={shown(values[wrong])} is not {expected}")
    if num_labels == 1:
        return np.array(values, np.float32)
    return np.array([known[value] for value in values], np.int32)


def target_tensor(
    labels: tf.Tensor, names: Sequence[str] | None, num_labels: int, one_hot: bool, argument: str
) -> tf.Tensor:
    """What a loss takes of the labels in a batch of a tf.data.Dataset.

    Args:
      labels: string or integer [B], or [B, K].
      names: as of `targets`, as the next one and the last.
      num_labels: K.
      one_hot: True if the loss takes one-hot labels.
      argument: what the caller calls the dataset.
    Returns:
      Integer [B], or float32 [B, K].
    Raises:
      InputError: labels by name, of a model without names.
      tf.errors.InvalidArgumentError: where it runs, for a name that is none of these.
    """
    if labels.dtype != tf.string:
        return tf.one_hot(labels, num_labels) if one_hot and labels.shape.rank == 1 else labels
    if names is None:
        raise InputError(f"{argument} has labels by name, and the model has no names: give it labels")
    matches = tf.reshape(labels, [-1, 1]) == tf.constant(list(names))  # [B, K]
    is_known = tf.reduce_all(tf.reduce_any(matches, axis=1))
    message = f"{argument} has labels that are none of {', '.join(names)}:"
    with tf.control_dependencies([tf.debugging.Assert(is_known, [message, labels])]):
        return tf.cast(matches, tf.float32) if one_hot else tf.argmax(matches, axis=1)
