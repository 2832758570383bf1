"""Frozen dataclasses of settings, which may be nested: checks, conversion to flat dicts and back, changes."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar

from albert_tf.errors import Check, make_check

_Record = TypeVar("_Record")

# Bounds that several settings have.
_LARGEST = (2 - 2.0**-23) * 2.0**127  # the largest float32: updates are computed in float32
NOT_NEGATIVE: dict[str, Any] = {"at_least": 0, "at_most": _LARGEST}
POSITIVE: dict[str, Any] = {"above": 0, "at_most": _LARGEST}
SHARE: dict[str, Any] = {"at_least": 0, "below": 1}
COUNT: dict[str, Any] = {"at_least": 1, "below": 2**31}


def setting(default: Any = dataclasses.MISSING, choices: Collection[str] = (), **bounds: Any) -> Any:
    """A field of a dataclass of settings.

    Args:
      default: the default. MISSING: the field has none.
      choices: the allowed values of a text; empty: any.
      **bounds: bounds of a number, and a remedy, as for `check_range`.
    """
    return dataclasses.field(default=default, metadata={"choices": choices, "bounds": bounds})


def field_check(field: dataclasses.Field) -> Check:
    """The check of a field's type, and of its choices and bounds if `setting` made the field."""
    metadata = field.metadata
    return make_check(str(field.type), metadata.get("choices", ()), **metadata.get("bounds", {}))


def check_fields(record: Any) -> None:
    """Raises InputError if a field has a wrong type, is out of bounds or none of the choices."""
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if not (dataclasses.is_dataclass(value) or isinstance(value, tuple)):  # they check themselves
            field_check(field)(field.name, value)


def flatten_record(record: Any) -> dict[str, Any]:
    """The values of a dataclass and of those nested in it, by the names of their fields; tuples as lists."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if isinstance(value, tuple):
            value = [flatten_record(item) for item in value]
        values |= flatten_record(value) if dataclasses.is_dataclass(value) else {field.name: value}
    return values


def replace_fields(record: _Record, **changes: Any) -> _Record:
    """A copy of a dataclass with new values for some fields, at any depth of nesting.

    Args:
      record: the dataclass.
      **changes: the new values, by the name of the field at any depth.
    Raises:
      TypeError: no field has this name.
    """
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}  # type: ignore[arg-type]
    for name, value in values.items():
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            inner_changes = {key: changes.pop(key) for key in flatten_record(value).keys() & changes.keys()}
            values[name] = replace_fields(value, **inner_changes)
    return dataclasses.replace(record, **values | changes)  # type: ignore[type-var]


def unflatten_record(kind: type[_Record], values: Mapping[str, Any]) -> _Record:
    """A dataclass from a flat dict. Missing fields get their defaults; unknown names are ignored."""
    types = typing.get_type_hints(kind)
    arguments = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if dataclasses.is_dataclass(types[field.name]):
            arguments[field.name] = unflatten_record(types[field.name], values)
        elif field.name in values:
            arguments[field.name] = values[field.name]
    return kind(**arguments)


def flat_fields(kind: type) -> Iterator[tuple[type, dataclasses.Field]]:
    """Each field of a dataclass and of the dataclasses in it, after the class that defines it."""
    types = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(types[field.name]):
            yield from flat_fields(types[field.name])
        else:
            yield kind, field


def field_defaults(kind: type) -> dict[str, Any]:
    """The defaults of the fields that have one, by name."""
    fields = (field for _, field in flat_fields(kind))
    return {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
