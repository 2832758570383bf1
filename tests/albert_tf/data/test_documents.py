import collections
import gzip
import io
import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import documents
from albert_tf.data.documents import (
    BY_HASH,
    CorpusSplit,
    Documents,
    corpus_documents,
    hash_bucket,
    in_hash_range,
    iter_documents,
    shuffle_elements,
    split_between,
    text_documents,
    tokenize_documents,
)
from albert_tf.data.prepare import prepare
from albert_tf.data.prepare_files import FileSlice, read_slice
from albert_tf.data.prepared import encode_document
from albert_tf.data.sources import document_tokens, open_documents
from albert_tf.data.tfrecords import serialize_example
from albert_tf.errors import InputError
from albert_tf.pretraining import corpus
from albert_tf.pretraining.corpus import evaluation_split, held_out_candidates
from albert_tf.text.lines import PART_BYTES
from albert_tf.text.tokenizer_config import TOKENIZER_DEFAULTS
from tests.albert_tf.data.test_segments import block
from tests.tiny import CORPUS, DOCUMENTS


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
        ("\ufeffone\n\ufeff two\n".encode(), [[b"one", b"two"]]),
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


@pytest.fixture
def numbered_files(tmp_path, monkeypatch):
    """Files 1 … 9 of as many bytes in the working folder."""
    monkeypatch.chdir(tmp_path)
    for number in range(1, 10):
        (tmp_path / str(number)).write_text("x" * number)


def read(files, pipelines=1, index=0, seed=None, epoch=0):
    """The numbers that one pipeline reads of files in an epoch, inside a function of tf.data."""
    names = [str(n) for n in (range(1, files + 1) if isinstance(files, int) else files)]
    part = tf.distribute.InputContext(pipelines, index, pipelines)
    epochs = tf.data.Dataset.range(epoch, epoch + 1)
    found = epochs.flat_map(lambda epoch: corpus_documents(names, numbers, part, seed, epoch))
    return list(found.as_numpy_iterator())


@pytest.mark.parametrize("pipelines", [1, 2, 5])
def test_pipelines_divide_an_epoch_among_themselves(pipelines, numbered_files):
    """Whatever the number of files, shuffled or not: together they read every document once."""
    for files in (1, 3, 9):
        expected = [10 * n + i for n in range(1, files + 1) for i in range(n)]
        for seed in (None, 7):
            parts = [read(files, pipelines, i, seed, epoch=files) for i in range(pipelines)]
            assert sorted(number for part in parts for number in part) == expected, (files, seed)
            sizes = [len(part) for part in parts]
            assert files >= pipelines or max(sizes) - min(sizes) <= 1


def test_a_small_file_is_not_half_of_what_is_read(numbered_files):
    """By whole files, one of two pipelines would read the file of one document again and again."""
    assert [len(read((1, 9), 2, index)) for index in range(2)] == [5, 5]
    assert [len(read((5, 9), 2, index)) for index in range(2)] == [5, 9]


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
        lambda _: shuffle_elements(tf.data.Dataset.range(100), 20, seed)
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
    assert block.num_sentences.numpy().tolist() == [2, 0, 2]
    assert block.sentence_lengths.numpy().tolist() == [len(s) for document in tokens for s in document]
    assert block.tokens.numpy().tolist() == [t for document in tokens for s in document for t in s]
    in_pipeline = tf.data.Dataset.from_tensors(texts).map(lambda x: tokenize_documents(x, tiny_tokenizer))
    for eager, graph in zip(block, in_pipeline.get_single_element(), strict=True):
        assert eager.dtype == graph.dtype == tf.int32
        assert eager.numpy().tolist() == graph.numpy().tolist()
    by_document = [(x.tolist(), n.tolist()) for x, n in iter_documents(Documents(*map(np.array, block)))]
    assert by_document == [(list(itertools.chain(*x)), list(map(len, x))) for x in tokens]


# The documents of a corpus as tokens, against a tokenizer at work on text that is split by hand.

NORMALISED = {"lowercase": True, "strip_accents": True}


@pytest.fixture(scope="module")
def expected(tiny_tokenizer):
    """The tokens of the tiny corpus, of each document a list."""
    return [tiny_tokenizer(tf.constant(document)).flat_values.numpy().tolist() for document in DOCUMENTS]


def read_of_sources(inputs, vocabulary, share=None, **arguments):
    source = open_documents(inputs, vocabulary, **NORMALISED).select(share)
    return [tokens.tolist() for tokens in document_tokens(source, **arguments)]


def test_text_in_the_order_of_its_files(tiny_corpus, tiny_vocabulary, tmp_path, expected):
    (tmp_path / "a.txt").write_text("\n\n" + (CORPUS + "\n") * 3)  # more than is read at once
    assert read_of_sources([tmp_path / "a.txt", tiny_corpus], tiny_vocabulary) == expected * 4


def test_no_more_than_asked_for(tiny_corpus, tiny_vocabulary, expected):
    flat = list(itertools.chain(*expected))
    border = len(expected[0]) + len(expected[1])
    for most in (border - 1, border + 1, len(flat) + 1):
        found = read_of_sources(tiny_corpus, tiny_vocabulary, most=most)
        assert list(itertools.chain(*found)) == flat[:most]
        assert found[0] == expected[0][:most]


def test_prepared_documents_without_those_held_out(tiny_corpus, tiny_vocabulary, tmp_path, expected):
    prepare(tiny_corpus, tmp_path / "prepared", tiny_vocabulary, shards=2, eval_share=0.4)
    training = read_of_sources(tmp_path / "prepared", tiny_vocabulary)
    assert 1 < len(training) < len(expected)
    assert all(document in expected for document in training)
    evaluated = read_of_sources([tmp_path / "prepared" / "eval-*"], tiny_vocabulary)
    assert sorted(training + evaluated) == sorted(expected)


@pytest.mark.parametrize("of", ["documents", "each document"])
def test_a_share(tiny_corpus, tiny_vocabulary, expected, of):
    share = CorpusSplit(of, 0.0, 0.5) if of == "documents" else CorpusSplit(of, 0.5, 1.0)
    parts = [read_of_sources(tiny_corpus, tiny_vocabulary, share=part) for part in (share.complement, share)]
    if of == "documents":
        buckets = [number for _, number in text_documents(str(tiny_corpus))]
        inside = in_hash_range(tf.stack(buckets), (0.0, 0.5)).numpy().tolist()
        assert parts[1] == list(itertools.compress(expected, inside))
        assert parts[0] == list(itertools.compress(expected, np.logical_not(inside)))
    else:
        assert [first + second for first, second in zip(*parts, strict=True)] == expected
        assert all(parts[0]) and all(parts[1])


def test_finished_examples_are_refused(tiny_vocabulary, tmp_path):
    path = tmp_path / "a.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as file:
        file.write(serialize_example({"input_ids": [2, 5, 3]}))
    with pytest.raises(InputError, match=f"^{path} holds finished examples"):
        read_of_sources(path, tiny_vocabulary)


#


def test_a_share_its_rest_and_a_part_of_it():
    begins, ends = CorpusSplit(BY_HASH, 0.0, 0.25), CorpusSplit(BY_HASH, 0.25, 1.0)
    assert (begins.complement, ends.complement) == (ends, begins)
    assert begins.limit_size(0.125) == CorpusSplit(BY_HASH, 0.0, 0.125)
    assert ends.limit_size(0.125) == CorpusSplit(BY_HASH, 0.875, 1.0)
    assert (begins.limit_size(3.0), ends.limit_size(3.0)) == (begins, ends)


def as_lists(documents):
    tokens = tf.RaggedTensor.from_row_lengths(documents.tokens, documents.sentence_lengths)
    return tf.RaggedTensor.from_row_lengths(tokens, documents.num_sentences).to_list()


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        ((0.0, 1.0), [[[0, 1], [2, 3, 4, 5]], [], [[6, 7, 8, 9]]]),
        ((0.0, 0.9), [[[0, 1]], [], [[6, 7, 8]]]),  # the second sentence reaches beyond
        ((0.9, 1.0), [[[2, 3, 4, 5]], [], [[9]]]),
        ((0.25, 1.0), [[[1], [2, 3, 4, 5]], [], [[7, 8, 9]]]),
        ((0.5, 0.9), [[], [], [[8]]]),
    ],
)
def test_between(share, expected):
    assert as_lists(split_between(block([[2, 4], [], [4]]), *share)) == expected


def test_parts_of_documents_divide_them():
    generator = np.random.default_rng(1)
    lengths = [generator.integers(1, 30, generator.integers(0, 40)).tolist() for _ in range(200)]
    documents = block(lengths)
    parts = [as_lists(split_between(documents, *edges)) for edges in ((0.0, 0.3), (0.3, 0.99), (0.99, 1.0))]
    for whole, *cut in zip(as_lists(documents), *parts, strict=True):
        tokens = [token for sentence in whole for token in sentence]
        assert [token for part in cut for sentence in part for token in sentence] == tokens
        # A border that is meant lies in the sentence that the real one begins, or in the first.
        for border, share in zip((cut[1], cut[2]), (0.3, 0.99), strict=True):
            if border and len(border[0]) < len(tokens):
                first = tokens.index(border[0][0])
                meant = int(np.floor(share * len(tokens)))
                sentence = next(s for s in whole if tokens[meant] in s)
                assert tokens[first] == sentence[0] or meant == first
    assert all(last for last, whole in zip(parts[2], lengths, strict=True) if whole)


# What could be held out of corpora of all sizes.

LAST = [CorpusSplit("each document", 1 - size, 1.0) for size in (0.01, 0.02, 0.04, 0.08, 0.16, 0.32)]


@pytest.fixture
def shares(tiny_vocabulary):
    """The shares that could be held out, and what they are."""

    def of(inputs):
        found = list(held_out_candidates(open_documents(inputs, tiny_vocabulary)))
        return [share._replace(what="") for share in found], [share.what for share in found]

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


def test_prepared_documents_by_their_stored_hash(shares, tiny_tokenizer, tmp_path):
    stats = {"shards": {}, "settings": {}, "vocabulary": tiny_tokenizer.vocabulary.fingerprint}
    (tmp_path / "stats.json").write_text(json.dumps({**stats, **TOKENIZER_DEFAULTS}))
    with tf.io.TFRecordWriter(str(tmp_path / "documents.tfrecord")) as file:
        for number in range(50):
            file.write(encode_document([5, 6, 7], [3], 1000 - number))
    (share, *_), (what, *_) = shares(tmp_path / "documents.tfrecord")
    assert share == CorpusSplit("documents", 0.0, (951 + 1) / 2**30)
    assert what == "1 of 50 documents, 2.0% of the text"


def test_a_large_corpus_is_not_looked_at(shares, tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("one\n\ntwo\n")
    monkeypatch.setattr(corpus, "SMALL_CORPUS", 5)
    (split, *others), (what, *_) = shares(tmp_path / "text.txt")
    assert (split, what) == (CorpusSplit("documents", 0.0, 0.01), "1% of the documents")
    assert others == LAST


def test_what_is_evaluated_on_is_bounded(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("x" * 600)
    (tmp_path / "b.txt").write_text("x" * 400)
    share = CorpusSplit("documents", 0.0, 0.01)
    assert evaluation_split(share, str(tmp_path / "*.txt")) == share
    monkeypatch.setattr(corpus, "MAX_EVALUATED_BYTES", 2)
    assert evaluation_split(share, str(tmp_path / "*.txt")) == CorpusSplit("documents", 0.0, 0.002)
