"""The forms in which people have texts: lists, arrays, datasets; one or two columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf.features import MASK, WORD_IDS
from albert_tf.tokenizers.given import checked_texts, listed
from albert_tf.utils.errors import InputError, shown


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
        if [len(column) for column in columns] == [2, 2]:
            raise InputError(
                f"{argument}: a list of two lists of two may be two pairs or two columns: give a list of "
                "tuples, or a tuple of lists"
            )
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


def dataset_takes_pairs(dataset: tf.data.Dataset, argument: str) -> bool | None:
    """True if the batches of a dataset are of pairs of texts, None if of token ids; InputError if unbatched.

    Args:
      dataset: of inputs alone, or of tuples that begin with them.
      argument: what the caller calls it, for errors.
    """
    spec = dataset.element_spec
    texts, *labels = spec if isinstance(spec, tuple) else (spec,)
    ids = are_ids(texts)
    least = 2 if ids else 1
    ranks = [(part.shape.rank, least) for part in tf.nest.flatten(texts)]
    ranks += [(part.shape.rank, 1) for part in tf.nest.flatten(labels)]
    if any(rank is not None and rank < wanted for rank, wanted in ranks):
        raise InputError(f"{argument} is an unbatched tf.data.Dataset: give {argument}.batch(32)")
    return None if ids else are_pairs(texts)


def are_pairs(texts: Any) -> bool:
    """True if these tensors of texts, or their specs, are of pairs: two of them, or one [B, 2]."""
    return isinstance(texts, tuple | list) or (texts.shape.rank == 2 and texts.shape[1] == 2)


def check_form(is_pair: bool | None, takes_pairs: bool | None, argument: str) -> None:
    """InputError where a model that learned pairs is given single texts, or the other way round."""
    if None not in (is_pair, takes_pairs) and is_pair != takes_pairs:
        raise InputError(
            f"{argument} holds {_FORMS[bool(is_pair)]}: the model learned {_FORMS[bool(takes_pairs)]}"
        )


_FORMS = {False: "single texts", True: "pairs of texts"}


def are_ids(inputs: Any) -> bool:
    """True for inputs of the encoder; InputError if a dict is of something else."""
    if not isinstance(inputs, Mapping):
        return False
    if missing := [name for name in (WORD_IDS, MASK) if name not in inputs]:
        raise InputError(
            f"{', '.join(missing)} not among the inputs {', '.join(map(str, inputs))}: a dict is of token "
            "ids, and texts come in a list or an array"
        )
    return True


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
