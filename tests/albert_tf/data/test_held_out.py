"""What could be held out of corpora of all sizes."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import held_out
from albert_tf.data.documents import hash_bucket
from albert_tf.data.held_out import evaluated_share, held_out_shares
from albert_tf.data.prepared import encode_document
from albert_tf.data.splits import CorpusSplit

LAST = [CorpusSplit("each document", 1 - size, 1.0) for size in (0.01, 0.02, 0.04, 0.08, 0.16, 0.32)]


@pytest.fixture
def shares(tiny_vocabulary):
    """The shares that could be held out, and what they are."""

    def of(inputs):
        found = list(held_out_shares(inputs, tiny_vocabulary))
        return [share for share, _ in found], [what for _, what in found]

    return of


def texts_by_hash(count, length=1):
    """Different documents of the same size, and their hashes, in the order of these."""
    texts = [f"document {i:04d}" + "\nof some words" * length for i in range(count)]
    hashes = hash_bucket(tf.constant(texts)).numpy()
    order = np.argsort(hashes)
    return [texts[i] for i in order], hashes[order]


def test_whole_documents_of_the_lowest_hashes(shares, tmp_path):
    texts, hashes = texts_by_hash(300)
    (tmp_path / "text.txt").write_text("\n\n".join(reversed(texts)))
    found, what = shares(tmp_path / "text.txt")
    ends = [(int(hashes[count - 1]) + 1) / 2**30 for count in (3, 6, 12, 24, 48)]
    assert found == [CorpusSplit("documents", 0.0, end) for end in ends] + LAST
    assert what[0] == "3 of 300 documents, 1.0% of the text"
    assert what[5] == "the last 1% of each document"
    (tmp_path / "text.txt").write_text("\n\n".join(texts[:5]))  # of few documents one at least
    (share, *_), _ = shares(tmp_path / "text.txt")
    assert share == CorpusSplit("documents", 0.0, (int(hashes[0]) + 1) / 2**30)


def test_a_document_that_is_most_of_the_text_is_not_held_out(shares, tmp_path):
    texts, _ = texts_by_hash(10, length=400)  # so long that their hashes do not see what follows
    texts[0] += "\nand many more words" * 2000
    (tmp_path / "text.txt").write_text("\n\n".join(texts))
    assert shares(tmp_path / "text.txt")[0] == LAST


def test_the_end_of_a_document_that_is_alone(shares, tmp_path):
    """However many parts it is read in, or copies of it there are."""
    (tmp_path / "long.txt").write_text(
        "".join(f"line {i} of a file without blank lines\n" for i in range(9000))
    )
    (tmp_path / "copies.txt").write_text("the same\n\n" * 7)
    (tmp_path / "empty.txt").write_text("\n")
    assert shares(tmp_path / "long.txt")[0] == LAST
    assert shares(tmp_path / "copies.txt")[0] == LAST
    assert shares(tmp_path / "empty.txt")[0] == []


def test_prepared_documents_by_their_stored_hash(shares, tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "documents.tfrecord")) as file:
        for number in range(50):
            file.write(encode_document([5, 6, 7], [3], 1000 - number))
    (share, *_), (what, *_) = shares(tmp_path / "documents.tfrecord")
    assert share == CorpusSplit("documents", 0.0, (951 + 1) / 2**30)
    assert what == "1 of 50 documents, 2.0% of the text"


def test_a_large_corpus_is_not_looked_at(shares, tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("one\n\ntwo\n")
    monkeypatch.setattr(held_out, "SMALL_CORPUS", 5)
    assert shares(tmp_path / "text.txt") == ([CorpusSplit("documents", 0.0, 0.01)], ["1% of the documents"])


def test_what_is_evaluated_on_is_bounded(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("x" * 600)
    (tmp_path / "b.txt").write_text("x" * 400)
    share = CorpusSplit("documents", 0.0, 0.01)
    assert evaluated_share(share, str(tmp_path / "*.txt")) == share
    monkeypatch.setattr(held_out, "MAX_EVALUATED_BYTES", 2)
    assert evaluated_share(share, str(tmp_path / "*.txt")) == CorpusSplit("documents", 0.0, 0.002)
