"""Texts in lists, arrays and pandas columns, checked and converted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.utils.errors import InputError, shown


def listed(values: Any) -> list[Any]:
    """The values of a sequence of any kind; those of tensors and arrays of bytes as str."""
    if hasattr(values, "to_numpy"):  # pandas
        values = values.to_numpy()
    if tf.is_tensor(values):
        values = values.numpy()
    if isinstance(values, set | frozenset):
        raise InputError(f"{shown(values)} is a set, which has no order: give a list")
    if not isinstance(values, np.ndarray):
        return list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]
    return [decoded(value) for value in np.atleast_1d(values).tolist()]


def decoded(value: Any) -> Any:
    """The value, or the values in a list, those of bytes as str."""
    if isinstance(value, list):
        return [decoded(part) for part in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def check_text(value: Any, where: str) -> str:
    """The value, a text; an InputError says where it stands and what it is instead."""
    if not isinstance(value, str):
        raise InputError(f"{where}={shown(value)} is not a text (a str)")
    return value


def text_tensor(texts: Any, argument: str) -> tf.Tensor:
    """Texts as a string tensor, which may be symbolic; an InputError names the first that is not a text.

    They are a tensor, which stays as it is; a str; or a list, array or pandas Series of str or bytes.
    """
    if hasattr(texts, "to_numpy"):  # pandas
        texts = texts.to_numpy()
    if tf.is_tensor(texts):
        if texts.dtype != tf.string:
            raise InputError(f"{argument} is a tensor of {texts.dtype.name}: texts are tf.string")
        return texts
    if isinstance(texts, np.ndarray):
        texts = texts.tolist()
    if not isinstance(texts, str | bytes | list | tuple):
        raise InputError(f"{argument}={shown(texts)} is neither a text nor a list of them")
    for number, value in enumerate(texts if isinstance(texts, list | tuple) else ()):
        if not isinstance(value, bytes):
            check_text(value, f"{argument}[{number}]")
    return tf.constant(texts, tf.string)
