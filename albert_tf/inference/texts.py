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
    if isinstance(texts, tuple) and len(values) == 2 and not any(isinstance(x, Mapping) for x in values):
        if all(isinstance(value, str) for value in values):
            raise InputError(f"{argument}: a tuple of two texts may be a pair or two texts: give a list")
        first, second = map(listed, values)
        if len(first) != len(second):
            raise InputError(f"{argument} holds {len(first)} first texts and {len(second)} second ones")
        values = list(zip(first, second, strict=True))
    return [read_text(value, f"{argument}[{number}]") for number, value in enumerate(values)]


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
