"""Frozen dataclasses whose fields may be such records: nested in code, flat in JSON, flags and changes."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def flat(record: Any) -> dict[str, Any]:
    """The values of a record and of the records in it, by the names of their fields; a tuple's as a list."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if isinstance(value, tuple):
            value = [flat(item) for item in value]
        values |= flat(value) if dataclasses.is_dataclass(value) else {field.name: value}
    return values


def changed(record: T, **changes: Any) -> T:
    """A record with some values changed, its own or of the records in it; TypeError for an unknown name."""
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}  # type: ignore[arg-type]
    for name, value in values.items():
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            inner = {inner: changes.pop(inner) for inner in flat(value).keys() & changes.keys()}
            values[name] = changed(value, **inner)
    return dataclasses.replace(record, **values | changes)  # type: ignore[type-var]


def from_flat(kind: type[T], values: Mapping[str, Any]) -> T:
    """The record with these values; what is left out has its default, and other names are passed over."""
    types = typing.get_type_hints(kind)
    arguments = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if dataclasses.is_dataclass(types[field.name]):
            arguments[field.name] = from_flat(types[field.name], values)
        elif field.name in values:
            arguments[field.name] = values[field.name]
    return kind(**arguments)


def flat_fields(kind: type) -> Iterator[tuple[type, dataclasses.Field]]:
    """Each field of a record and of the records in it, with the class that it is of."""
    types = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(types[field.name]):
            yield from flat_fields(types[field.name])
        else:
            yield kind, field


def defaults(kind: type) -> dict[str, Any]:
    """The values that fields have where nobody says otherwise."""
    fields = (field for _, field in flat_fields(kind))
    return {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
