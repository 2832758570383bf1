import collections
import gzip
import io

import pytest
import tensorflow as tf

from albert_tf.data import documents
from albert_tf.data.documents import (
    corpus_documents,
    hash_bucket,
    in_hash_range,
    shuffled,
    text_documents,
    tokenized,
)
from albert_tf.preprocessing.reading import FileSlice, read_slice
from albert_tf.raw_text.long_lines import PART_BYTES


def as_lines(dataset):
    texts = dataset.map(lambda text, *_: text).as_numpy_iterator()
    return [text.decode("utf-8", "surrogateescape").split("\n") for text in texts]


def alone(pipelines=1, index=0):
    return tf.distribute.InputContext(pipelines, index, pipelines)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n\n \n\t\n", []),
        (b"\r\n\r\none\r\n two \r\n\r\nthree", [["one", "two"], ["three"]]),
        (b"nul\x00byte\n\nbad \xff utf8", [["nul\0byte"], ["bad \udcff utf8"]]),
    ],
)
def test_lines_of_all_kinds(content, expected, tmp_path):
    (tmp_path / "text.txt").write_bytes(content)
    assert as_lines(text_documents(str(tmp_path / "text.txt"))) == expected
    (tmp_path / "text.txt.gz").write_bytes(gzip.compress(content))
    assert as_lines(text_documents(str(tmp_path / "text.txt.gz"))) == expected


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
    file_slice = FileSlice(0, "text.txt", 0, len(content))
    prepared = read_slice(file_slice, io.BytesIO(content), "lines", "", collections.Counter())
    sentences = [line for part in parts for line in part]
    assert sentences == [line.decode() for part in prepared for line in part.sentences]
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


@pytest.fixture
def many_files(tmp_path):
    """Seven files of 1 … 7 documents, and all of the documents."""
    expected = []
    for n in range(1, 8):
        texts = [f"document {i} of {n}" for i in range(n)]
        (tmp_path / f"{n}.txt").write_text("\n\n".join(texts))
        expected += texts
    return sorted(map(str, tmp_path.glob("*.txt"))), expected


def read(files, part, seed=None, epoch=0):
    """What corpus_documents gives inside a function of tf.data, where it belongs."""
    epochs = tf.data.Dataset.range(epoch, epoch + 1)
    dataset = epochs.flat_map(lambda epoch: corpus_documents(files, text_documents, part, seed, epoch))
    return [text for (text,) in as_lines(dataset)]


def numbers(file):
    """What stands for the documents of a file that is called by their number, 1 … 9."""
    count = tf.strings.to_number(file, tf.int64)
    return tf.data.Dataset.range(10 * count, 11 * count)


@pytest.mark.parametrize("pipelines", [1, 2, 5])
def test_pipelines_divide_an_epoch_among_themselves(pipelines):
    """Whatever the number of files, shuffled or not: together they read every document once."""
    for files in (1, 3, 9):
        names = [str(n) for n in range(1, files + 1)]
        expected = sorted(10 * n + i for n in range(1, files + 1) for i in range(n))
        for seed in (None, 7):
            epoch = tf.data.Dataset.range(files, files + 1)  # another one each time
            parts = [
                list(
                    epoch.flat_map(
                        lambda epoch, i=i, seed=seed, names=names: corpus_documents(
                            names, numbers, alone(pipelines, i), seed, epoch
                        )
                    ).as_numpy_iterator()
                )
                for i in range(pipelines)
            ]
            assert sorted(number for part in parts for number in part) == expected, (files, seed)
            sizes = [len(part) for part in parts]
            assert files >= pipelines or max(sizes) - min(sizes) <= 1


def test_order_of_the_files(many_files):
    """It comes from seed and epoch alone."""
    files, texts = many_files
    assert read(files, alone()) == texts
    try:
        tf.random.set_seed(1)
        first = read(files, alone(), seed=3)
        tf.random.set_seed(2)
        again = read(files, alone(), seed=3)
    finally:
        tf.random.set_seed(None)
    assert first == again != texts
    assert first != read(files, alone(), seed=3, epoch=1)
    assert first != read(files, alone(), seed=4)


def test_hash_is_that_of_the_first_4096_bytes():
    texts = ["x" * 4096 + "a", "x" * 4096 + "b", "x" * 4095 + "a", "x" * 4095 + "b"]
    one, same, first, other = hash_bucket(tf.constant(texts)).numpy()
    assert one == same
    assert len({one, first, other}) == 3


def test_a_hash_at_the_edge_of_two_ranges_lies_in_the_second_alone():
    buckets = tf.constant([0, 2**28 - 1, 2**28, 2**30 - 1], tf.int64)
    assert in_hash_range(buckets, (0.0, 0.25)).numpy().tolist() == [True, True, False, False]
    assert in_hash_range(buckets, (0.25, 1.0)).numpy().tolist() == [False, False, True, True]


def test_shuffles_give_what_they_are_given():
    seed = tf.constant([3, 4], tf.int64)

    def found():
        dataset = tf.data.Dataset.range(1).flat_map(lambda _: shuffled(tf.data.Dataset.range(100), 20, seed))
        return list(dataset.as_numpy_iterator())

    assert found() == found() != sorted(found()) == list(range(100))
    # An element comes at most a buffer's length too early.
    assert max(number - place for place, number in enumerate(found())) < 20


def test_tokenized(tiny_tokenizer):
    texts = ["The moon.\nA hat!", "\u00ad", "é\n\u200b\nbad \xff"]
    block = tokenized(tf.constant(texts), tiny_tokenizer)
    lines = [["the moon.", "a hat!"], [], ["e", "bad \xff"]]
    tokens = [[tiny_tokenizer([line]).to_list()[0] for line in document] for document in lines]
    assert block.sentences.numpy().tolist() == [2, 0, 2]
    assert block.sentence_lengths.numpy().tolist() == [len(s) for document in tokens for s in document]
    assert block.tokens.numpy().tolist() == [t for document in tokens for s in document for t in s]
    in_pipeline = (
        tf.data.Dataset.from_tensors(texts).map(lambda x: tokenized(x, tiny_tokenizer)).get_single_element()
    )
    for eager, graph in zip(block, in_pipeline, strict=True):
        assert eager.dtype == graph.dtype == tf.int32
        assert eager.numpy().tolist() == graph.numpy().tolist()
