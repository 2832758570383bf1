"""The forms in which people have texts and their labels, as lists and arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError, shown
from albert_tf.features import MASK, WORD_IDS
from albert_tf.text.given import checked_texts, decoded, listed


def text_columns(texts: Any, argument: str) -> list[list[str]]:
    """Texts, or pairs of them, as one or two columns.

    Args:
      texts: a list, array, tensor or pandas Series of texts; of pairs a tuple of two of these, an array
        [B, 2], or a list of tuples.
      argument: what the caller calls it, for errors.
    Raises:
      InputError: there are none, one is not a text, or the columns are not of one length.
    """
    if texts is None or isinstance(texts, Mapping | int | float):
        raise InputError(f"{argument}={shown(texts)} is not a list of texts")
    if isinstance(texts, str | bytes):
        raise InputError(f"{argument}={shown(texts)} is one text: a list of texts is needed")
    values = listed(texts)
    if isinstance(texts, tuple) and len(values) == 2:
        columns = [listed(column) for column in values]
    elif isinstance(texts, list) and len(values) == 2 and not isinstance(values[0], str | tuple):
        columns = [listed(column) for column in values]  # as Keras takes two inputs
    elif values and isinstance(values[0], tuple | list):
        columns = _columns_of_rows(values, argument)
    else:
        columns = [values]
    if not columns[0]:
        raise InputError(f"{argument} holds no texts")
    if len({len(column) for column in columns}) > 1:
        raise InputError(f"{argument} holds {len(columns[0])} first texts and {len(columns[1])} second ones")
    places = [argument] if len(columns) == 1 else [f"{argument}[{number}]" for number in range(2)]
    return [checked_texts(column, place) for column, place in zip(columns, places, strict=True)]


def _columns_of_rows(rows: list[Any], argument: str) -> list[list[Any]]:
    sizes = {len(row) if isinstance(row, tuple | list) else 0 for row in rows}
    if sizes not in ({1}, {2}):
        number = next(n for n, row in enumerate(rows) if not isinstance(row, tuple | list) or len(row) != 2)
        raise InputError(
            f"{argument}[{number}]={shown(rows[number])} is not a pair of texts: all must be, or none"
        )
    return [list(column) for column in zip(*rows, strict=True)]


def check_dataset(dataset: tf.data.Dataset, labels: Any, argument: str) -> None:
    """InputError where a dataset to learn from has no labels, or there are others beside it."""
    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) not in (2, 3):
        raise InputError(f"{argument}: a tf.data.Dataset with labels gives batches of (texts, labels)")
    if labels is not None:
        raise InputError(f"{argument} is a tf.data.Dataset, in which the labels stand beside the texts")


def are_ids(inputs: Any) -> bool:
    """Whether these are inputs of the encoder; InputError where a dict is of something else."""
    if not isinstance(inputs, Mapping):
        return False
    if missing := [name for name in (WORD_IDS, MASK) if name not in inputs]:
        raise InputError(
            f"{', '.join(missing)} not among the inputs {', '.join(map(str, inputs))}: a dict is of token "
            "ids, and texts come in a list or an array"
        )
    return True


def targets(
    labels: Any, names: Sequence[str] | None, num_labels: int, count: int, argument: str
) -> np.ndarray:
    """What a classifier is to learn of each text.

    Args:
      labels: numbers from 0, names, or for each text a number for each label; of regression numbers.
      names: of the labels, in the order of the logits; None where they have none.
      num_labels: K; 1 is regression.
      count: number of texts, B.
      argument: what the caller calls the labels, for errors.
    Returns:
      int32 [B]; float32 [B] of regression, [B, K] where that was given.
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
        raise InputError(f"{argument} has the shape {values.shape}: it must be [{count}]")
    given = [decoded(value) for value in values.tolist()]
    if num_labels > 1 and values.ndim == 1:
        numbers: dict[Any, int] = {name: number for number, name in enumerate(names or ())}
        by_name = any(isinstance(value, str) for value in given)
        known = numbers if by_name else {number: number for number in range(num_labels)}
        wrong = next((n for n, value in enumerate(given) if value not in known), None)
        if wrong is not None:
            spelled = ", ".join(map(repr, known)) or "the names, as the model has none: give it labels"
            raise InputError(f"{argument}[{wrong}]={shown(given[wrong])} is none of {spelled}")
        return np.array([known[value] for value in given], np.int32)
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


def segments(inputs: Any) -> tuple[tf.Tensor, ...]:
    """One text a row or two of them, string [B] each, of what a model is called with."""
    if isinstance(inputs, tuple | list) and len(inputs) == 2 and all(map(tf.is_tensor, inputs)):
        return tuple(inputs)
    if not tf.is_tensor(inputs):
        return tuple(tf.constant(column) for column in text_columns(inputs, "inputs"))
    if inputs.dtype != tf.string or inputs.shape.rank not in (1, 2):
        raise InputError(
            f"inputs are {inputs.dtype.name} of the shape {inputs.shape}: texts are string [B] or [B, 2]"
        )
    if inputs.shape.rank == 1:
        return (inputs,)
    if inputs.shape[1] not in (1, 2):
        raise InputError(f"inputs have the shape {inputs.shape}: texts are string [B], pairs string [B, 2]")
    return tuple(tf.unstack(inputs, axis=1))
