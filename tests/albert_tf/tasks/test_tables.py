import csv
import datetime
import decimal
import gzip
import json

import numpy as np
import pandas
import pyarrow
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from albert_tf.errors import InputError
from albert_tf.tasks.columns import Columns, read_text_records, read_user_table, table_prediction_writer
from albert_tf.tasks.examples import label_of, label_set
from albert_tf.tasks.formats import OutputFormat
from albert_tf.tasks.tables import ABSENT, Row, Table, read_table, read_tsv, table_text
from albert_tf.tasks.task import Prediction
from tests.tiny import write_jsonl


def cells(table):
    return [(row.line, list(row.cells)) for row in table.rows]


LONG = "word " * 100_000  # beyond the csv module's own limit


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", '\ufefftext , label\r\n"a ""b"", c",1\r\n"two\r\nlines",0\r\n,1\r\nplain\u2028x,0',
         [(2, ['a "b", c', "1"]), (3, ["two\r\nlines", "0"]), (5, ["", "1"]), (6, ["plain\u2028x", "0"])]),
        ("a.csv", f'text,label\n"{LONG}",1\n', [(2, [LONG, "1"])]),
        ("a.TSV", 'text\t label\n"open\t1\n"a" b""\t0\r\n', [(2, ['"open', "1"]), (3, ['"a" b""', "0"])]),
        # Quotes as to_csv(sep="\t") writes them, and cells that are rows by themselves.
        ("a.tsv", 'text\tlabel\n"""a"""\t1\n"a ""b""\n"\t"0"\n', [(2, ['"a"', "1"]), (3, ['a "b"\n', "0"])]),
        ("a.tsv", 'text\tlabel\n"open\t1\nclose"\t0\n', [(2, ['"open', "1"]), (3, ['close"', "0"])]),
        ("a.tsv", '"text"\tlabel\n"open\t1\nclose"\t0\n', [(2, ["open\t1\nclose", "0"])]),
        # Line ends of old Macs.
        ("a.csv", 'text,label\ra,1\r\r"b\rc",0', [(2, ["a", "1"]), (4, ["b\rc", "0"])]),
        ("a.tsv", "text\tlabel\ra\t1\r\rb\t0", [(2, ["a", "1"]), (4, ["b", "0"])]),
        ("a.jsonl", '{"text": "a", "label": 1}\r{"text": "b", "label": 0}\r', [(1, ["a", 1]), (2, ["b", 0])]),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"label": 2.5, "text": "b"}\n',
         [(1, ["a", 1]), (2, ["b", 2.5])]),
        # Blank lines.
        ("a.csv", "\ntext,label\n\na,1\r\n \t\r\nb,2\n\n\n", [(4, ["a", "1"]), (6, ["b", "2"])]),
        ("a.tsv", "\ntext\tlabel\n\na\t1\n  \n\t\nb\t2\n\n",
         [(4, ["a", "1"]), (6, [""] * 2), (7, ["b", "2"])]),
        ("a.jsonl", '\n{"text": "a", "label": 1}\n \n{"text": "b"}\n\n', [(2, ["a", 1]), (4, ["b", ABSENT])]),
    ],
)  # fmt: skip
def test_rows(file, name, content, expected):
    table = read_table(file(content, name))
    assert table.columns == ("text", "label")
    assert cells(table) == expected
    packed = gzip.compress(content.encode())
    assert cells(read_table(file(packed, f"{name}.gz"))) == expected
    with pytest.raises(InputError, match=rf"{name}\.gz"):
        read_table(file(packed[:-9], f"{name}.gz"))


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('{"text": "b", "x": 1e400}', r"\['x'\]: inf "),
        ('{"text": "b\\ud83d"}', r"\['text'\]: '\\ud83d' "),
        ('{"text": "b", "x": {"y": ["\\ude00\\ud83d"]}}', r"\['x'\]\['y'\]\[0\]: "),
        (f'{{"text": "b", "x": {10**50}}}', rf"\['x'\]: {10**50} "),
        (f'{{"text": "b", "x": {"7" * 5000}}}', "4300"),
        ("[" * 100_000, "nested too deeply"),
        ('{"text": "a", "text": "b"}', "the key 'text' is there 2 times: leave one"),
    ],
)
def test_a_row_that_cannot_be_written_again_is_named(file, line, named):
    with pytest.raises(InputError, match=rf"data\.jsonl:2: .*{named}") as error:
        read_table(file(f'{{"text": "a"}}\n{line}\n', "data.jsonl"))
    assert "\n" not in str(error.value)


def test_a_cell_of_parquet_that_python_cannot_hold_is_named(tmp_path):
    half = pyarrow.array([b"a", b"\xed\xa0\xbd", b"c"]).view(pyarrow.string())  # as Java writes surrogates
    late = pyarrow.array([0, 0, 2**50]).view(pyarrow.timestamp("ms"))
    for column, row in ((half, 2), (late, 3)):
        parquet.write_table(pyarrow.table({"text": ["a", "b", "c"], "x": column}), tmp_path / "a.parquet")
        with pytest.raises(InputError, match=rf"a\.parquet:{row}: the cell under 'x'"):
            read_table(tmp_path / "a.parquet")


def test_numbers_of_parquet_that_json_lacks(tmp_path):
    """What is missing is null; infinity stays where the format has it."""
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"x": [1.5, float("nan")], "y": [[0.5], [float("nan")]]}), path)
    rows = [json.loads(line) for line in table_text(read_table(path), ".jsonl").splitlines()]
    assert rows == [{"x": 1.5, "y": [0.5]}, {"x": None, "y": [None]}]
    parquet.write_table(pyarrow.table({"x": [1.5, float("-inf")]}), path)
    with pytest.raises(InputError, match=r"a\.parquet:2: \['x'\]: -inf "):
        table_text(read_table(path), ".jsonl")
    (tmp_path / "a.csv").write_text(table_text(read_table(path), ".csv"))
    assert pandas.read_csv(tmp_path / "a.csv")["x"].tolist() == [1.5, float("-inf")]
    (tmp_path / "b.parquet").write_bytes(table_text(read_table(path), ".parquet"))
    assert parquet.read_table(tmp_path / "b.parquet").equals(parquet.read_table(path))


def test_numbers_that_a_float_cannot_hold_stay_texts_in_parquet(file, tmp_path):
    cells = {"id": 10**50, "big": 2**63, "far": "1e400", "whole": f"{2**53 + 1}.0"}
    table = read_table(file(f"{','.join(cells)}\n{','.join(map(str, cells.values()))}\n"))
    (tmp_path / "a.parquet").write_bytes(table_text(table, ".parquet"))
    found = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert found == [{name: str(cell) for name, cell in cells.items()}]
    numbers = read_table(file(f'{{"n": {2**64 - 1}}}\n{{"n": -1}}\n', "data.jsonl"))
    with pytest.raises(InputError, match=r"data\.jsonl: .*'n'"):
        table_text(numbers, ".parquet")


def test_blank_lines_of_one_column(file):
    assert cells(read_table(file('text\na\n\n""\nb\n'))) == [(2, ["a"]), (4, [""]), (5, ["b"])]


def test_a_file_without_a_header(file):
    """Its first row is taken for the names of the columns: an error shows how it begins, in one line."""
    with pytest.raises(InputError, match=r"'text'.*'word word") as error:
        read_text_records(read_table(file(f'"{LONG}",1\nb,0\n')), Columns("text"))
    assert len(str(error.value)) < 300


def test_rows_broken_by_line_feeds(file):
    content = "id\tq1\tq2\tsame\n0\ta\tb\t1\n1\tbroken\nhere \tc\t0\n2\td\te\n\n\t1\n"
    table = read_tsv(str(file(content)), broken_lines=True)
    assert cells(table) == [
        (2, ["0", "a", "b", "1"]),
        (3, ["1", "broken here ", "c", "0"]),
        (5, ["2", "d", "e  ", "1"]),
    ]
    for ending in ("1\ta\n", "1\ta\nb\tc\td\te\n"):
        with pytest.raises(InputError, match=r"data.csv:2: cells: \d, and columns: 4"):
            read_tsv(str(file("id\tq1\tq2\tsame\n" + ending)), broken_lines=True)


@pytest.mark.parametrize(
    ("name", "content", "value"),
    [
        ("data.csv", "text,label\na,1\nb\n", "data.csv:3"),
        ("data.csv", 'text,label\na,1\n"b"c,1\n', "data.csv:3"),
        ("data.csv", 'text,label\na,1\n"b,1\nc,0\n', "data.csv:3"),
        ("data.tsv", "text\tlabel\na\tb\t1\n", "data.tsv:2"),
        ("data.csv", "text\na,b\n", r"data.csv:2: cells: 2, and columns: 1 \('text'\)"),
        ("data.csv", "text;label\na;b,c\n", "columns: 1 .*separated by ;"),
        ("data.csv", '"text";"label"\n"a, b";"c"\n', r"data.csv:1: .*separated by ;: write it with commas"),
        ("data.tsv", '"text"\t"label"\n"a"b\t1\n', "data.tsv:2"),
        ("data.txt", "text,label\na,1\n", "data.txt.*.csv, .tsv, .jsonl"),
    ],
)
def test_bad_tables(file, name, content, value):
    with pytest.raises(InputError, match=value):
        read_table(file(content, name))


def test_records(file):
    read = file('{"t": "a", "n": 1}\n{"n": [" b "], "t": true}\n{"t": "", "n": " c "}', "data.jsonl")
    found = read_user_table(read, True, Columns("t", label="n"), has_lists=True)
    assert [record[1:] for record in found] == [
        (1, "0", "a", None, ("1",)),
        (2, "1", "true", None, (" b ",)),
        (3, "2", "", None, ("c",)),
    ]


def test_a_missing_text_is_an_empty_one(file, tmp_path):
    """In each format; and a missing label is none."""
    path = tmp_path / "data.parquet"
    texts, numbers = ["a", None, "c"], pyarrow.array([1.0, 2.0, float("nan")])
    parquet.write_table(pyarrow.table({"text": texts, "n": numbers}), path)
    lines = '{"text": "a", "n": 1.0}\n{"text": null, "n": 2.0}\n{"text": "c", "n": NaN}\n'
    for read in (file("text,n\na,1.0\n,2.0\nc,\n"), file(lines, "data.jsonl"), path):
        records = read_user_table(read, True, Columns("text", label="n"))
        assert [(record.text, record.label) for record in records] == [("a", "1.0"), ("", "2.0"), ("c", None)]
    pairs = read_text_records(read_table(file('{"a": "x"}\n{"b": "y"}', "data.jsonl")), Columns("a", "b"))
    assert [(record.text, record.text_pair) for record in pairs] == [("x", ""), ("", "y")]


def test_a_table_without_rows_has_nothing_to_learn(file, tmp_path):
    table = file("text,label\n")
    assert read_user_table(table, False, Columns("text", label="label")) == []
    with pytest.raises(InputError, match=r"data\.csv has no rows"):
        read_user_table(table, True, Columns("text", label="label"))


@pytest.mark.parametrize(
    ("content", "columns", "value"),
    [
        ('{"a": "x", "b": "y"}', Columns("c"), r"'c'.*'a', 'b'"),
        ('{"a": "x", "b": ["y"]}', Columns("a", "b"), r"data.jsonl:1: .*'b'"),
        ('{"a": "x"}', None, "`text`"),
    ],
)
def test_bad_columns(file, content, columns, value):
    with pytest.raises(InputError, match=value):
        read_user_table(file(content, "data.jsonl"), False, columns)


def test_columns_that_are_mistaken(file):
    with pytest.raises(InputError, match=r"no column text='text'.*separated by ;"):
        read_text_records(read_table(file("text;label\na;b\n")), Columns("text"))
    table = file("text,label\na,b\n")
    assert read_user_table(table, False, Columns("text", label="text"))[0].label is None
    with pytest.raises(InputError, match="`label` text is the column of the texts, too"):
        read_user_table(table, True, Columns("text", label="text"))
    table = read_table(file("text\tlabel\na\tb\n"))
    with pytest.raises(InputError, match=r"no column text='text'.*separated by tabs: name it \.tsv"):
        read_text_records(table, Columns("text"))


def test_parquet(tmp_path):
    """Rows are pyarrow's, null as of JSON lines, and what is written has the types of what was read."""
    day = datetime.date(2024, 2, 29)
    columns = {
        "text": ["a", "b\n"],
        "n": pyarrow.array([1, None], "int32"),
        "day": [day, None],
        "tags": [["x"], []],
    }
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    table = read_table(path)
    assert cells(table) == [(1, ["a", 1, day, ["x"]]), (2, ["b\n", None, None, []])]
    records = read_user_table(path, True, Columns("text", label="n"))
    assert [(record.text, record.label) for record in records] == [("a", "1"), ("b\n", None)]
    again = tmp_path / "b.parquet"
    again.write_bytes(table_text(table.add_columns({"score": [0.5, 0.25]}), ".parquet"))
    found = parquet.read_table(again)
    assert found.drop_columns("score").equals(parquet.read_table(path))
    assert found["score"].to_pylist() == [0.5, 0.25]
    assert table_text(table, ".csv") == 'text,n,day,tags\na,1,2024-02-29,"[""x""]"\n"b\n",,,[]\n'
    assert '"day": "2024-02-29"' in table_text(table, ".jsonl")
    mixed = Table("c.jsonl", ("x",), [Row(1, [1]), Row(2, ["y"])])
    with pytest.raises(InputError, match=r"c\.jsonl: .*'x'.* several types .*name a \.csv"):
        table_text(mixed, ".parquet")


def test_parquet_keeps_what_pandas_wrote(tmp_path):
    frame = pandas.DataFrame(
        {"text": ["a", "b"], "n": pandas.array([1, None], "Int64"), "kind": pandas.Categorical(["x", "y"])},
        index=pandas.Index([7, 9], name="key"),
    )
    frame.to_parquet(tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet").add_columns({"prediction": ["x", "y"]})
    (tmp_path / "b.parquet").write_bytes(table_text(table, ".parquet"))
    found = pandas.read_parquet(tmp_path / "b.parquet")
    pandas.testing.assert_frame_equal(found[list(frame)], frame)
    assert found["prediction"].tolist() == ["x", "y"]


def test_texts_of_csv_are_numbers_in_parquet(file, tmp_path):
    table = read_table(file("text,n,x,code,is,none,mixed\na,1,0.5,007,true,,1\nb,,2,12,false,,z\n"))
    (tmp_path / "a.parquet").write_bytes(table_text(table, ".parquet"))
    assert parquet.read_table(tmp_path / "a.parquet").to_pydict() == {
        "text": ["a", "b"],
        "n": [1, None],
        "x": [0.5, 2.0],
        "code": ["007", "12"],
        "is": [True, False],
        "none": ["", ""],
        "mixed": ["1", "z"],
    }


def test_codes_of_csv_are_texts_in_parquet(file, tmp_path):
    """Though Python reads them as numbers."""
    columns = {"phone": ["+491512", "+4930"], "serial": ["0x1F", "0xFF"], "word": ["inf", "NaN"]}
    lines = [",".join(columns), *(",".join(row) for row in zip(*columns.values(), strict=True))]
    (tmp_path / "a.parquet").write_bytes(table_text(read_table(file("\n".join(lines))), ".parquet"))
    assert parquet.read_table(tmp_path / "a.parquet").to_pydict() == columns


def test_what_is_no_parquet(tmp_path, monkeypatch):
    for content in (b"text,label\na,b\n", b"PAR1" + bytes(40) + b"PAR1"):
        (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(InputError, match=r"a\.parquet cannot be read as Parquet"):
            read_table(tmp_path / "a.parquet")
    with pytest.raises(FileNotFoundError, match=r"c\.parquet"):
        read_table(tmp_path / "c.parquet")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(InputError, match=r"a\.parquet: .*pip install pyarrow"):
        read_table(tmp_path / "a.parquet")


def test_several_files_are_one_table(tmp_path):
    for name, content in (("b.csv", "label,text\n1,x\n"), ("a.csv", "text,label\ny,2\n"),
                          ("c.jsonl", '{"text": "z"}\n'), ("d.csv", "text\nw\n")):  # fmt: skip
        (tmp_path / name).write_text(content)
    table = read_table([f"{tmp_path}/[ab].csv", tmp_path / "c.jsonl"])
    assert (table.file, table.columns) == (f"{tmp_path}/a.csv", ("text", "label"))
    assert cells(table) == [(2, ["y", "2"]), (2, ["x", "1"]), (1, ["z", ABSENT])]
    for files, error, message in (
        (["a.csv", "d.csv"], InputError, r"d\.csv: there is no column 'label'"),
        (["[ab].csv", "a.csv"], InputError, r"a\.csv is given twice"),
        (["no*.csv"], FileNotFoundError, r"no\*\.csv"),
        ([], FileNotFoundError, "empty list"),
    ):
        with pytest.raises(error, match=message):
            read_table([f"{tmp_path}/{file}" for file in files])


def test_written_rows_are_those_that_were_read(file):
    for name, content in (
        ("data.csv", 'text,n\n"a ""b"", c",1\n"two\nlines",\n'),
        ("data.tsv", "text\tn\na \t1\n\u2028é\t\n"),
        ("data.tsv", '"text"\t"n"\n"""a"\t1\n"\r\t\n"\t\n'),
        ("data.jsonl", '{"text": "é\\n", "n": 1}\n{"text": "b", "n": null, "x": [1, {"y": null}]}\n'),
    ):
        assert table_text(read_table(file(content, name)), name[4:]) == content
    rows = [Row(n + 2, cells) for n, cells in enumerate([["", '"'], ["\r\n", ","], [" ", "é\u2028"]])]
    path = file(table_text(Table("data.csv", ("a", 'b "c"'), rows), ".csv"))
    assert [list(row.cells) for row in read_table(path).rows] == [list(row.cells) for row in rows]


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])) | st.text(
    '\r\n\t",; a\ufeff\xa0'
)


@st.composite
def text_tables(draw):
    width = draw(st.integers(1, 3))
    names = st.lists(TEXT.map(str.strip).filter(bool), min_size=width, max_size=width, unique=True)
    rows = draw(st.lists(st.lists(TEXT, min_size=width, max_size=width), max_size=4))
    return Table("a.csv", tuple(draw(names)), [Row(n, row) for n, row in enumerate(rows)])


@settings(max_examples=200, deadline=None)
@given(text_tables(), st.sampled_from([(".csv", ","), (".tsv", "\t")]))
@example(Table("a", ("a", "b"), [Row(1, ["x\ty\nz", ""]), Row(2, ['"', "\r"])]), (".tsv", "\t"))
@example(Table("a", ("a",), [Row(1, [""]), Row(2, [" "]), Row(3, ["\n"]), Row(4, ['"'])]), (".tsv", "\t"))
@example(Table("a", ("\ufeffa",), [Row(1, [""]), Row(2, [" "]), Row(3, ["\t"])]), (".csv", ","))
def test_any_texts_are_read_as_they_were_written(tmp_path_factory, table, kind):
    """By us, by csv and by pandas; nothing here depends on the version of Python's own writer."""
    ending, separator = kind
    path = tmp_path_factory.getbasetemp() / f"any{ending}"
    path.write_bytes(table_text(table, ending).encode())
    expected = [list(table.columns), *(list(row.cells) for row in table.rows)]
    found = read_table(path)
    assert [list(found.columns), *(list(row.cells) for row in found.rows)] == expected
    with path.open(encoding="utf-8", newline="") as opened:
        assert list(csv.reader(opened, delimiter=separator, strict=True)) == expected
    frame = pandas.read_csv(path, sep=separator, header=None, dtype=str, keep_default_na=False)
    assert frame.to_numpy().tolist() == expected


@settings(max_examples=100, deadline=None)
@given(text_tables(), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_what_pandas_writes_is_read(tmp_path_factory, table, quoting):
    """But a line break of a cell in a TSV whose names are not quoted may make rows."""
    path, rows = tmp_path_factory.getbasetemp() / "pandas.tsv", [list(row.cells) for row in table.rows]
    if quoting == csv.QUOTE_MINIMAL:
        rows = [[cell.replace("\n", " ").replace("\r", " ") + "." for cell in row] for row in rows]
    frame = pandas.DataFrame(rows, columns=[f"n{n}" for n in range(len(table.columns))])
    frame.to_csv(path, sep="\t", index=False, quoting=quoting)
    assert [list(row.cells) for row in read_table(path).rows] == rows


def test_labels_of_any_type_are_spelled_alike(file, tmp_path):
    """In CSV, JSON lines and Parquet, by their own spelling there; alone, and in a list of several."""
    values = {
        "true": ("True", True), "1": ("1.0", 1), "0.5": ("0.5", 0.5), "a b": (" a b", "a b "),
        "2.50": ("2.50", decimal.Decimal("2.50")), "0": ("0.00000000", decimal.Decimal("0E-8")),
        "2024-02-29": ("2024-02-29", datetime.date(2024, 2, 29)),
        "2024-02-29 01:02:03": ("2024-02-29 01:02:03", pandas.Timestamp("2024-02-29 01:02:03")),
    }  # fmt: skip
    columns = Columns("text", label="label")
    for expected, (text, value) in values.items():
        parquet.write_table(pyarrow.table({"text": ["a"], "label": [value]}), tmp_path / "a.parquet")
        parquet.write_table(pyarrow.table({"text": ["a"], "label": [[value]]}), tmp_path / "list.parquet")
        sources = [file(f"text,label\na,{text}\n"), tmp_path / "a.parquet"]
        lists = [*sources, tmp_path / "list.parquet"]
        if isinstance(value, str | int | float):
            sources.append(file(json.dumps({"text": "a", "label": value}), "a.jsonl"))
            lists += [sources[-1], file(json.dumps({"text": "a", "label": [value]}), "list.jsonl")]
        assert [label_of(read_user_table(source, True, columns)[0]) for source in sources] == [
            expected
        ] * len(sources)
        found = [label_set(read_user_table(source, True, columns, has_lists=True)[0]) for source in lists]
        assert found == [(expected,)] * len(lists)


def test_labels_in_lists(file):
    lines = [{"text": "a", "label": label} for label in (["R|D", 3, True, "3.0"], ["x", ""], [], "a|b", None)]
    source = file("\n".join(map(json.dumps, lines)), "a.jsonl")
    records = read_user_table(source, True, Columns("text", label="label"), has_lists=True)
    assert list(map(label_set, records)) == [("R|D", "3", "true"), ("x",), (), ("a", "b"), ()]
    # Written as CSV they are read again.
    source.with_suffix(".csv").write_text(table_text(read_table(source), ".csv"))
    again = read_user_table(source.with_suffix(".csv"), True, Columns("text", label="label"), has_lists=True)
    assert list(map(label_set, again)) == list(map(label_set, records))


@pytest.mark.parametrize(
    ("separator", "cell", "labels"),
    [
        (None, "a; b;a", ("a", "b")),
        (None, "a|b, c", ("a", "b, c")),
        (",", " a,b;c,", ("a", "b;c")),
        ("|", "a;b|c", ("a;b", "c")),
        (".", '["a.b"]', ("a.b",)),
        (";", " ", ()),
    ],
)
def test_labels_in_a_cell(file, separator, cell, labels):
    source = file(table_text(Table("a.csv", ("text", "label"), [Row(2, ["x", cell])]), ".csv"))
    columns = Columns("text", label="label", label_separator=separator)
    (record,) = read_user_table(source, True, columns, has_lists=True)
    assert label_set(record) == labels
    # Predictions of these labels are written so that they are read again.
    write = table_prediction_writer(read_table(source), ".csv", OutputFormat(label_separator=separator))
    (content,) = write([Prediction(labels, np.float32(1))]).values()
    (again,) = read_user_table(file(content), True, columns._replace(label="prediction"), has_lists=True)
    assert label_set(again) == labels


def test_a_separator_where_a_text_has_one_label(file):
    with pytest.raises(InputError, match="`label_separator`: of no use"):
        read_user_table(file("text,label\na,b\n"), True, Columns("text", label="label", label_separator=","))


@pytest.mark.parametrize(
    ("label", "has_lists", "value"),
    [
        (["good"], False, "list.*multi_label"),
        ({"a": 1}, False, "dict"),
        (["ok", None], True, "null"),
        (["ok", float("nan")], True, "null"),
        (["ok", ["x"]], True, "list"),
        ({"a": 1}, True, "dict"),
        (b"good", False, "bytes"),
        ([b"good"], True, "bytes"),
        ("['a', 'b']", True, "JSON"),  # as pandas writes a list
        (r'["\ud800"]', True, r"'label': \[0\]: '\\ud800' is half a character"),
        ("[1e400]", True, "inf is not a finite number"),
        ("[36893488147419103232]", True, "64 bits"),
    ],
)
def test_labels_of_no_type_that_is_spelled(label, has_lists, value):
    table = Table("a.parquet", ("text", "label"), [Row(1, ["a", None]), Row(2, ["b", label])])
    with pytest.raises(InputError, match=rf"a\.parquet:2: .*{value}"):
        read_text_records(table, Columns("text", label="label"), has_lists)


@pytest.mark.parametrize("label", ["[draft]", "[" * 100_000])
def test_a_label_that_begins_as_a_list_and_is_none(label):
    table = Table("a.csv", ("text", "label"), [Row(1, ["a", label])])
    (record,) = read_text_records(table, Columns("text", label="label"), True)
    assert label_set(record) == (label,)


def test_columns_that_are_needed_are_named(tmp_path):
    (tmp_path / "a.csv").write_text("t,l\na,b\n")
    for needs_labels, columns, named in (
        (True, None, "`text` and `label`"), (False, None, "`text`"), (True, Columns("t"), "`label`"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=f"name them by {named}$"):
            read_user_table(tmp_path / "a.csv", needs_labels, columns)


def test_parquet_of_files_whose_types_differ(tmp_path):
    """The first file's column is empty, or of whole numbers."""
    for number, (note, size) in enumerate((([None], [1]), (["x"], [2.5]))):
        table = pyarrow.table({"text": ["a"], "note": note, "size": size})
        pyarrow.parquet.write_table(table, tmp_path / f"{number}.parquet")
    read = read_table([str(tmp_path / f"{number}.parquet") for number in range(2)])
    (tmp_path / "both.parquet").write_bytes(table_text(read, ".parquet"))
    found = pyarrow.parquet.read_table(tmp_path / "both.parquet").to_pydict()
    assert found == {"text": ["a", "a"], "note": [None, "x"], "size": [1, 2.5]}


def test_what_parquet_cannot_hold_and_bytes_in_text(tmp_path):
    write_jsonl(tmp_path / "a.jsonl", [{"text": "a", "meta": {}}])
    with pytest.raises(InputError, match=r"Parquet cannot hold this table.*name a \.csv or \.jsonl"):
        table_text(read_table(str(tmp_path / "a.jsonl")), ".parquet")
    pyarrow.parquet.write_table(pyarrow.table({"id": ["é".encode()]}), tmp_path / "b.parquet")
    assert table_text(read_table(str(tmp_path / "b.parquet")), ".csv").split() == ["id", "é"]
