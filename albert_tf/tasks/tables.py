"""Tables of records: CSV, TSV, JSON lines and Parquet."""

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
    """The content of a file on any filesystem that TensorFlow reads, decompressed if it ends in `.gz`."""
    if not tf.io.gfile.exists(file):
        raise FileNotFoundError(f"{file}: no such file: correct the path")
    if tf.io.gfile.isdir(file):
        raise InputError(f"{file} is a folder: name a file in it")
    with tf.io.gfile.GFile(file, "rb") as stored, open_decompressed(file, stored) as opened:
        return opened.read()


def read_text(file: str | os.PathLike) -> str:
    """The text of a file, without the byte order mark that it may begin with.

    Args:
      file: as `read_data_bytes` takes it; UTF-8, not empty.
    """
    file = os.fspath(file)
    text = decode_text(read_data_bytes(file), file)
    if not text.strip():
        raise InputError(f"{file} is empty: correct the path, or write it")
    return text


def read_lines(file: str | os.PathLike) -> list[str]:
    """The lines of a file, as `split_table_lines` has them."""
    return split_table_lines(read_text(file))


def split_table_lines(text: str) -> list[str]:
    """The lines of a text, which end as Python's universal newlines do, not at Unicode's other breaks."""
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")


def read_json_data(file: str | os.PathLike) -> dict[str, Any]:
    """The object that a JSON file holds."""
    return json_object(read_text(file).encode(), file, is_data=True)


def read_json_lines(file: str | os.PathLike) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects that a file holds, one a line, with the lines' numbers from 1; blank lines are skipped."""
    for number, line in enumerate(read_lines(file), start=1):
        if line.strip():
            yield number, json_object(line.encode(), f"{os.fspath(file)}:{number}", is_data=True)


def field(value: Any, name: str, kind: type, where: str) -> Any:
    """The value of a JSON object under a name; an InputError if it is missing or of another type."""
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise InputError(f"{where}: {name!r} is missing or not of type {kind.__name__}: {shorten(found)}")
    return found


_CODE = re.compile(r"-?0\d")
_DIGITS_OF_FLOAT = 15  # that a float64 keeps of any whole number


def _pyarrow(file: str) -> Any:
    """The package with its module of Parquet; an InputError where it is missing."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise InputError(f"{file}: Parquet needs pyarrow: pip install pyarrow") from None
    return pyarrow


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


# The cell of a JSON object that has no field of this name; None is null.
ABSENT = object()

# The quote at the beginning of a cell between tabs.
_OPENING_QUOTE = re.compile(r'(?:^|[\t\r\n])"')


class Row(NamedTuple):
    """A row of a table."""

    line: int  # where it begins, from 1; of Parquet the row's number
    cells: Sequence[Any]  # in the order of the columns; ABSENT where JSON has no such field


@dataclasses.dataclass(frozen=True)
class Table:
    """The rows of a file under the names of their columns."""

    file: str
    columns: tuple[str, ...]
    rows: Sequence[Row] = dataclasses.field(repr=False)
    schema: Any = dataclasses.field(default=None, repr=False)  # of pyarrow, where the file is Parquet

    def __post_init__(self) -> None:
        """An InputError where a row has another number of cells."""
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                names = f"columns: {len(self.columns)} ({join_words(map(shorten, self.columns))})"
                remedy = _separator_remedy(self.file, ",".join(self.columns))
                if not remedy and len(row.cells) > len(self.columns) and table_ending(self.file) == ".csv":
                    remedy = ": a cell with a comma stands in quotes, with no space before them"
                raise InputError(f"{self.file}:{row.line}: cells: {len(row.cells)}, and {names}{remedy}")

    def number(self, column: str, argument: str | None = None) -> int:
        """The number of the column that an argument names; an InputError if none or several are called so."""
        if self.columns.count(column) != 1:
            problem = "several columns are called" if column in self.columns else "there is no column"
            asked = repr(column) if argument is None else f"{argument}={column!r}"
            there = f"names its columns, here {join_words(map(shorten, self.columns))}"
            remedy = _separator_remedy(self.file, ",".join(self.columns))
            raise InputError(f"{self.file}: {problem} {asked}: the first line of a table {there}{remedy}")
        return self.columns.index(column)

    def extended(self, columns: Mapping[str, Sequence[Any]]) -> Table:
        """The table with further columns, whose names are new."""
        added = zip(*columns.values(), strict=True)
        rows = [Row(row.line, [*row.cells, *cells]) for row, cells in zip(self.rows, added, strict=True)]
        return dataclasses.replace(self, columns=(*self.columns, *columns), rows=rows)


def table_ending(file: str | os.PathLike) -> str:
    """The ending of a file's name in lower case, without the `.gz` of compressed files."""
    return os.path.splitext(os.fspath(file).removesuffix(GZIP_SUFFIX))[1].lower()  # noqa: PTH122


def read_table(files: Paths) -> Table:
    """A table in the format that a file's name ends in: .csv, .tsv, .jsonl or .parquet, and perhaps .gz.

    CSV and TSV name their columns in the first line, without spaces around them; of JSON lines the fields are
    the columns. Blank lines are skipped. Several files, or globs, are one table under the name of the first.
    An InputError if a name ends otherwise, a row does not fit, or files have other columns.
    """
    return joined_tables([TABLE_ENDINGS[known_ending(file)](file) for file in distinct_paths(files)])


def joined_tables(tables: Sequence[Table]) -> Table:
    """The rows of tables one after the other; an InputError where one lacks a column of the others."""
    if len(tables) == 1:
        return tables[0]
    columns, rows = tuple(dict.fromkeys(name for table in tables for name in table.columns)), []
    for table in tables:
        places = {name: table.number(name) for name in table.columns}
        may_lack = table_ending(table.file) == ".jsonl"
        if missing := [name for name in columns if name not in places and not may_lack]:
            raise InputError(f"{table.file}: there is no column {missing[0]!r}, which other files have")
        for row in table.rows:
            cells = [row.cells[places[name]] if name in places else ABSENT for name in columns]
            rows.append(Row(row.line, cells))
    return dataclasses.replace(tables[0], columns=columns, rows=rows)


def known_ending(file: str) -> str:
    """The ending of a file's name, a key of FORMATS; an InputError where it is none."""
    ending = table_ending(file)
    if ending not in TABLE_ENDINGS:
        raise InputError(
            f"{file} is no table: its name must end in {', '.join(TABLE_ENDINGS)}, or these with .gz"
        )
    return ending


def _read_csv(file: str) -> Table:
    return _headed(file, _parse_rows(file, read_text(file), ","))


def _parse_rows(file: str, text: str, separator: str) -> list[Row]:
    """The rows of a text whose cells may be quoted; an InputError names the line of a wrong quote."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # long documents are beyond the usual limit
    lines = list(io.StringIO(text, newline=""))  # with their ends, which are those of `split_table_lines`
    reader = csv.reader(lines, delimiter=separator, strict=True)
    blank = " \t\r\n".replace(separator, "")
    rows: list[Row] = []
    line = 0
    try:
        for cells in reader:
            if lines[line].strip(blank):  # else pandas skips it, too
                rows.append(Row(line + 1, cells))
            line = reader.line_num
    except csv.Error as error:
        remedy = _separator_remedy(file, lines[0]) or ": write a quote in a quoted cell twice"
        raise InputError(
            f"{file}:{line + 1}: not {table_ending(file)[1:].upper()} ({error}){remedy}"
        ) from None
    return rows


def _separator_remedy(file: str, names: str) -> str:
    """The end of an error about a CSV whose names are separated by something else; else empty."""
    if table_ending(file) != ".csv":
        return ""
    if '";' in names or ';"' in names or (";" in names and "," not in names):
        return ". It is separated by ;: write it with commas, or as .tsv"
    if "\t" in names and "," not in names:
        return ". It is separated by tabs: name it .tsv, or of standard input say --input_format tsv"
    return ""


def _read_tsv(file: str) -> Table:
    """TSV that is quoted as csv and pandas do it, or whose quotes are characters like others.

    It is quoted if its first name is, which `table_text` takes care of; or if its quotes are all right, and
    put no lines together that are rows by themselves.
    """
    text = read_text(file)
    literal = _split_rows(split_table_lines(text))
    if not _OPENING_QUOTE.search(text):
        return _headed(file, literal)
    is_marked = text.startswith('"')
    try:
        table = _headed(file, _parse_rows(file, text, "\t"))
    except InputError as error:
        if is_marked:
            raise
        reason = str(error)
    else:
        are_rows = len({len(row.cells) for row in literal}) == 1
        if is_marked or len(table.rows) == len(literal) - 1 or not are_rows:
            return table
        reason = f"{file}: there are quotes around line breaks, and each line is a row by itself"
    logging.warning("%s. All quotes are read as characters: put one around the first name if not", reason)
    return _headed(file, literal)


def read_tsv(file: str, columns: Sequence[str] | None = None, broken_lines: bool = False) -> Table:
    """A table of cells between tabs, in which quotes are characters like others; errors as of `read_table`.

    Columns have names where no first line has them. With `broken_lines` cells may hold line breaks: rows that
    are too short go on in the next line.
    """
    rows = _split_rows(read_lines(file), broken_lines)
    header = [] if columns is None else [Row(0, columns)]
    return _headed(file, [*header, *(_joined(rows) if broken_lines else rows)])


def _split_rows(lines: Sequence[str], keeps_blank: bool = False) -> list[Row]:
    """The rows of lines, in which each tab is between two cells."""
    return [
        Row(number, line.split("\t"))
        for number, line in enumerate(lines, start=1)
        if keeps_blank or line.strip(" ")  # tabs are a row of empty cells
    ]


def _joined(lines: Sequence[Row]) -> Iterator[Row]:
    """Rows as long as the first, put together from lines that line breaks in cells have made of them."""
    begun: Row | None = None
    for row in lines:
        if begun is not None:
            first, *others = row.cells
            row = Row(begun.line, [*begun.cells[:-1], f"{begun.cells[-1]} {first}", *others])
        elif row.cells == [""]:  # a blank line, which is in no cell
            continue
        begun = row if len(row.cells) < len(lines[0].cells) else None
        if begun is None:
            yield row
    if begun is not None:
        yield begun


def _headed(file: str, rows: Sequence[Row]) -> Table:
    """The table of rows, the first of which names the columns."""
    return Table(file, tuple(name.strip() for name in rows[0].cells), rows[1:])


def read_json_table(file: str) -> Table:
    """A table of JSON lines, whatever the file's name ends in; errors are those of `read_table`."""
    objects = list(read_json_lines(file))
    columns = tuple(dict.fromkeys(name for _, value in objects for name in value))
    return Table(
        file, columns, [Row(line, [value.get(name, ABSENT) for name in columns]) for line, value in objects]
    )


def table_text(table: Table, ending: str) -> str | bytes:
    """The text of a file that `read_table` reads as this table; of Parquet its bytes.

    CSV and TSV have what is no text, such as a list, as JSON, and nothing for null or an absent field. Values
    that JSON does not know, such as dates, are spelled as by `str`. In Parquet the cells of CSV and TSV are
    numbers and truth values where a whole column is. An InputError names what cannot be
    written: columns of one name in JSON lines and Parquet.
    """
    if ending in NESTED:
        for name in table.columns:
            table.number(name)
    if ending == ".parquet":
        values = [[None if cell is ABSENT else cell for cell in row.cells] for row in table.rows]
        columns = {name: [row[place] for row in values] for place, name in enumerate(table.columns)}
        are_nested = table_ending(table.file) in NESTED
        return parquet_content(table.file, columns, table.schema, infers=not are_nested)
    if ending == ".jsonl":
        lines = []
        for row in table.rows:
            cells = zip(table.columns, row.cells, strict=True)
            line = {name: value for name, value in cells if value is not ABSENT}
            check_json(line, f"{table.file}:{row.line}", is_data=True)  # Parquet may have infinity
            lines.append(dump_json(line, default=spell_cell) + "\n")
        return "".join(lines)
    separator = "," if ending == ".csv" else "\t"
    names = csv_text([table.columns], separator)
    text = csv_text((map(spell_cell, row.cells) for row in table.rows), separator)
    if ending == ".tsv" and '"' in names + text:  # which tells `_read_tsv` that it is quoted
        names = csv_text([table.columns], separator, quotes_all=True)
    return names + text


def spell_cell(cell: Any) -> str:
    """A cell as CSV and TSV have it: nothing for null, numbers and lists as JSON, dates as by `str`."""
    if isinstance(cell, str):
        return cell
    if cell is None or cell is ABSENT:
        return ""
    if isinstance(cell, decimal.Decimal):
        return format(cell, "f")  # `str` may take an exponent
    is_plain = not isinstance(cell, bool | int | float | list | dict)  # a date, for example
    return str(cell) if is_plain else json.dumps(cell, ensure_ascii=False, default=spell_cell)


def _read_parquet(file: str) -> Table:
    pyarrow, content = _pyarrow(file), read_data_bytes(file)
    try:
        table = pyarrow.parquet.read_table(io.BytesIO(content))
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{file} cannot be read as Parquet: {error}") from None
    named = zip(table.column_names, table.columns, strict=True)
    cells = zip(*(_python_values(file, name, column) for name, column in named), strict=True)
    rows = [Row(number, row) for number, row in enumerate(cells, start=1)]
    return Table(file, tuple(table.column_names), rows, table.schema)


TABLE_ENDINGS: dict[str, Callable[[str], Table]] = {
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".jsonl": read_json_table,
    ".parquet": _read_parquet,
}
NESTED = (".jsonl", ".parquet")  # formats whose cells may be lists
