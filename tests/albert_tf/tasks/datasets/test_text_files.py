import pytest

from albert_tf.tasks.datasets.text_files import field, read_json, read_json_lines, read_lines, read_text
from albert_tf.utils.errors import InputError


@pytest.fixture
def file(tmp_path):
    def write(content):
        path = tmp_path / "file.txt"
        path.write_bytes(content)
        return path

    return write


def test_lines_end_at_line_feeds_alone(file):
    text = "\ufeffone\r\n\u2028two\x0b\x85 \n\nthree"
    assert read_lines(file(text.encode())) == ["one", "\u2028two\x0b\x85 ", "", "three"]
    assert read_lines(file(b"one\n")) == ["one"]
    assert read_lines(file(b"one\n\n")) == ["one", ""]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "file.txt is empty"),
        (b"\xef\xbb\xbf \n\n", "file.txt is empty"),
        (b"good\nbad \xff\n", r"file.txt:2: "),
        ("one\n".encode("utf-16"), "file.txt:1: .*iconv"),
    ],
)
def test_what_is_not_text(file, content, message):
    with pytest.raises(InputError, match=message):
        read_text(file(content))


def test_what_is_not_a_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.txt: no such file"):
        read_text(tmp_path / "nowhere.txt")
    with pytest.raises(InputError, match="is a folder"):
        read_text(tmp_path)


def test_json(file):
    assert read_json(file(b'\xef\xbb\xbf{"a": 1}\n')) == {"a": 1}
    assert list(read_json_lines(file(b'{"a": 1}\n{"b": "\\u2028"}\n'))) == [
        (1, {"a": 1}),
        (2, {"b": "\u2028"}),
    ]
    for content, message in (
        (b"{", "file.txt: not JSON"),
        (b"[1]", r"file.txt: not a JSON object but \[1\]"),
    ):
        with pytest.raises(InputError, match=message):
            read_json(file(content))
    for content, message in (
        (b'{"a": 1}\n\n{"a": 1', "file.txt:3: not JSON"),
        (b'{"a": 1}\n"a"', "file.txt:2: not a JSON object"),
        (b"[" * 100_000, "file.txt:1: not JSON"),
        (b'{"a": NaN}', r"file.txt:1: not JSON \(NaN is not a value of JSON\)"),
    ):
        with pytest.raises(InputError, match=message) as error:
            list(read_json_lines(file(content)))
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 400


def test_fields():
    assert field({"a": [1]}, "a", list, "here") == [1]
    for value, kind, message in (
        ({"b": 1}, int, "here: no 'a' among 'b'"),
        ({"a": True}, int, "here: 'a' is True and must be a int"),
        ({"a": "x" * 500}, int, "here: 'a' is 'x+… and must be a int"),
    ):
        with pytest.raises(InputError, match=message):
            field(value, "a", kind, "here")
