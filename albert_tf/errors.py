"""Errors that a command shows as one line, checks of values, and helpers for messages."""

from __future__ import annotations

import contextlib
import difflib
import errno
import math
import numbers
import operator
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any


class InputError(ValueError):
    """An argument, a setting or a file is wrong. The message names the value and the remedy.

    It is a ValueError. Commands show it as one line. Any other ValueError is a bug and keeps its traceback.

    Example:
      >>> import albert_tf
      >>> albert_tf.AlbertConfig(hidden_size=770)
      Traceback (most recent call last):
      ...
      albert_tf.errors.InputError: hidden_size=770 is not a multiple of num_attention_heads=12
    """


class MissingFileError(FileNotFoundError, InputError):
    """A file that the user named does not exist."""


class WorkFailed(RuntimeError):
    """The work failed, though the request was valid. Commands show it as one line."""


class Preempted(BaseException):
    """The work was asked to stop, or lost another host. The same command resumes from the last checkpoint.

    Like KeyboardInterrupt it is not an Exception, so that no library catches it by mistake.
    """


class Terminated(SystemExit):
    """SIGTERM or SIGHUP was received: the command cleans up and ends with this status."""

    def __init__(self, status: int, signal_name: str = "SIGTERM"):
        super().__init__(status)
        self.signal_name = signal_name


def already_exists_error(path: object, remedy: str = "name another place") -> FileExistsError:
    """The error for an output path where something exists."""
    return FileExistsError(f"{path} exists already: {remedy}")


@contextlib.contextmanager
def add_place(place: object, kinds: tuple[type[Exception], ...] = (InputError,)) -> Iterator[None]:
    """Puts a place, such as the path of a file, before the message of an InputError of the block.

    Args:
      place: the place.
      kinds: the types of the errors that become an InputError with the place.

    >>> with add_place("config.json"):
    ...     check_range("hidden_size", 0, at_least=1)
    Traceback (most recent call last):
    albert_tf.errors.InputError: config.json: hidden_size=0 must be at least 1
    """
    try:
        yield
    except kinds as error:
        raise InputError(f"{place}: {error}") from error


def shorten(value: object) -> str:
    """The repr of a value for a message, cut if it is long. A text keeps its closing quote."""
    text = repr(value)
    if len(text) <= 60:
        return text
    return f"{text[:57]}…{text[-1]}" if isinstance(value, str) else f"{text[:57]}…"


def join_words(words: Iterable[str], most: int = 10) -> str:
    """Joins words for a message. If there are more than `most`, it has the first ones and a count."""
    first = [*words]
    more = f" and {len(first) - most} more" if len(first) > most else ""
    return ", ".join(first[:most]) + more


def is_tensorflow_error(error: BaseException) -> bool:
    """True for an error of TensorFlow's runtime. TensorFlow is not imported for this check."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(error, tensorflow.errors.OpError)


def system_error(error: BaseException) -> OSError | None:
    """The system's error, with its path, that an error of TensorFlow's runtime reports; else None.

    TensorFlow has it only as text within its message, such as `path; No space left on device`.
    """
    message = str(getattr(error, "message", "")) if is_tensorflow_error(error) else ""
    for number in errno.errorcode:
        around = r"(?:.*}} )?(?:Error in user-defined function .* with iterator: \S+: )?"
        if found := re.search(f"^{around}(.*); {re.escape(os.strerror(number))}", message, re.MULTILINE):
            return OSError(number, os.strerror(number), found[1])
    return None


# A function of the name of a value and the value. It raises an InputError that names both.
Check = Callable[[str, Any], None]

MAX_BITS = 64  # of whole numbers, as in pandas and Parquet

_BOUNDS = {"at_least": operator.ge, "above": operator.gt, "at_most": operator.le, "below": operator.lt}
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "bool": (bool,),
    "None": (type(None),),
    "Mapping": (Mapping,),
    "Mapping[str, float]": (Mapping,),
    "list": (list,),
}


def is_missing(value: Any) -> bool:
    """True for None, NaN and NaT, including NumPy's, and pandas' NA and NaT.

    >>> import numpy as np
    >>> [is_missing(x) for x in (None, float("nan"), np.float32("nan"), np.datetime64("NaT"), "", 0.0, [])]
    [True, True, True, True, False, False, False]
    """
    is_number = isinstance(value, float) or getattr(value, "shape", None) == ()
    is_nan = is_number and bool(value != value)
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Raises InputError unless a value is one of the choices. The message suggests a similar choice."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name}={value!r} is none of {', '.join(choices)}{suggestion(choices, value)}")


def check_names(names: Iterable[Any], known: Collection[str], where: str) -> None:
    """Raises InputError unless all names are known. The message begins with `where` and suggests others.

    >>> check_names(["text", "textpair"], ["text", "text_pair"], "row")
    Traceback (most recent call last):
    albert_tf.errors.InputError: row: unknown 'textpair': did you mean text_pair? (text, text_pair)
    """
    unknown = [f"unknown {name!r}{suggestion(known, name)}" for name in names if name not in known]
    if unknown:
        raise InputError(f"{where}: {', '.join(unknown)} ({', '.join(known)})")


def suggestion(choices: Collection[str], *values: Any) -> str:
    """The end of a message that suggests the choices similar to the values; empty if there are none.

    >>> suggestion(["text", "label"], "lable")
    ': did you mean label?'
    """
    similar = [choice for value in values for choice in difflib.get_close_matches(str(value), choices, 1)]
    return f": did you mean {', '.join(similar)}?" if similar else ""


def check_range(name: str, value: float, *, remedy: str = "", **bounds: float | None) -> None:
    """Raises InputError unless a number is within the bounds `at_least`, `above`, `at_most` and `below`.

    A bound of None has no effect. NaN is within no bounds.

    >>> check_range("rate", 1.5, at_least=0, below=1)
    Traceback (most recent call last):
    albert_tf.errors.InputError: rate=1.5 must be at least 0 and below 1
    """
    limits = {kind: bound for kind, bound in bounds.items() if bound is not None}
    if not all(_BOUNDS[kind](value, bound) for kind, bound in limits.items()):
        allowed = " and ".join(f"{kind.replace('_', ' ')} {bound:.12g}" for kind, bound in limits.items())
        raise InputError(f"{name}={value} must be {allowed}{remedy and f': {remedy}'}")


def check_whole(
    name: str, value: Any, at_least: int = 0, at_most: int | None = None, remedy: str = ""
) -> int:
    """Returns a whole number, which may be NumPy's, as an int. Other values, and bools, are an InputError.

    >>> check_whole("step", 2.5)
    Traceback (most recent call last):
    albert_tf.errors.InputError: step=2.5 must be a whole number
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InputError(f"{name}={shorten(value)} must be a whole number")
    number = int(value)
    check_range(name, number, at_least=at_least, at_most=at_most, remedy=remedy)
    return number


def check_type(name: str, annotation: str, value: Any) -> None:
    """Raises InputError unless a value has the annotated type ("int | None"). An int passes as a float."""
    accepted = tuple(kind for part in annotation.split(" | ") for kind in _TYPES[part])
    if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in accepted):
        raise InputError(f"{name}={value!r} must be of type {annotation}")


def make_check(annotation: str, choices: Collection[str] = (), **bounds: Any) -> Check:
    """Makes a check of a type, and of choices or bounds.

    Args:
      annotation: the type, as for `check_type`. None passes every other check.
      choices: the allowed values, as for `check_choice`.
      **bounds: bounds of a number, as for `check_range`.

    >>> make_check("int | None", at_least=1)("seq_length", 0)
    Traceback (most recent call last):
    albert_tf.errors.InputError: seq_length=0 must be at least 1
    """

    def check(name: str, value: Any) -> None:
        check_type(name, annotation, value)
        if value is not None:
            if choices:
                check_choice(name, value, choices)
            check_range(name, value, **bounds)

    return check


def check_entries(values: Mapping[str, Any], schema: Mapping[str, Check], prefix: str = "") -> None:
    """Raises InputError if an entry fails the check that the schema has for its name.

    Missing entries, and entries that the schema does not name, are no errors. The message calls an entry by
    `prefix` and its name.
    """
    for name in values.keys() & schema.keys():
        schema[name](f"{prefix}{name}", values[name])


def make_object_check(needed: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """Makes a check of a JSON object that must have the needed entries; see `check_entries`."""

    def check(name: str, value: Any) -> None:
        check_type(name, "Mapping", value)
        if missing := [key for key in needed if key not in value]:
            raise InputError(f"{name}: {missing[0]} is missing")
        check_entries(value, {**needed, **(optional or {})}, f"{name}.")

    return check


def make_list_check(*checks: Check) -> Check:
    """Makes a check of a list: one check for all items, or a check for each item of a list of that length."""

    def check(name: str, value: Any) -> None:
        check_type(name, "list", value)
        item_checks = checks * len(value) if len(checks) == 1 else checks
        if len(value) != len(item_checks):
            raise InputError(f"{name}={shorten(value)} must have {len(item_checks)} items")
        for number, (check_item, item) in enumerate(zip(item_checks, value, strict=True)):
            check_item(f"{name}[{number}]", item)

    return check


check_count = make_check("int", at_least=0)


def check_counts(name: str, value: Any) -> None:
    """Raises InputError unless a value is an object of whole numbers, none of them negative."""
    check_type(name, "Mapping", value)
    check_entries(value, dict.fromkeys(value, check_count), f"{name}.")


def check_json(value: Any, where: str, *, is_data: bool = False) -> None:
    """Raises InputError for numbers that are not finite, such as `1e400`, and for lone surrogates.

    A lone surrogate is half a character, which UTF-8 cannot encode.

    Args:
      value: the content of a JSON file, or a part of it.
      where: its path or name. The message begins with it.
      is_data: True for examples. Then NaN is a missing value, and no whole number has more than MAX_BITS.
    """
    # Entries of (part, its key or number, the entry of the part that it is in).
    entries: list[tuple[Any, Any, Any]] = [(value, None, None)]
    while entries:
        part, name, outer = entry = entries.pop()
        if isinstance(part, dict):
            entries += [(item, key, entry) for key, item in part.items()]
            entries += [(key, key, entry) for key in part if not key.isascii()]
        elif isinstance(part, list):
            entries += [(item, number, entry) for number, item in enumerate(part)]
        elif problem := _json_problem(part, is_data):
            raise InputError(f"{where}: {_json_place(name, outer)}{problem}")


def _json_problem(value: Any, is_data: bool) -> str:
    """The problem of a text or a number in JSON; empty if it has none."""
    if isinstance(value, str):
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                return f"{shorten(value[error.start])} is half a character: write the whole one"
    elif isinstance(value, float) and (math.isinf(value) or (value != value and not is_data)):
        return f"{value} is not a finite number: write null, or leave it out"
    elif is_data and isinstance(value, int) and value.bit_length() > MAX_BITS:
        return f"{shorten(value)} has more than {MAX_BITS} bits: write it as a text, in quotes"
    return ""


def _json_place(name: Any, outer: Any) -> str:
    """The keys and numbers that lead to a part, and a colon; empty for the whole content."""
    names: list[Any] = []
    while outer is not None:
        names, (_, name, outer) = [name, *names], outer
    steps = "".join(f"[{shorten(name)}]" for name in names)
    return steps and f"{steps}: "
