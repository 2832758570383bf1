"""Columns of Parquet files, by pyarrow where it is installed."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.tasks.datasets.text_files import read_bytes
from albert_tf.utils.errors import InputError


class ParquetColumns(NamedTuple):
    """The columns of a file."""

    names: list[str]
    types: list[Any]  # of pyarrow
    values: list[list[Any]]  # Python's, None for null


def _pyarrow(file: str) -> Any:
    """The package with its module of Parquet; an InputError where it is missing."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise InputError(f"{file}: Parquet needs pyarrow: pip install pyarrow") from None
    return pyarrow


def read_parquet(file: str) -> ParquetColumns:
    """The columns of a file; an InputError where it is none."""
    pyarrow = _pyarrow(file)
    try:
        table = pyarrow.parquet.read_table(io.BytesIO(read_bytes(file)))
    except pyarrow.ArrowException as error:
        raise InputError(f"{file} cannot be read as Parquet: {error}") from None
    return ParquetColumns(table.column_names, table.schema.types, [x.to_pylist() for x in table.columns])


def parquet_content(file: str, columns: Mapping[str, Sequence[Any]], types: Mapping[str, Any]) -> bytes:
    """The content of a file of columns; those without a type of pyarrow get that of their values.

    An InputError, with the name of `file`, where the values of a column have no type in common.
    """
    pyarrow, written, arrays = _pyarrow(file), io.BytesIO(), {}
    for name, values in columns.items():
        try:
            arrays[name] = pyarrow.array(values, types.get(name))
        except (pyarrow.ArrowException, TypeError) as error:
            raise InputError(f"{file}: Parquet cannot hold the column {name!r} ({error})") from None
    pyarrow.parquet.write_table(pyarrow.table(arrays), written)
    return written.getvalue()
