import collections
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.data import prepare_files
from albert_tf.data.documents import MAX_DOCUMENT_BYTES
from albert_tf.data.prepare_files import DOCUMENT_READERS, FileSlice, file_slices, read_slice
from albert_tf.errors import InputError
from albert_tf.text import lines


def read(content, input_format="lines", begin=0, end=None, name="text.txt"):
    counts = collections.Counter()
    file_slice = FileSlice(0, name, begin, len(content) if end is None else end)
    parts = list(read_slice(file_slice, io.BytesIO(content), input_format, "text", counts))
    return [part.sentences for part in parts], counts


def test_documents_a_line():
    documents, counts = read(b"One. Two!\n\nThree.\r\n", "document_per_line")
    assert documents == [[b"One.", b"Two!"], [b"Three."]]
    assert counts == {"documents_read": 2}


def test_json_lines():
    values = [{"text": "One. Two!", "title": "x"}, {"title": "no text"}, ["text"], {"text": 7}, {"text": " "}]
    lines = [*map(json.dumps, values), "", "{broken", '{"text": "lone \\ud800 surrogate"}', "[" * 100_000]
    documents, counts = read("\n".join(lines).encode(), "jsonl")
    assert documents == [[b"One.", b"Two!"], [b"lone ? surrogate"]]
    dropped = {"dropped_invalid_json": 2, "dropped_without_text_field": 3, "dropped_empty": 1}
    assert counts == {"documents_read": 2, **dropped}


@pytest.mark.parametrize("input_format", DOCUMENT_READERS)
def test_the_line_that_is_not_utf8_is_named(input_format):
    """As it is numbered in the file, whether the slice begins with it or in the line before."""
    content = b"\n".join([b"one", b"", b"two", b"l'\xe9t\xe9 a cess\xe9", b"", b"three"])
    begin = content.index(b"l'")
    for first in range(begin + 1):
        with pytest.raises(InputError, match=r"text\.txt:4: "):
            read(content, input_format, first)
    read(content, input_format, begin + 1)


def test_a_long_document_comes_in_parts_with_one_head():
    lines = [b"%d " % i + b"x" * 1000 for i in range(400)]
    content, counts = b"\n".join(lines) + b"\n\nshort", collections.Counter()
    file_slice = FileSlice(0, "text.txt", 0, len(content))
    *parts, last = read_slice(file_slice, io.BytesIO(content), "lines", "", counts)
    assert len(parts) == 4
    assert [line for part in parts for line in part.sentences] == lines
    assert {part.head for part in parts} == {b"\n".join(lines)[:4096]}
    assert max(sum(map(len, part.sentences)) for part in parts) < MAX_DOCUMENT_BYTES + 2000
    assert last.head == b"short"
    assert counts == {"documents_read": 2, "further_parts_of_long_documents": 3}


lines_of_all_kinds = st.lists(
    st.sampled_from(
        [b"", b" ", b"a", b"bb", b"ccc ccc", b"\r", "ß".encode(), b"a\rb", b"\xe3\x80\x80", b"a\r\r"]
    ),
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(lines_of_all_kinds, st.integers(1, 12), st.booleans(), st.sampled_from(list(DOCUMENT_READERS)))
def test_slices_hold_each_document_once(lines, size, last_newline, input_format):
    content = b"\n".join(lines) + b"\n" * last_newline
    whole, counts = read(content, input_format)
    found, sum_of_counts = [], collections.Counter()
    for begin in range(0, len(content), size):
        documents, of_slice = read(content, input_format, begin, min(begin + size, len(content)))
        found += documents
        sum_of_counts += of_slice
    assert found == whole
    assert sum_of_counts == counts


def test_slices_cover_files():
    found = file_slices([("a.txt", (32 << 20) + 5), ("b.gz", 1 << 30), ("empty.txt", 0), ("c.txt", 1)])
    sizes = [("a.txt", 32 << 20), ("a.txt", 5), ("b.gz", 1 << 30), ("c.txt", 1)]
    assert [(part.file, part.end - part.begin) for part in found] == sizes
    assert [part.number for part in found] == list(range(4))


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_a_line_without_an_end_is_read_in_parts(size, monkeypatch):
    """Its parts are one line: what is left of it is no blank line, and each slice knows whose it is."""
    monkeypatch.setattr(prepare_files, "_LONGEST_LINE_BYTES", 8)
    monkeypatch.setattr(lines, "_BLOCK_BYTES", size)
    content = "one two three four five  \r\nsix\n\nüüüüüüüüüü ".encode()
    documents, _ = read(content)
    assert [b"".join(b"".join(lines).split()) for lines in documents] == [
        b"onetwothreefourfivesix",
        "üüüüüüüüüü".encode(),
    ]
    for begin in range(1, len(content)):
        found, _ = read(content, begin=begin)
        assert [b"".join(lines) for lines in found] in ([], ["üüüüüüüüüü".encode()])
