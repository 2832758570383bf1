import pytest

from albert_tf.errors import InputError
from albert_tf.tasks.dataset_files import read_conll

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
