import pytest

from albert_tf.errors import InputError
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.dataset_files import read_conll, read_tagged
from albert_tf.tasks.tables import read_json_data, read_json_lines, read_lines, read_text

CONLL_2003 = """\
-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

Peter NNP B-NP B-PER
"""


def test_columns_between_spaces(file):
    records = read_conll(file(CONLL_2003))
    assert [record[1:] for record in records] == [
        (3, ("EU", "rejects"), ("B-ORG", "O")),
        (6, ("Peter",), ("B-PER",)),
    ]


def test_columns_between_tabs(file):
    records = read_conll(file("New York\tB-LOC\r\n.\tO\r\n \r\n\r\n#\tO"))
    assert [record[1:] for record in records] == [(1, ("New York", "."), ("B-LOC", "O")), (5, ("#",), ("O",))]


def test_spaces_around_a_tab_belong_to_no_word(file):
    records = read_conll(file("-DOCSTART- \tO\n\nAnn \tB-PER\nno\u00a0one\tO\n"))
    assert [record[1:] for record in records] == [(3, ("Ann", "no\u00a0one"), ("B-PER", "O"))]


def test_words_without_tags(file):
    assert [record[1:] for record in read_conll(file("a\nb\n\nc\n"))] == [
        (1, ("a", "b"), None),
        (4, ("c",), None),
    ]


def test_columns_end_at_ascii_blanks_alone(file):
    """NBSP, narrow and ideographic spaces, and separators of ASCII are part of words."""
    words = ["10\u00a0000", "5\u202fkg", "a\u3000b", "x\x1fy", "\u00a0", "p\u2028q"]
    content = "".join(f" {word}  NN \u00a0B-X \n" for word in words) + "\u00a0\n\u3000 \nlast NN O\n\t\n"
    (one, other) = read_conll(file(content))
    assert one.words == tuple(words) and one.tags == ("B-X",) * len(words)
    assert other.words == ("last",)


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ("-DOCSTART- O\n\n", "no words"),
        ("a O\nb\n", ":2: .*'b'"),
        ("a O\n\nb X O\n", ":3: "),
        ("a\tO\n\tO\n", ":2: "),
        ("a\tO\nb\t\n", ":2: .*lacks a word or a tag"),
    ],
)
def test_bad_files(file, content, value):
    with pytest.raises(InputError, match=f"data.csv.*{value}"):
        read_conll(file(content))


#


def test_lines_end_at_line_feeds_alone(file):
    text = "\ufeffone\r\n\u2028two\x0b\x85 \n\nthree"
    assert read_lines(file(text.encode())) == ["one", "\u2028two\x0b\x85 ", "", "three"]
    assert read_lines(file(b"one\n")) == ["one"]
    assert read_lines(file(b"one\n\n")) == ["one", ""]


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"\xef\xbb\xbf \n\n", "empty"),
        (b"good\nbad \xff\n", ":2: "),
        ("one\n".encode("utf-16"), ":1: .*iconv"),
    ],
)
def test_what_is_not_text(file, content, value):
    with pytest.raises(InputError, match=f"data.csv.*{value}"):
        read_text(file(content))


def test_what_is_not_a_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.txt"):
        read_text(tmp_path / "nowhere.txt")
    with pytest.raises(InputError, match="folder"):
        read_text(tmp_path)


def test_json(file):
    assert read_json_data(file(b'\xef\xbb\xbf{"a": 1}\n')) == {"a": 1}
    lines = list(read_json_lines(file(b'{"a": 1}\n\n{"b": "\\u2028"}\n')))
    assert lines == [(1, {"a": 1}), (3, {"b": "\u2028"})]
    for content, line in ((b'{"a": 1}\n\n{"a": 1', 3), (b'{"a": 1}\n"a"', 2), (b"[" * 100_000, 1)):
        with pytest.raises(InputError, match=rf"data\.csv:{line}\b") as error:
            list(read_json_lines(file(content)))
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 400


def test_columns_are_of_no_use_to_tagged_words(tmp_path):
    (tmp_path / "a.conll").write_text("Ada B-PER\n")
    with pytest.raises(InputError, match="`text`"):
        read_tagged(tmp_path / "a.conll", True, Columns("word", None, "tag"))
