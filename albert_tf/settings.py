"""Frozen dataclasses of settings, which may be nested: conversion to flat dicts and back, and changes."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

_Record = TypeVar("_Record")


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
