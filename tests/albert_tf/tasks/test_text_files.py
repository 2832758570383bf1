import pytest

from albert_tf.errors import InputError
from albert_tf.tasks.tables import read_json_data, read_json_lines, read_lines, read_text


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
