"""Columns of Parquet files, by pyarrow where it is installed."""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.tasks.datasets.text_files import read_bytes
from albert_tf.utils.errors import InputError

_CODE = re.compile(r"-?0\d")
_DIGITS_OF_FLOAT = 15  # that a float64 keeps of any whole number


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
    columns = zip(table.column_names, table.columns, strict=True)
    return table.schema, [_python_values(file, name, column) for name, column in columns]


def _python_values(file: str, name: str, column: Any) -> list[Any]:
    """The cells of a column; an InputError with the row of one that Python cannot hold."""
    try:
        return column.to_pylist()
    except (ValueError, OverflowError):  # no UTF-8, or a date after the year 9999
        pass
    for row, cell in enumerate(column, start=1):
        try:
            cell.as_py()
        except (ValueError, OverflowError) as error:
            raise InputError(f"{file}:{row}: the cell under {name!r} cannot be read: {error}") from None
    raise AssertionError(f"{file}: {name!r} is read cell by cell and not as a whole")


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
        except (pyarrow.ArrowException, TypeError, OverflowError) as error:
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

    Numbers with leading zeros are codes, and stay texts, unlike pyarrow.csv has it; so do numbers that a
    float64 cannot hold.
    """
    texts = [text or None for text in array.to_pylist()] if array.type == pyarrow.string() else []
    if not any(texts) or any(map(_CODE.match, filter(None, texts))):
        return array
    for kind in ("int64", "float64", "bool"):
        with contextlib.suppress(pyarrow.ArrowInvalid):
            found = pyarrow.array(texts, "string").cast(kind)
            return array if kind == "float64" and any(map(_is_beyond_float64, filter(None, texts))) else found
    return array


def _is_beyond_float64(number: str) -> bool:
    """True for a whole number that loses digits as a float64, or one that becomes infinity."""
    whole = number.partition(".")[0].lstrip("+-")
    is_infinite = number[-1].isdigit() and math.isinf(float(number))
    return is_infinite or (whole.isdecimal() and len(whole) > _DIGITS_OF_FLOAT)
