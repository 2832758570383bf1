"""The forms in which people have labels, and the losses and metrics that take them."""

from __future__ import annotations

import codecs
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.startup.exits import one_line
from albert_tf.tokenizers.given import checked_texts, decoded, listed
from albert_tf.utils.errors import InputError, shown


def takes_one_hot(loss: Any) -> bool | None:
    """True if a loss compares one-hot labels, False if numbers, None if only its author knows.

    Args:
      loss: as Keras' `compile` takes it: an object, a function or a name.
    """
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
    name = name.replace("_", "").lower()
    if name.startswith("sparsecategorical"):
        return False
    return True if name.startswith("categorical") else None


_OF_ONE_HOT = (
    keras.metrics.AUC,
    keras.metrics.Precision,
    keras.metrics.Recall,
    keras.metrics.TruePositives,
    keras.metrics.TrueNegatives,
    keras.metrics.FalsePositives,
    keras.metrics.FalseNegatives,
    keras.metrics.PrecisionAtRecall,
    keras.metrics.RecallAtPrecision,
    keras.metrics.SensitivityAtSpecificity,
    keras.metrics.SpecificityAtSensitivity,
    keras.metrics.FBetaScore,
)


def check_metrics(metrics: Any, loss: Any, num_labels: int) -> None:
    """InputError where a metric cannot compare logits with the labels that the loss takes."""
    for metric in tf.nest.flatten(metrics):
        kind = getattr(keras.metrics, metric, None) if isinstance(metric, str) else type(metric)
        name = getattr(kind, "__name__", "")
        if not isinstance(kind, type) or not issubclass(kind, _OF_ONE_HOT):
            continue
        if kind is keras.metrics.AUC and not getattr(metric, "_from_logits", False):
            raise InputError(
                "metrics: AUC() is of probabilities, the model gives logits: AUC(from_logits=True)"
            )
        if num_labels > 1 and takes_one_hot(loss) is False:
            raise InputError(
                f"metrics: {name} needs one-hot labels: compile with "
                "loss=tf_keras.losses.CategoricalCrossentropy(from_logits=True), which has labels of any "
                "form made one-hot"
            )


def _check_one_hot(shape: Any, one_hot: bool | None, argument: str) -> None:
    if one_hot is False:
        raise InputError(
            f"{argument} has the shape {shape}, which is one-hot: compile with "
            "loss=tf_keras.losses.CategoricalCrossentropy(from_logits=True), or give the labels' numbers"
        )


def label_converter(
    names: Sequence[str] | None, num_labels: int, one_hot: bool | None, argument: str
) -> Callable[[tf.Tensor], tf.Tensor]:
    """The function that makes what a loss takes of the labels in a batch of a tf.data.Dataset.

    Args:
      names: of the labels, in the order of the logits; None where they have none.
      num_labels: K; 1 is regression.
      one_hot: as `takes_one_hot` has it.
      argument: what the caller calls the dataset, for errors.
    Returns:
      From string [B], integer [B] or what is one-hot already. It raises an InputError for labels that do not
      fit, and where it runs, for a name that is none of these, an InvalidArgumentError: see `told_labels`.
    """
    table = None
    if names is not None:
        numbers = tf.lookup.KeyValueTensorInitializer(tf.constant(names), tf.range(num_labels))
        table = tf.lookup.StaticHashTable(numbers, default_value=-1)

    def convert(labels: tf.Tensor) -> tf.Tensor:
        if labels.dtype == tf.string:
            if table is None:
                raise InputError(f"{argument} has labels by name, and the model has no names: give it labels")
            found = table.lookup(labels)
            unknown = tf.boolean_mask(labels, found < 0)[:1]
            parts = [[f"{argument}: label '"], unknown, [f"' is none of {_spelled(names or ())}"]]
            said = tf.strings.reduce_join(tf.concat(parts, axis=0))
            with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(found >= 0), [said])]):
                labels = tf.identity(found)
        elif num_labels > 1 and labels.shape.rank == 2 and labels.shape[1] == num_labels:
            _check_one_hot(labels.shape, one_hot, argument)
            return labels
        if one_hot and num_labels > 1:
            return tf.one_hot(tf.reshape(labels, [-1]), num_labels)
        return labels

    return convert


@contextlib.contextmanager
def told_labels(argument: str) -> Iterator[None]:
    """Raises an InputError where a `label_converter` of a dataset meets a name that it does not know."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        said = one_line(error)
        if not said.startswith(f"{argument}: label "):
            raise
        # An Assert writes its bytes in C's escapes.
        raise InputError(codecs.escape_decode(said)[0].decode("utf-8", "replace")) from error


def _spelled(names: Iterable[Any]) -> str:
    return ", ".join(map(repr, names))


def targets(
    labels: Any,
    names: Sequence[str] | None,
    num_labels: int,
    count: int,
    argument: str,
    one_hot: bool | None = None,
) -> np.ndarray:
    """The targets of a classifier for each text.

    Args:
      labels: numbers from 0, names, or for each text a number for each label; of regression numbers.
      names: of the labels, in the order of the logits; None where they have none.
      num_labels: K; 1 is regression.
      count: number of texts, B.
      argument: what the caller calls the labels, for errors.
      one_hot: as `takes_one_hot` has it of the loss.
    Returns:
      int32 [B]; float32 [B] of regression, [B, K] where that was given or is wanted.
    Raises:
      InputError: a label is missing or does not fit.
    """
    if labels is None or isinstance(labels, str | bytes | Mapping):
        raise InputError(f"{argument}={shown(labels)}: the labels of {count} texts are needed, in a list")
    values = np.asarray(labels.to_numpy() if hasattr(labels, "to_numpy") else labels)
    if values.shape[:1] != (count,):
        raise InputError(f"{argument} holds {values.size} labels for {count} texts")
    if values.shape == (count, 1):
        values = values[:, 0]
    if values.shape != (count,) and (num_labels == 1 or values.shape != (count, num_labels)):
        one_hot_shape = f", or one-hot [{count}, {num_labels}]" if num_labels > 1 else ""
        raise InputError(f"{argument} has the shape {values.shape}: it must be [{count}]{one_hot_shape}")
    given = [decoded(value) for value in values.tolist()]
    if num_labels > 1 and values.ndim == 1:
        numbers: dict[Any, int] = {name: number for number, name in enumerate(names or ())}
        by_name = any(isinstance(value, str) for value in given)
        known = numbers if by_name else {number: number for number in range(num_labels)}
        wrong = next((n for n, value in enumerate(given) if value not in known), None)
        if wrong is not None:
            spelled = _spelled(known) or "the names, as the model has none: give it labels"
            raise InputError(f"{argument}[{wrong}]={shown(given[wrong])} is none of {spelled}")
        found = np.array([known[value] for value in given], np.int32)
        return np.eye(num_labels, dtype=np.float32)[found] if one_hot else found
    if num_labels > 1:
        _check_one_hot(values.shape, one_hot, argument)
    wrong = next((n for n, value in enumerate(given) if not _is_finite(value)), None)
    if wrong is not None:
        raise InputError(f"{argument}[{wrong}]={shown(given[wrong])} is not a finite number")
    return values.astype(np.float32)


def _is_finite(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(isinstance(part, int | float) and abs(part) < float("inf") for part in values)


def label_names(labels: Any) -> list[str]:
    """The names in a list or an array of labels; an InputError where it is something else."""
    if isinstance(labels, str | bytes | Mapping) or not isinstance(labels, Iterable):
        raise InputError(f"labels={shown(labels)} is not a list of names")
    return checked_texts(listed(labels), "labels")


def checked_labels(labels: Any, count: int) -> tuple[str, ...]:
    """The names of a network's labels; an InputError where they are not as many different ones."""
    names = tuple(label_names(labels))
    if count == 1:
        raise InputError(f"labels={list(names)}: a network of num_labels=1 gives a number and has none")
    if len(names) != count or len(set(names)) != count:
        raise InputError(f"labels={list(names)} must be {count} different names")
    return names
