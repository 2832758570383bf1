"""Frozen records of settings: fields, flat or nested, and what changes them."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

_Record = TypeVar("_Record")


def flatten_record(record: Any) -> dict[str, Any]:
    """The values of a record and of the records in it, by the names of their fields; a tuple's as a list."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if isinstance(value, tuple):
            value = [flatten_record(item) for item in value]
        values |= flatten_record(value) if dataclasses.is_dataclass(value) else {field.name: value}
    return values


def replace_fields(record: _Record, **changes: Any) -> _Record:
    """A record with some values changed, its own or of the records in it; TypeError for an unknown name."""
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}  # type: ignore[arg-type]
    for name, value in values.items():
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            inner = {inner: changes.pop(inner) for inner in flatten_record(value).keys() & changes.keys()}
            values[name] = replace_fields(value, **inner)
    return dataclasses.replace(record, **values | changes)  # type: ignore[type-var]


def unflatten_record(kind: type[_Record], values: Mapping[str, Any]) -> _Record:
    """The record with these values; what is left out has its default, and other names are passed over."""
    types = typing.get_type_hints(kind)
    arguments = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if dataclasses.is_dataclass(types[field.name]):
            arguments[field.name] = unflatten_record(types[field.name], values)
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
