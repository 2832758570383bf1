"""Reads and writes tables: CSV, TSV, JSON lines and Parquet."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import decimal
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from albert_tf.errors import InputError, check_json, join_words, shorten
from albert_tf.io import csv_text, dump_json, json_object
from albert_tf.text.files import GZIP_SUFFIX, Paths, decode_text, distinct_paths, open_decompressed


def read_data_bytes(file: str) -> bytes:
    """Reads a file on any filesystem of `tf.io.gfile`; decompresses it if its name ends in `.gz`."""
    if not tf.io.gfile.exists(file):
        raise FileNotFoundError(f"{file}: no such file: correct the path")
    if tf.io.gfile.isdir(file):
        raise InputError(f"{file} is a folder: name a file in it")
    with tf.io.gfile.GFile(file, "rb") as stored, open_decompressed(file, stored) as stream:
        return stream.read()


def read_text(file: str | os.PathLike) -> str:
    """Reads a UTF-8 file, which must not be empty, without its byte order mark; see `read_data_bytes`."""
    file = os.fspath(file)
    text = decode_text(read_data_bytes(file), file)
    if not text.strip():
        raise InputError(f"{file} is empty: correct the path, or write it")
    return text


def read_lines(file: str | os.PathLike) -> list[str]:
    """Reads the lines of a file; see `split_table_lines`."""
    return split_table_lines(read_text(file))


def split_table_lines(text: str) -> list[str]:
    """Splits a text into lines at Python's universal newlines, not at other line breaks of Unicode."""
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")


def read_json_data(file: str | os.PathLike) -> dict[str, Any]:
    """Reads the object in a JSON file."""
    return json_object(read_text(file).encode(), file, is_data=True)


def read_json_lines(file: str | os.PathLike) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the objects of a JSON lines file with their line numbers from 1; it skips blank lines."""
    for number, line in enumerate(read_lines(file), start=1):
        if line.strip():
            yield number, json_object(line.encode(), f"{os.fspath(file)}:{number}", is_data=True)


def json_field(value: Any, name: str, kind: type, where: str) -> Any:
    """The field of a JSON object by its name; an InputError if it is missing or of another type."""
    content = value.get(name) if isinstance(value, dict) else None
    if not isinstance(content, kind) or (kind is int and isinstance(content, bool)):
        raise InputError(f"{where}: {name!r} is missing or not of type {kind.__name__}: {shorten(content)}")
    return content


_CODE = re.compile(r"\+|-?0[\dx]|-?(inf|nan)", re.IGNORECASE)  # texts that Python would read as numbers
_DIGITS_OF_FLOAT = 15  # a float64 holds every whole number with so many digits


def _import_pyarrow(file: str) -> Any:
    """Imports pyarrow with `pyarrow.parquet`; an InputError if it is not installed."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise InputError(f"{file}: Parquet needs pyarrow: pip install pyarrow") from None
    return pyarrow


def _python_values(file: str, name: str, column: Any) -> list[Any]:
    """Converts a column to Python; an InputError with the row of a cell that Python cannot hold."""
    # Fails for a text that is not UTF-8, or a date after the year 9999.
    with contextlib.suppress(ValueError, OverflowError):
        return column.to_pylist()
    for row, cell in enumerate(column, start=1):
        try:
            cell.as_py()
        except (ValueError, OverflowError) as error:
            raise InputError(f"{file}:{row}: the cell under {name!r} cannot be read: {error}") from None
    raise AssertionError(f"{file}: {name!r} is read cell by cell and not as a whole")


def parquet_content(file: str, columns: Mapping[str, Sequence[Any]], schema: Any, infers: bool) -> bytes:
    """The content of a Parquet file with these columns.

    Args:
      file: name in errors.
      columns: the cells of each column.
      schema: pyarrow's schema with the types of known columns and the metadata, or None.
      infers: True to convert columns of texts that are all numbers or truth values.
    Raises:
      InputError: the values of a column have no common type.
    """
    pyarrow, written, fields, arrays = _import_pyarrow(file), io.BytesIO(), [], []
    schema_fields = {} if schema is None else {field.name: field for field in schema}
    for name, values in columns.items():
        field = schema_fields.get(name)
        try:
            array = pyarrow.array(values, None if field is None else field.type)
        except (pyarrow.ArrowException, TypeError, OverflowError) as error:
            remedy = "name a .csv or .jsonl file, or give files of one format"
            problem = f"Parquet cannot hold the column {name!r}, of values of several types ({error})"
            raise InputError(f"{file}: {problem}: {remedy}") from None
        arrays.append(_infer_type(pyarrow, array) if infers else array)
        fields.append(field or pyarrow.field(name, arrays[-1].type))
    schema = pyarrow.schema(fields, None if schema is None else schema.metadata)
    try:
        pyarrow.parquet.write_table(pyarrow.Table.from_arrays(arrays, schema=schema), written)
    except pyarrow.ArrowException as error:
        problem = f"Parquet cannot hold this table ({error})"
        raise InputError(f"{file}: {problem}: name a .csv or .jsonl file") from None
    return written.getvalue()


def _infer_type(pyarrow: Any, array: Any) -> Any:
    """Converts texts to whole numbers, numbers or truth values if all of them are; empty texts become null.

    Numbers with a plus, leading zeros or in hexadecimal are codes and stay texts, unlike in pyarrow.csv, and
    so do words for no number. Numbers that a float64 cannot hold stay texts, too.
    """
    texts = [text or None for text in array.to_pylist()] if array.type == pyarrow.string() else []
    if not any(texts) or any(map(_CODE.match, filter(None, texts))):
        return array
    for kind in ("int64", "float64", "bool"):
        with contextlib.suppress(pyarrow.ArrowInvalid):
            converted = pyarrow.array(texts, "string").cast(kind)
            is_inexact = kind == "float64" and any(map(_is_beyond_float64, filter(None, texts)))
            return array if is_inexact else converted
    return array


def _is_beyond_float64(number: str) -> bool:
    """True if the number as a float64 loses digits before the point, or is infinite."""
    whole = number.partition(".")[0].lstrip("+-")
    is_infinite = number[-1].isdigit() and math.isinf(float(number))
    return is_infinite or (whole.isdecimal() and len(whole) > _DIGITS_OF_FLOAT)


# The cell for a field that a JSON object lacks; None is null.
ABSENT = object()

# A quote at the beginning of a cell between tabs.
_OPENING_QUOTE = re.compile(r'(?:^|[\t\r\n])"')


class Row(NamedTuple):
    """A row of a table."""

    line: int  # number of its first line, from 1; in Parquet the number of the row
    cells: Sequence[Any]  # in the order of the columns; ABSENT where a JSON object lacks the field


@dataclasses.dataclass(frozen=True)
class Table:
    """The rows of a file and the names of their columns."""

    file: str
    columns: tuple[str, ...]
    rows: Sequence[Row] = dataclasses.field(repr=False)
    schema: Any = dataclasses.field(default=None, repr=False)  # pyarrow's, if the file is Parquet

    def __post_init__(self) -> None:
        """Raises an InputError if a row has more or fewer cells than there are columns."""
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                names = f"columns: {len(self.columns)} ({join_words(map(shorten, self.columns))})"
                remedy = _separator_remedy(self.file, ",".join(self.columns))
                if not remedy and len(row.cells) > len(self.columns) and table_ending(self.file) == ".csv":
                    remedy = ": a cell with a comma stands in quotes, with no space before them"
                raise InputError(f"{self.file}:{row.line}: cells: {len(row.cells)}, and {names}{remedy}")

    def column_index(self, column: str, argument: str | None = None) -> int:
        """The index of a column by its name; an InputError if none or several columns have it.

        The error names the `argument` whose value is the name.
        """
        if self.columns.count(column) != 1:
            problem = "several columns are called" if column in self.columns else "there is no column"
            requested = repr(column) if argument is None else f"{argument}={column!r}"
            names = f"names its columns, here {join_words(map(shorten, self.columns))}"
            remedy = _separator_remedy(self.file, ",".join(self.columns))
            raise InputError(f"{self.file}: {problem} {requested}: the first line of a table {names}{remedy}")
        return self.columns.index(column)

    def add_columns(self, columns: Mapping[str, Sequence[Any]]) -> Table:
        """A table with further columns; their names must be new."""
        new_cells = zip(*columns.values(), strict=True)
        rows = [Row(row.line, [*row.cells, *cells]) for row, cells in zip(self.rows, new_cells, strict=True)]
        return dataclasses.replace(self, columns=(*self.columns, *columns), rows=rows)


def table_ending(file: str | os.PathLike) -> str:
    """The ending of a file's name in lower case, without the `.gz` of a compressed file."""
    return os.path.splitext(os.fspath(file).removesuffix(GZIP_SUFFIX))[1].lower()  # noqa: PTH122


def read_table(files: Paths) -> Table:
    """Reads a table. Its name ends in .csv, .tsv, .jsonl or .parquet, or one of these and .gz.

    The first line of CSV and TSV names the columns; spaces around a name are dropped. The columns of JSON
    lines are the fields of the objects. Blank lines are skipped. Several files, or globs, become one table
    with the name of the first file. Raises an InputError if a file's name has another ending, a row does not
    fit the columns, or the columns of files differ.
    """
    return concat_tables([TABLE_ENDINGS[check_table_ending(file)](file) for file in distinct_paths(files)])


def concat_tables(tables: Sequence[Table], are_json: bool = False) -> Table:
    """Concatenates the rows of tables; an InputError if a table lacks a column of the others.

    JSON lines may lack a field: files whose names say so, or all with `are_json`.
    """
    if len(tables) == 1:
        return tables[0]
    columns, rows = tuple(dict.fromkeys(name for table in tables for name in table.columns)), []
    for table in tables:
        numbers = {name: table.column_index(name) for name in table.columns}
        may_lack_columns = are_json or table_ending(table.file) == ".jsonl"
        if missing := [name for name in columns if name not in numbers and not may_lack_columns]:
            raise InputError(f"{table.file}: there is no column {missing[0]!r}, which other files have")
        for row in table.rows:
            cells = [row.cells[numbers[name]] if name in numbers else ABSENT for name in columns]
            rows.append(Row(row.line, cells))
    return dataclasses.replace(tables[0], columns=columns, rows=rows, schema=_common_schema(tables))


def _common_schema(tables: Sequence[Table]) -> Any:
    """The first table's schema, without the columns that have another type in another file."""
    schema = tables[0].schema
    for other in (table.schema for table in tables[1:] if None not in (schema, table.schema)):
        for name in {*schema.names} & {*other.names}:
            if schema.field(name).type != other.field(name).type:
                schema = schema.remove(schema.get_field_index(name))
    return schema


def check_table_ending(file: str) -> str:
    """Returns the ending of a file's name; raises an InputError if it is no key of TABLE_ENDINGS."""
    ending = table_ending(file)
    if ending not in TABLE_ENDINGS:
        raise InputError(
            f"{file} is no table: its name must end in {', '.join(TABLE_ENDINGS)}, or these with .gz"
        )
    return ending


def _read_csv(file: str) -> Table:
    return _table_with_header(file, _parse_rows(file, read_text(file), ","))


def _parse_rows(file: str, text: str, separator: str) -> list[Row]:
    """Parses rows whose cells may be quoted; an InputError names the line of a wrong quote."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # long documents exceed the usual limit
    lines = list(io.StringIO(text, newline=""))  # with their ends; the same lines as in `split_table_lines`
    reader = csv.reader(lines, delimiter=separator, strict=True)
    blank = " \t\r\n".replace(separator, "")
    rows: list[Row] = []
    line = 0
    try:
        for cells in reader:
            if lines[line].strip(blank):  # blank lines are skipped, as in pandas
                rows.append(Row(line + 1, cells))
            line = reader.line_num
    except csv.Error as error:
        remedy = _separator_remedy(file, lines[0]) or ": write a quote in a quoted cell twice"
        raise InputError(
            f"{file}:{line + 1}: not {table_ending(file)[1:].upper()} ({error}){remedy}"
        ) from None
    return rows


def _separator_remedy(file: str, names: str) -> str:
    """The end of an error if a CSV file seems to have another separator than commas; else empty."""
    if table_ending(file) != ".csv":
        return ""
    if '";' in names or ';"' in names or (";" in names and "," not in names):
        return ". It is separated by ;: write it with commas, or as .tsv"
    if "\t" in names and "," not in names:
        return ". It is separated by tabs: name it .tsv, or of standard input say `input_format` tsv"
    return ""


def _read_tsv(file: str) -> Table:
    """Reads TSV, whose cells are quoted as in csv and pandas, or whose quotes are ordinary characters.

    Cells are quoted if the first column's name is, as `table_text` writes it; or if all quotes are valid, and
    no quoted line break joins lines that are rows by themselves.
    """
    text = read_text(file)
    unquoted_rows = _split_rows(split_table_lines(text))
    if not _OPENING_QUOTE.search(text):
        return _table_with_header(file, unquoted_rows)
    has_quoted_header = text.startswith('"')
    try:
        table = _table_with_header(file, _parse_rows(file, text, "\t"))
    except InputError as error:
        if has_quoted_header:
            raise
        reason = str(error)
    else:
        are_rows = len({len(row.cells) for row in unquoted_rows}) == 1
        if has_quoted_header or len(table.rows) == len(unquoted_rows) - 1 or not are_rows:
            return table
        reason = f"{file}: there are quotes around line breaks, and each line is a row by itself"
    logging.warning("%s. All quotes are read as characters: put one around the first name if not", reason)
    return _table_with_header(file, unquoted_rows)


def read_tsv(file: str, columns: Sequence[str] | None = None, broken_lines: bool = False) -> Table:
    """Reads TSV in which quotes are ordinary characters. See `read_table` for the errors.

    `columns` are the names of the columns, if the first line does not name them. With `broken_lines` cells
    may hold line breaks: a row that is too short continues in the next line.
    """
    rows = _split_rows(read_lines(file), broken_lines)
    header = [] if columns is None else [Row(0, columns)]
    return _table_with_header(file, [*header, *(_join_broken_rows(rows) if broken_lines else rows)])


def _split_rows(lines: Sequence[str], keeps_blank: bool = False) -> list[Row]:
    """Splits lines into cells at each tab."""
    return [
        Row(number, line.split("\t"))
        for number, line in enumerate(lines, start=1)
        if keeps_blank or line.strip(" ")  # a line of tabs is a row of empty cells
    ]


def _join_broken_rows(lines: Sequence[Row]) -> Iterator[Row]:
    """Joins lines to rows as long as the first line; a space replaces the line break in a cell."""
    incomplete: Row | None = None
    for row in lines:
        if incomplete is not None:
            first, *others = row.cells
            cells = [*incomplete.cells[:-1], f"{incomplete.cells[-1]} {first}", *others]
            row = Row(incomplete.line, cells)
        elif row.cells == [""]:  # a blank line between rows
            continue
        incomplete = row if len(row.cells) < len(lines[0].cells) else None
        if incomplete is None:
            yield row
    if incomplete is not None:
        yield incomplete


def _table_with_header(file: str, rows: Sequence[Row]) -> Table:
    """The table of rows whose first row names the columns."""
    return Table(file, tuple(name.strip() for name in rows[0].cells), rows[1:])


def read_json_table(file: str) -> Table:
    """Reads JSON lines, whatever the ending of the file's name. See `read_table` for the errors."""
    objects = list(read_json_lines(file))
    columns = tuple(dict.fromkeys(name for _, value in objects for name in value))
    return Table(
        file, columns, [Row(line, [value.get(name, ABSENT) for name in columns]) for line, value in objects]
    )


def table_text(table: Table, ending: str) -> str | bytes:
    """The content of a file that `read_table` reads as this table: a text, or for Parquet bytes.

    In CSV and TSV null and absent fields are empty, and other cells that are not texts, such as lists, are
    JSON. `str` spells values that JSON does not know, such as dates. If the table was CSV or TSV, Parquet's
    columns of numbers or truth values get that type. Raises an InputError if two columns have the same name
    in JSON lines or Parquet.
    """
    if ending in NESTED:
        for name in table.columns:
            table.column_index(name)
    if ending == ".parquet":
        rows = [[None if cell is ABSENT else cell for cell in row.cells] for row in table.rows]
        columns = {name: [cells[number] for cells in rows] for number, name in enumerate(table.columns)}
        are_nested = table_ending(table.file) in NESTED
        return parquet_content(table.file, columns, table.schema, infers=not are_nested)
    if ending == ".jsonl":
        lines = []
        for row in table.rows:
            cells = zip(table.columns, row.cells, strict=True)
            line = {name: value for name, value in cells if value is not ABSENT}
            check_json(line, f"{table.file}:{row.line}", is_data=True)  # Parquet may have infinity
            lines.append(dump_json(line, default=cell_text) + "\n")
        return "".join(lines)
    separator = "," if ending == ".csv" else "\t"
    names = csv_text([table.columns], separator)
    text = csv_text((map(cell_text, row.cells) for row in table.rows), separator)
    if ending == ".tsv" and '"' in names + text:  # a quoted name tells `_read_tsv` that cells are quoted
        names = csv_text([table.columns], separator, quotes_all=True)
    return names + text


def cell_text(cell: Any) -> str:
    """A cell as a text in CSV and TSV: empty for null, JSON for numbers and lists, `str` for dates."""
    if isinstance(cell, str):
        return cell
    if cell is None or cell is ABSENT:
        return ""
    if isinstance(cell, bytes):  # of writers that do not mark texts
        return cell.decode("utf-8", "backslashreplace")
    if isinstance(cell, decimal.Decimal):
        return format(cell, "f")  # `str` may take an exponent
    is_plain = not isinstance(cell, bool | int | float | list | dict)  # a date, for example
    return str(cell) if is_plain else json.dumps(cell, ensure_ascii=False, default=cell_text)


def _read_parquet(file: str) -> Table:
    pyarrow, content = _import_pyarrow(file), read_data_bytes(file)
    try:
        table = pyarrow.parquet.read_table(io.BytesIO(content))
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{file} cannot be read as Parquet: {error}") from None
    columns = zip(table.column_names, table.columns, strict=True)
    cells = zip(*(_python_values(file, name, column) for name, column in columns), strict=True)
    rows = [Row(number, row) for number, row in enumerate(cells, start=1)]
    return Table(file, tuple(table.column_names), rows, table.schema)


TABLE_ENDINGS: dict[str, Callable[[str], Table]] = {
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".jsonl": read_json_table,
    ".parquet": _read_parquet,
}
NESTED = (".jsonl", ".parquet")  # formats whose cells may be lists
