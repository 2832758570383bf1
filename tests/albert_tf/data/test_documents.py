import collections
import gzip
import io
import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import documents
from albert_tf.data.documents import (
    Documents,
    corpus_documents,
    documents_of,
    hash_bucket,
    in_hash_range,
    shuffle_documents,
    text_documents,
    tokenize_documents,
)
from albert_tf.data.prepare_files import FileSlice, read_slice
from albert_tf.text.lines import PART_BYTES


def as_lines(dataset):
    return [text.decode().split("\n") for text, _ in dataset.as_numpy_iterator()]


def sliced(name, content):
    """The documents that `prepare` reads in a file."""
    file_slice, counts = FileSlice(0, name, 0, len(content)), collections.Counter()
    return [part.sentences for part in read_slice(file_slice, io.BytesIO(content), "lines", "", counts)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n\n \n\t\n", []),
        (b"\r\n\r\none\r\n two \r\n\n\n\r\nthree", [[b"one", b"two"], [b"three"]]),
        (b"nul\x00byte\n\nmore\n", [[b"nul\0byte"], [b"more"]]),
        (b"bad \xe9 utf8", [[b"bad \xe9 utf8"]]),
        (b"one\rtwo\r\rthree\r\n\rfour", [[b"one", b"two"], [b"three"], [b"four"]]),
        ("one\n\u3000\ntwo\n\ufeff\u200b \nthree\n".encode(), [[b"one"], [b"two"], [b"three"]]),
    ],
)
def test_lines_of_all_kinds(content, expected, tmp_path):
    """By `pretraining_dataset` and, what is UTF-8, by `prepare`."""
    for name, stored in (("text.txt", content), ("text.gz", gzip.compress(content))):
        (tmp_path / name).write_bytes(stored)
        texts = text_documents(str(tmp_path / name)).map(lambda text, _: text)
        assert [text.split(b"\n") for text in texts.as_numpy_iterator()] == expected
        if b"\xe9 " not in content:
            assert sliced(name, stored) == expected


def test_documents_longer_than_what_is_read_at_once(tmp_path):
    expected = [[f"sentence {i} of {n}" for i in range(n)] for n in (1, 255, 256, 257, 700, 3)]
    (tmp_path / "text.txt").write_text("\n\n".join("\n".join(document) for document in expected))
    assert as_lines(text_documents(str(tmp_path / "text.txt"))) == expected


def test_a_file_without_blank_lines_comes_in_parts(tmp_path):
    lines = [f"{i} " + "x" * 90 for i in range(5000)]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    parts = as_lines(text_documents(str(tmp_path / "text.txt")))
    assert len(parts) > 1
    assert [line for part in parts for line in part] == lines
    most = documents.MAX_DOCUMENT_BYTES + documents._LINES_PER_BATCH * 100
    assert max(sum(map(len, part)) for part in parts) < most


def test_an_over_long_line_is_many_sentences(tmp_path):
    """As `prepare` reads it, too; in parts like any long document, so that no step takes long."""
    content = b"one\ntwo\n" + b"word " * 600_000 + b"\n\n" + b"x" * 5000 + b"\n"
    (tmp_path / "text.txt").write_bytes(content)
    parts = as_lines(text_documents(str(tmp_path / "text.txt")))
    sentences = [line for part in parts for line in part]
    assert sentences == [line.decode() for part in sliced("text.txt", content) for line in part]
    assert " ".join(sentences[:-5]).encode() == content[:8].replace(b"\n", b" ") + content[8:3_000_007]
    assert max(map(len, sentences)) <= PART_BYTES
    assert [len(line) for line in parts[-1]] == [PART_BYTES] * 4 + [5000 - 4 * PART_BYTES]
    assert max(sum(map(len, part)) for part in parts) <= 2 * 256 * PART_BYTES


def test_parts_of_a_document_have_one_bucket(tmp_path):
    """Neither the documents around it nor where it is cut decide about a document's bucket."""
    document = "\n".join(f"{i} " + "x" * 90 for i in range(4000))
    texts = ["one", document, "two\nlines", document + "\nmore", "three"]
    (tmp_path / "text.txt").write_text("\n\n".join(texts))
    found = [(text, int(bucket)) for text, bucket in text_documents(str(tmp_path / "text.txt"))]
    assert len(found) > 8
    buckets = [bucket for i, (_, bucket) in enumerate(found) if i == 0 or found[i - 1][1] != bucket]
    alone = [int(hash_bucket(tf.constant(text))) for text in texts]
    assert buckets == [alone[0], alone[1], alone[2], alone[1], alone[4]]


def numbers(file):
    """What stands for the documents of a file that is called by their number, 1 … 9."""
    count = tf.strings.to_number(file, tf.int64)
    return tf.data.Dataset.range(10 * count, 11 * count)


def read(files, pipelines=1, index=0, seed=None, epoch=0):
    """The numbers that one pipeline reads of files in an epoch, inside a function of tf.data."""
    names, part = (
        [str(n) for n in range(1, files + 1)],
        tf.distribute.InputContext(pipelines, index, pipelines),
    )
    epochs = tf.data.Dataset.range(epoch, epoch + 1)
    found = epochs.flat_map(lambda epoch: corpus_documents(names, numbers, part, seed, epoch))
    return list(found.as_numpy_iterator())


@pytest.mark.parametrize("pipelines", [1, 2, 5])
def test_pipelines_divide_an_epoch_among_themselves(pipelines):
    """Whatever the number of files, shuffled or not: together they read every document once."""
    for files in (1, 3, 9):
        expected = [10 * n + i for n in range(1, files + 1) for i in range(n)]
        for seed in (None, 7):
            parts = [read(files, pipelines, i, seed, epoch=files) for i in range(pipelines)]
            assert sorted(number for part in parts for number in part) == expected, (files, seed)
            sizes = [len(part) for part in parts]
            assert files >= pipelines or max(sizes) - min(sizes) <= 1


def test_the_order_comes_from_seed_and_epoch_alone():
    found = []
    for program_seed in (1, 2):
        tf.random.set_seed(program_seed)
        found.append(read(9, seed=3))
    tf.random.set_seed(None)
    assert found[0] == found[1] != read(9) == sorted(found[0])
    assert found[0] != read(9, seed=3, epoch=1)
    assert found[0] != read(9, seed=4)


def test_an_element_is_shuffled_by_at_most_the_buffers_length():
    seed = tf.constant([3, 4], tf.int64)
    dataset = tf.data.Dataset.range(1).flat_map(
        lambda _: shuffle_documents(tf.data.Dataset.range(100), 20, seed)
    )
    found = list(dataset.as_numpy_iterator())
    assert sorted(found) == list(range(100)) != found
    assert max(number - place for place, number in enumerate(found)) < 20


def test_hash_is_that_of_the_first_4096_bytes():
    texts = ["x" * 4096 + "a", "x" * 4096 + "b", "x" * 4095 + "a", "x" * 4095 + "b"]
    one, same, first, other = hash_bucket(tf.constant(texts)).numpy()
    assert one == same
    assert len({one, first, other}) == 3


def test_a_hash_at_the_edge_of_two_ranges_lies_in_the_second_alone():
    buckets = tf.constant([0, 2**28 - 1, 2**28, 2**30 - 1], tf.int64)
    assert in_hash_range(buckets, (0.0, 0.25)).numpy().tolist() == [True, True, False, False]
    assert in_hash_range(buckets, (0.25, 1.0)).numpy().tolist() == [False, False, True, True]


def test_tokenized(tiny_tokenizer):
    texts = ["The moon.\nA hat!", "\u00ad", "é\n\u200b\nbad \xff"]
    block = tokenize_documents(tf.constant(texts), tiny_tokenizer)
    lines = [["the moon.", "a hat!"], [], ["e", "bad \xff"]]
    tokens = [[tiny_tokenizer([line]).to_list()[0] for line in document] for document in lines]
    assert block.sentences.numpy().tolist() == [2, 0, 2]
    assert block.sentence_lengths.numpy().tolist() == [len(s) for document in tokens for s in document]
    assert block.tokens.numpy().tolist() == [t for document in tokens for s in document for t in s]
    in_pipeline = tf.data.Dataset.from_tensors(texts).map(lambda x: tokenize_documents(x, tiny_tokenizer))
    for eager, graph in zip(block, in_pipeline.get_single_element(), strict=True):
        assert eager.dtype == graph.dtype == tf.int32
        assert eager.numpy().tolist() == graph.numpy().tolist()
    by_document = [(x.tolist(), n.tolist()) for x, n in documents_of(Documents(*map(np.array, block)))]
    assert by_document == [(list(itertools.chain(*x)), list(map(len, x))) for x in tokens]
