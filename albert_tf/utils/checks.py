"""Checks of values that users give; the errors name the argument, the value and what is allowed."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from albert_tf.utils.errors import InputError

_BOUNDS = {"at_least": operator.ge, "above": operator.gt, "at_most": operator.le, "below": operator.lt}
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "bool": (bool,),
    "None": (type(None),),
    "Mapping[str, float]": (Mapping,),
}


def is_missing(value: Any) -> bool:
    """True for None, NaN and NaT, also NumPy's, and the NA and NaT of pandas.

    >>> import numpy as np
    >>> [is_missing(x) for x in (None, float("nan"), np.float32("nan"), np.datetime64("NaT"), "", 0.0, [])]
    [True, True, True, True, False, False, False]
    """
    is_number = isinstance(value, float) or getattr(value, "shape", None) == ()
    is_nan = is_number and bool(value != value)
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """InputError unless a value is one of the choices; it names one that looks alike."""
    if value not in choices:
        raise InputError(f"{name}={value!r} is none of {', '.join(choices)}{_suggestion(value, choices)}")


def check_names(names: Iterable[Any], known: Collection[str], where: str) -> None:
    """InputError unless all names are known; it begins with `where`, and suggests names that look alike.

    >>> check_names(["text", "textpair"], ["text", "text_pair"], "row")
    Traceback (most recent call last):
    albert_tf.utils.errors.InputError: row: unknown 'textpair': did you mean text_pair? (text, text_pair)
    """
    unknown = [f"unknown {name!r}{_suggestion(name, known)}" for name in names if name not in known]
    if unknown:
        raise InputError(f"{where}: {', '.join(unknown)} ({', '.join(known)})")


def _suggestion(value: Any, choices: Collection[str]) -> str:
    """The end of an error's line that suggests the choice that looks like a value; empty if none does."""
    alike = difflib.get_close_matches(str(value), choices, 1)
    return f": did you mean {alike[0]}?" if alike else ""


def check_range(name: str, value: float, *, remedy: str = "", **bounds: float | None) -> None:
    """InputError unless a number lies within bounds, of `at_least`, `above`, `at_most` and `below`.

    None is no bound; NaN lies within none.

    >>> check_range("rate", 1.5, at_least=0, below=1)
    Traceback (most recent call last):
    albert_tf.utils.errors.InputError: rate=1.5 must be at least 0 and below 1
    """
    given = {kind: bound for kind, bound in bounds.items() if bound is not None}
    if not all(_BOUNDS[kind](value, bound) for kind, bound in given.items()):
        allowed = " and ".join(f"{kind.replace('_', ' ')} {bound:.12g}" for kind, bound in given.items())
        raise InputError(f"{name}={value} must be {allowed}{remedy and f': {remedy}'}")


def check_type(name: str, annotation: str, value: Any) -> None:
    """InputError unless a value is of the annotated type, such as "int | None"; an int may be a float."""
    accepted = tuple(kind for part in annotation.split(" | ") for kind in _TYPES[part])
    if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in accepted):
        raise InputError(f"{name}={value!r} must be of type {annotation}")
