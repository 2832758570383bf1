"""Errors that a command shows as one line, checks of values, and words for messages."""

from __future__ import annotations

import difflib
import errno
import math
import operator
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
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


class Missing(FileNotFoundError, InputError):
    """A file that the user named does not exist."""


class WorkFailed(RuntimeError):
    """The work went wrong on its way, though nothing was wrong with what was asked for; as one line, too."""


class Preempted(BaseException):
    """The work was asked to stop, or lost another host; the same command goes on from what is saved.

    Like KeyboardInterrupt it is not an Exception, so that no library's handler takes it for one of its own.
    """


class Terminated(SystemExit):
    """SIGTERM or SIGHUP has come: the command is to clean up and end with this status."""

    def __init__(self, status: int, signal_name: str = "SIGTERM"):
        super().__init__(status)
        self.signal_name = signal_name


def exists_already(path: object, remedy: str = "name another place") -> FileExistsError:
    """The error of something that is in the way of what is to be written."""
    return FileExistsError(f"{path} exists already: {remedy}")


def shorten(value: object) -> str:
    """A value in an error's one line, cut where it is long; a text keeps its closing quote."""
    text = repr(value)
    if len(text) <= 60:
        return text
    return f"{text[:57]}…{text[-1]}" if isinstance(value, str) else f"{text[:57]}…"


def join_words(words: Iterable[str], most: int = 10) -> str:
    """Words in an error's or a log's one line: the first ones of many."""
    first = [*words]
    more = f" and {len(first) - most} more" if len(first) > most else ""
    return ", ".join(first[:most]) + more


def is_tensorflows(error: BaseException) -> bool:
    """True for an error of TensorFlow's runtime; TensorFlow is not imported to find out."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(error, tensorflow.errors.OpError)


def system_error(error: BaseException) -> OSError | None:
    """The error of the system that an error of TensorFlow's runtime tells of, with its file; else None.

    TensorFlow knows it only as text, `path; No space left on device`, wherever in its message.
    """
    message = str(getattr(error, "message", "")) if is_tensorflows(error) else ""
    for number in errno.errorcode:
        around = r"(?:.*}} )?(?:Error in user-defined function .* with iterator: \S+: )?"
        if found := re.search(f"^{around}(.*); {re.escape(os.strerror(number))}", message, re.MULTILINE):
            return OSError(number, os.strerror(number), found[1])
    return None


# Takes the name of a value, and the value; raises an InputError that names both.
Check = Callable[[str, Any], None]

MAX_BITS = 64  # of whole numbers, as pandas and Parquet have them

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
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name}={value!r} is none of {', '.join(choices)}{_suggestion(value, choices)}")


def check_names(names: Iterable[Any], known: Collection[str], where: str) -> None:
    """InputError unless all names are known; it begins with `where`, and suggests names that look alike.

    >>> check_names(["text", "textpair"], ["text", "text_pair"], "row")
    Traceback (most recent call last):
    albert_tf.errors.InputError: row: unknown 'textpair': did you mean text_pair? (text, text_pair)
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
    albert_tf.errors.InputError: rate=1.5 must be at least 0 and below 1
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


def make_check(annotation: str, choices: Collection[str] = (), **bounds: Any) -> Check:
    """A check of a type, and of choices or bounds; arguments are those of the functions above.

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
    """InputError if a value fails the check that a schema has for its name; names without one may be there.

    A missing entry is no error. The error calls an entry by `prefix` and its name.
    """
    for name in values.keys() & schema.keys():
        schema[name](f"{prefix}{name}", values[name])


def make_object_check(needed: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """A check of an object with the entries that are needed, and perhaps others; see `check_entries`."""

    def check(name: str, value: Any) -> None:
        check_type(name, "Mapping", value)
        if missing := [key for key in needed if key not in value]:
            raise InputError(f"{name}: {missing[0]} is missing")
        check_entries(value, {**needed, **(optional or {})}, f"{name}.")

    return check


def make_list_check(*checks: Check) -> Check:
    """A check of a list: one check is of each item, several are of as many items."""

    def check(name: str, value: Any) -> None:
        check_type(name, "list", value)
        each = checks * len(value) if len(checks) == 1 else checks
        if len(value) != len(each):
            raise InputError(f"{name}={shorten(value)} must have {len(each)} items")
        for number, (check_item, item) in enumerate(zip(each, value, strict=True)):
            check_item(f"{name}[{number}]", item)

    return check


check_count = make_check("int", at_least=0)


def check_counts(name: str, value: Any) -> None:
    """InputError unless a value has whole numbers by name, none of them negative."""
    check_type(name, "Mapping", value)
    check_entries(value, dict.fromkeys(value, check_count), f"{name}.")


def check_json(value: Any, where: str, *, is_data: bool = False) -> None:
    """InputError for numbers that are not finite, such as `1e400`, and for halves of characters.

    UTF-8 lacks the latter, which are called lone surrogates.

    Args:
      value: the content of a JSON file, or a part of it.
      where: its place, with which the error begins.
      is_data: True for examples. NaN is a missing value there, and no whole number has more than MAX_BITS.
    """
    # Each part with its name and the part that it is in.
    parts: list[tuple[Any, Any, Any]] = [(value, None, None)]
    while parts:
        part, name, outer = here = parts.pop()
        if isinstance(part, dict):
            parts += [(found, key, here) for key, found in part.items()]
            parts += [(key, key, here) for key in part if not key.isascii()]
        elif isinstance(part, list):
            parts += [(found, number, here) for number, found in enumerate(part)]
        elif problem := _json_problem(part, is_data):
            raise InputError(f"{where}: {_json_place(name, outer)}{problem}")


def _json_problem(value: Any, is_data: bool) -> str:
    """What is wrong with a text or a number of JSON; empty if nothing is."""
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
    """The keys and numbers that lead to a part, and a colon; empty for the whole."""
    names: list[Any] = []
    while outer is not None:
        names, (_, name, outer) = [name, *names], outer
    steps = "".join(f"[{shorten(name)}]" for name in names)
    return steps and f"{steps}: "
