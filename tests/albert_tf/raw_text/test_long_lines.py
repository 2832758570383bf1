import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.raw_text import long_lines
from albert_tf.raw_text.long_lines import MAX_SENTENCE_BYTES, PART_BYTES, bounded_lines


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
    eager = bounded_lines(tf.constant(lines, tf.string)).numpy().tolist()
    in_pipeline = tf.data.Dataset.from_tensors(lines).map(bounded_lines).get_single_element()
    assert in_pipeline.numpy().tolist() == eager
    return eager


words = st.text(st.sampled_from("a é字😀"), max_size=60).map(lambda text: text.strip().encode())


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(words, min_size=1, max_size=6), size=st.integers(4, 12), more=st.integers(0, 20))
def test_parts_are_those_of_a_plain_search(lines, size, more):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_lines, "MAX_SENTENCE_BYTES", size + more)
        patch.setattr(long_lines, "PART_BYTES", size)
        found = bounded_lines.python_function(tf.constant(lines)).numpy().tolist()
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
