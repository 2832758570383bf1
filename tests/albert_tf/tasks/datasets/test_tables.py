import gzip

import pytest

from albert_tf.tasks.datasets.columns import Columns, own_records, text_records
from albert_tf.tasks.datasets.tables import Row, Table, read_table, read_tsv, table_text
from albert_tf.utils.errors import InputError


@pytest.fixture
def file(tmp_path):
    def write(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def cells(table):
    return [(row.line, list(row.cells)) for row in table.rows]


def test_csv_is_quoted_as_rfc_4180_says(file):
    content = '\ufefftext,label\r\n"a ""b"", c",1\r\n"two\r\nlines",0\r\n,1\r\nplain\u2028x,0'
    table = read_table(file(content))
    assert table.columns == ("text", "label")
    assert cells(table) == [
        (2, ['a "b", c', "1"]),
        (3, ["two\r\nlines", "0"]),
        (5, ["", "1"]),
        (6, ["plain\u2028x", "0"]),
    ]


def test_quotes_of_tsv_are_literal(file):
    table = read_table(file('text\tlabel\n"open\t1\n"a" b""\t0\r\n', "data.TSV"))
    assert cells(table) == [(2, ['"open', "1"]), (3, ['"a" b""', "0"])]


def test_json_lines(file):
    table = read_table(file('{"t": "a", "n": 1}\n{"n": 2.5, "t": "b", "x": true}\n', "data.jsonl"))
    assert table.columns == ("t", "n", "x")
    assert cells(table) == [(1, ["a", 1, None]), (2, ["b", 2.5, True])]
    records = text_records(table, Columns("t", label="n"))
    assert [(r.where.rpartition("/")[2], r.id, r.text, r.label) for r in records] == [
        ("data.jsonl:1", "0", "a", "1"),
        ("data.jsonl:2", "1", "b", "2.5"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", "\ntext,n\n\na,1\r\n \t\r\nb,2\n\n\n", [(4, ["a", "1"]), (6, ["b", "2"])]),
        ("a.csv", 'text\na\n\n""\nb\n', [(2, ["a"]), (4, [""]), (5, ["b"])]),
        ("a.csv", 'text\n"a\n\nb"\n\n', [(2, ["a\n\nb"])]),
        ("a.tsv", "\ntext\tn\n\na\t1\n  \n\t\nb\t2\n\n", [(4, ["a", "1"]), (6, ["", ""]), (7, ["b", "2"])]),
        ("a.tsv", "text\na\n\nb\n", [(2, ["a"]), (4, ["b"])]),
        ("a.jsonl", '\n{"text": "a"}\n \n{"text": "b"}\n\n', [(2, ["a"]), (4, ["b"])]),
    ],
)  # fmt: skip
def test_blank_lines_are_skipped_as_pandas_does(file, name, content, expected):
    assert cells(read_table(file(content, name))) == expected


def test_names_of_columns_have_no_spaces_around_them(file):
    table = read_table(file(" text , my label\na, b \n"))
    assert table.columns == ("text", "my label")
    assert cells(table) == [(2, ["a", " b "])]


def test_a_file_without_a_header(file):
    """Its first row is taken for the names of the columns: an error shows how it begins, in one line."""
    review = "I loved every minute of it, " * 200
    with pytest.raises(InputError, match=r"'text'.*'I loved every") as error:
        text_records(read_table(file(f'"{review}",1\nb,0\n')), Columns("text"))
    assert len(str(error.value)) < 300
    with pytest.raises(InputError, match="201 columns") as error:
        read_table(file(f"{review}\nb,0\n"))  # whose commas are not quoted
    assert len(str(error.value)) < 700


@pytest.mark.parametrize(
    ("name", "plain"), [("data.csv", 'text\n"é, a"\n'), ("data.jsonl", '{"text": "é, a"}\n')]
)
def test_compressed_tables(file, name, plain):
    packed = gzip.compress(plain.encode())
    expected = read_table(file(plain, name))
    found = read_table(file(packed, f"{name}.gz"))
    assert (found.columns, cells(found)) == (expected.columns, cells(expected))
    for damaged in (packed[:-9], packed[:20] + bytes(9) + packed[29:], plain.encode()):
        with pytest.raises(InputError, match=rf"{name}\.gz") as error:
            read_table(file(damaged, f"{name}.gz"))
        assert "\n" not in str(error.value)


def test_rows_broken_by_line_feeds(file):
    content = "id\tq1\tq2\tsame\n0\ta\tb\t1\n1\tbroken\nhere \tc\t0\n2\td\te\n\n\t1\n"
    table = read_tsv(str(file(content)), broken_lines=True)
    assert cells(table) == [
        (2, ["0", "a", "b", "1"]),
        (3, ["1", "broken here ", "c", "0"]),
        (5, ["2", "d", "e  ", "1"]),
    ]
    for ending in ("1\ta\n", "1\ta\nb\tc\td\te\n"):
        with pytest.raises(InputError, match=r"data.csv:2: \d cells where there are 4 columns"):
            read_tsv(str(file("id\tq1\tq2\tsame\n" + ending)), broken_lines=True)


@pytest.mark.parametrize(
    ("name", "content", "value"),
    [
        ("data.csv", "text,label\n", "data.csv"),
        ("data.csv", "text,label\na,1\nb\n", "data.csv:3"),
        ("data.csv", 'text,label\na,1\n"b"c,1\n', "data.csv:3"),
        ("data.csv", 'text,label\na,1\n"b,1\nc,0\n', "data.csv:3"),
        ("data.csv", "text,label\na\rb,1\n", "data.csv:2"),
        ("data.tsv", "text\tlabel\na\tb\t1\n", "data.tsv:2"),
        ("data.txt", "text,label\na,1\n", "data.txt.*.csv, .tsv, .jsonl"),
    ],
)
def test_bad_tables(file, name, content, value):
    with pytest.raises(InputError, match=value):
        read_table(file(content, name))


@pytest.mark.parametrize(
    ("content", "columns", "value"),
    [
        ('{"a": "x", "b": "y"}', Columns("c"), "'c'.*'a', 'b'"),
        ('{"a": "x"}\n{"b": "y"}', Columns("a"), "data.jsonl:2: .*'a'"),
        ('{"a": "x", "b": ["y"]}', Columns("a", "b"), "data.jsonl:1: .*'b'"),
        ('{"a": "x"}', None, "--text"),
        ('{"a": "x", "a ": "y"}', Columns("a", label="b"), "'b'"),
    ],
)
def test_bad_columns(file, content, columns, value):
    with pytest.raises(InputError, match=value):
        own_records(file(content, "data.jsonl"), False, columns)


def test_spaces_around_labels_make_no_others(file):
    table = read_table(file("text,label\n a , good\nb,good \nc,  \n"))
    found = [(record.text, record.label) for record in text_records(table, Columns("text", label="label"))]
    assert found == [(" a ", "good"), ("b", "good"), ("c", None)]


def test_predictions_beside_the_rows(file):
    content = 'text,n\n"a ""b"", c",1\n"two\nlines",\n'
    table = read_table(file(content))
    assert table_text(table, ".csv") == content
    more = table.extended({"prediction": ["x", "y"], "score": [0.5, 1.0]})
    assert table_text(more, ".csv") == 'text,n,prediction,score\n"a ""b"", c",1,x,0.5\n"two\nlines",,y,1.0\n'
    with pytest.raises(InputError, match=r"'two\\nlines'"):
        table_text(more, ".tsv")


def test_written_rows_are_those_that_were_read(file):
    for name, content in (
        ("data.tsv", 'text\tn\n"a \t1\n\u2028é\t\n'),
        ("data.jsonl", '{"text": "é\\n", "n": 1}\n{"text": "b", "x": [1, {"y": null}]}\n'),
    ):
        assert table_text(read_table(file(content, name)), name[4:]) == content
    rows = tuple(Row(n + 2, cells) for n, cells in enumerate([["", '"'], ["\r\n", ","], [" ", "é\u2028"]]))
    table = Table(str(file("", "data.csv")), ("a", 'b "c"'), rows)
    path = file(table_text(table, ".csv"))
    assert [list(row.cells) for row in read_table(path).rows] == [list(row.cells) for row in rows]
