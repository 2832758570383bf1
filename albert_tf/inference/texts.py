"""Texts and pairs of texts in the forms in which people have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf.tasks.classification import read_text
from albert_tf.tasks.examples.records import TextRecord
from albert_tf.tokenizers.given import listed
from albert_tf.utils.errors import InputError, shown


def text_records(texts: Any, argument: str) -> list[TextRecord]:
    """Records of texts, or of pairs of texts.

    Args:
      texts: a list, array, tensor or pandas Series of texts; of pairs a tuple of two of these, an array
        [B, 2], or a list of tuples.
      argument: what the caller calls it, for errors.
    Raises:
      InputError: one is not a text or a pair, or it is not clear which of both they are.
    """
    values = listed(texts)
    if isinstance(texts, tuple) and len(values) == 2 and all(isinstance(value, str) for value in values):
        raise InputError(f"{argument}: a tuple of two texts may be a pair or two texts: give a list")
    if _are_columns(texts):
        columns = [listed(column) for column in values]
        if isinstance(texts, list) and [len(column) for column in columns] == [2, 2]:
            raise InputError(
                f"{argument}: a list of two lists of two may be two pairs or two columns: give a list of "
                "tuples, or a tuple of lists"
            )
        if len(columns[0]) != len(columns[1]):
            raise InputError(
                f"{argument} holds {len(columns[0])} first texts and {len(columns[1])} second ones"
            )
        values = list(zip(*columns, strict=True))
    return [read_text(value, f"{argument}[{number}]") for number, value in enumerate(values)]


def _are_columns(texts: Any) -> bool:
    """True for a tuple of two columns, or, as Keras takes two inputs, a list of two that are no pairs."""
    if not isinstance(texts, tuple | list) or len(texts) != 2:
        return False
    rows = str | Mapping | tuple if isinstance(texts, list) else str | Mapping
    return not any(isinstance(value, rows) for value in texts)


def are_pairs(texts: Any) -> bool:
    """True if these tensors of texts, or their specs, are of pairs: two of them, or one [B, 2]."""
    return isinstance(texts, tuple | list) or (texts.shape.rank == 2 and texts.shape[1] == 2)


def segments(texts: Any) -> list[tf.Tensor]:
    """One text a row or two of them, string [B] each.

    Args:
      texts: string [B], two of these, or string [B, 2].
    Raises:
      InputError: the texts are in no batch.
    """
    if isinstance(texts, tuple | list):
        return [segment for text in texts for segment in segments(text)]
    if texts.dtype != tf.string or texts.shape.rank not in (1, 2):
        raise InputError(
            f"inputs {shown(texts)} are not texts, string [B] or [B, 2]: of a tf.data.Dataset give batches"
        )
    return [texts] if texts.shape.rank == 1 else tf.unstack(texts, axis=1)
