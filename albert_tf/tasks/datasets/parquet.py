"""Columns of Parquet files, by pyarrow where it is installed."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.tasks.datasets.text_files import read_bytes
from albert_tf.utils.errors import InputError

_CODE = re.compile(r"-?0\d")


def _pyarrow(file: str) -> Any:
    """The package with its module of Parquet; an InputError where it is missing."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise InputError(f"{file}: Parquet needs pyarrow: pip install pyarrow") from None
    return pyarrow


def read_parquet(file: str) -> tuple[Any, list[list[Any]]]:
    """The schema of a file, of pyarrow, and its columns, None for null; an InputError where it is none."""
    pyarrow = _pyarrow(file)
    try:
        table = pyarrow.parquet.read_table(io.BytesIO(read_bytes(file)))
    except pyarrow.ArrowException as error:
        raise InputError(f"{file} cannot be read as Parquet: {error}") from None
    return table.schema, [x.to_pylist() for x in table.columns]


def parquet_content(file: str, columns: Mapping[str, Sequence[Any]], schema: Any, infers: bool) -> bytes:
    """The content of a file of columns, with those of a schema of pyarrow as it has them, and its metadata.

    With `infers` texts become what all of a column are. An InputError, with the name of `file`, where the
    values of a column have no type in common.
    """
    pyarrow, written, fields, arrays = _pyarrow(file), io.BytesIO(), [], []
    there = {} if schema is None else {field.name: field for field in schema}
    for name, values in columns.items():
        field = there.get(name)
        try:
            array = pyarrow.array(values, None if field is None else field.type)
        except (pyarrow.ArrowException, TypeError) as error:
            remedy = "name a .csv or .jsonl file, or give files of one format"
            problem = f"Parquet cannot hold the column {name!r}, of values of several types ({error})"
            raise InputError(f"{file}: {problem}: {remedy}") from None
        arrays.append(_inferred(pyarrow, array) if infers else array)
        fields.append(field or pyarrow.field(name, arrays[-1].type))
    kept = pyarrow.schema(fields, None if schema is None else schema.metadata)
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(arrays, schema=kept), written)
    return written.getvalue()


def _inferred(pyarrow: Any, array: Any) -> Any:
    """Texts as whole numbers, numbers or truth values, null where they are empty, if all are such.

    Numbers with leading zeros are codes, and stay texts, unlike pyarrow.csv has it.
    """
    texts = [text or None for text in array.to_pylist()] if array.type == pyarrow.string() else []
    if not any(texts) or any(map(_CODE.match, filter(None, texts))):
        return array
    for kind in ("int64", "float64", "bool"):
        with contextlib.suppress(pyarrow.ArrowInvalid):
            return pyarrow.array(texts, "string").cast(kind)
    return array
