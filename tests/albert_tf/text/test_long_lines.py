import gzip
import io

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.text import lines as lines_module
from albert_tf.text.lines import (
    MAX_SENTENCE_BYTES,
    PART_BYTES,
    is_blank,
    split_lines,
    split_long_lines,
    strip_lines,
    text_lines,
)


def cut(text, longest, size):
    """The parts of a line by Python's own string search."""
    parts, start = [], 0
    while len(text) > longest and len(text) - start > size:
        end = text.rfind(b" ", start + 1, start + size + 1)
        if end < 0:
            end = start + size
            while text[end] & 0xC0 == 0x80:
                end -= 1
        parts.append(text[start:end].strip())
        start = end
    return [part for part in [*parts, text[start:].strip()] if part] or [text]


def bounded(lines):
    eager = split_long_lines(tf.constant(lines, tf.string)).numpy().tolist()
    in_pipeline = tf.data.Dataset.from_tensors(lines).map(split_long_lines).get_single_element()
    assert in_pipeline.numpy().tolist() == eager
    return eager


words = st.text(st.sampled_from("a é字😀"), max_size=60).map(lambda text: text.strip().encode())


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(words, min_size=1, max_size=6), size=st.integers(4, 12), more=st.integers(0, 20))
def test_parts_are_those_of_a_plain_search(lines, size, more):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "MAX_SENTENCE_BYTES", size + more)
        patch.setattr(lines_module, "PART_BYTES", size)
        found = split_long_lines.python_function(tf.constant(lines)).numpy().tolist()
        assert found == [part for line in lines for part in cut(line, size + more, size)]


def test_ordinary_lines_stay_as_they_are():
    lines = [b"", b"one two", b"x" * MAX_SENTENCE_BYTES, b"\xff\x80", b""]
    assert bounded(lines) == lines
    longer = b"x " * (MAX_SENTENCE_BYTES // 2) + b"x"
    assert bounded([*lines, longer, b"y"]) == [*lines, *cut(longer, MAX_SENTENCE_BYTES, PART_BYTES), b"y"]


@pytest.mark.parametrize("byte", [b"\x80", b"\xff", b"\0", b"\n"])
def test_bytes_that_are_not_text_come_to_an_end(byte):
    parts = bounded([b"x" + byte * 10_000 + b"x"])
    assert b"".join(parts) == b"x" + byte * 10_000 + b"x" or byte == b"\n"
    assert max(map(len, parts)) <= PART_BYTES


def test_a_line_of_5_megabytes_takes_a_moment():
    line = b"word " * 1_000_000
    parts = bounded([b"short", line.strip(), b"", "é".encode() * 1_000_000])
    assert parts[0] == b"short"
    assert parts[parts.index(b"") + 1][:2].decode() == "é"
    assert b" ".join(parts[1 : parts.index(b"")]) == line.strip()
    assert b"".join(parts[parts.index(b"") + 1 :]) == "é".encode() * 1_000_000


pieces = st.sampled_from(
    ["\n", "\r", "\r\n", "a b", "é", '"', ",", "\0", "\v\f\x1c\x85\u2028", "", "x" * 300]
)


@pytest.fixture(scope="module")
def read_lines(tmp_path_factory):
    """The lines of a file and of a compressed one, by one dataset, which reads them anew each time."""
    folder = tmp_path_factory.mktemp("lines")
    files = tf.data.Dataset.from_tensor_slices([str(folder / "a.txt"), str(folder / "a.gz")])
    dataset = files.flat_map(text_lines)

    def read(content):
        (folder / "a.txt").write_bytes(content)
        (folder / "a.gz").write_bytes(gzip.compress(content))
        return list(dataset.as_numpy_iterator())

    return read


@settings(max_examples=40, deadline=None)
@given(
    content=st.lists(pieces, max_size=12).map("".join), block=st.integers(1, 40), longest=st.integers(4, 50)
)
def test_lines_are_those_of_pythons_universal_newlines(read_lines, content, block, longest):
    """By TensorFlow, compressed and not, and from a stream in blocks of any size."""
    expected = [line.removesuffix("\n").encode() for line in io.StringIO(content, newline=None)]
    assert read_lines(content.encode()) == expected * 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "_BLOCK_BYTES", block)
        lines = list(split_lines(io.BytesIO(content.encode())))
        parts = list(split_lines(io.BytesIO(content.encode()), longest))
    assert [line.rstrip(b"\r\n") for line in lines] == expected
    assert b"".join(lines) == b"".join(parts) == content.encode()
    assert max(map(len, parts), default=0) <= longest + 2 * block + 300
    assert all(part.decode() for part in parts)


def test_a_reader_of_lines_goes_on_from_a_checkpoint(tmp_path):
    lines = [b"line %d" % number for number in range(5000)]
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"\r".join(lines)))
    iterator = iter(text_lines(str(tmp_path / "a.gz")).batch(7))
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    for _ in range(300):
        next(iterator)
    saved = checkpoint.write(str(tmp_path / "saved"))
    expected = next(iterator).numpy().tolist()
    checkpoint.read(saved)
    assert next(iterator).numpy().tolist() == expected == lines[2100:2107]


def test_lines_of_nothing_that_can_be_seen():
    spaces = [chr(code) for code in range(0x110000) if chr(code).isspace()]
    blank = ["", *spaces, "\ufeff", "\u200b", "\ufeff \u3000\u200b\xa0"]
    visible = ["a", " \u200ba\u3000", "\xad", "\u2060", "\0", "\u3164"]
    rows = [text.encode() for text in blank + visible]
    assert [is_blank(row) for row in rows] == [True] * len(blank) + [False] * len(visible)
    assert strip_lines(tf.constant(rows)).numpy().tolist() == [b""] * len(blank) + [
        text.strip(" ").encode() for text in visible
    ]
