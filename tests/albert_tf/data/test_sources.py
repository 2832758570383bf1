"""The documents of a corpus as tokens, against a tokenizer at work on text that is split by hand."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.documents import in_hash_range, text_documents
from albert_tf.data.prepare import prepare
from albert_tf.data.sources import document_tokens
from albert_tf.data.splits import CorpusSplit
from albert_tf.data.tfrecords import serialised_example
from albert_tf.errors import InputError
from tests.tiny import CORPUS, DOCUMENTS

NORMALISED = {"lowercase": True, "strip_accents": True}


@pytest.fixture(scope="module")
def expected(tiny_tokenizer):
    """The tokens of the tiny corpus, of each document a list."""
    return [tiny_tokenizer(tf.constant(document)).flat_values.numpy().tolist() for document in DOCUMENTS]


def read(inputs, vocabulary, **arguments):
    return [tokens.tolist() for tokens in document_tokens(inputs, vocabulary, **NORMALISED, **arguments)]


def test_text_in_the_order_of_its_files(tiny_corpus, tiny_vocabulary, tmp_path, expected):
    (tmp_path / "a.txt").write_text("\n\n" + (CORPUS + "\n") * 3)  # more than is read at once
    assert read([tmp_path / "a.txt", tiny_corpus], tiny_vocabulary) == expected * 4


def test_no_more_than_asked_for(tiny_corpus, tiny_vocabulary, expected):
    flat = list(itertools.chain(*expected))
    border = len(expected[0]) + len(expected[1])
    for most in (border - 1, border + 1, len(flat) + 1):
        found = read(tiny_corpus, tiny_vocabulary, most=most)
        assert list(itertools.chain(*found)) == flat[:most]
        assert found[0] == expected[0][:most]


def test_prepared_documents_without_those_held_out(tiny_corpus, tiny_vocabulary, tmp_path, expected):
    prepare(tiny_corpus, tmp_path / "prepared", tiny_vocabulary, shards=2, eval_share=0.4)
    training = read(tmp_path / "prepared", tiny_vocabulary)
    assert 1 < len(training) < len(expected)
    assert all(document in expected for document in training)
    evaluated = read([tmp_path / "prepared" / "eval-*"], tiny_vocabulary)
    assert sorted(training + evaluated) == sorted(expected)


@pytest.mark.parametrize("of", ["documents", "each document"])
def test_a_share(tiny_corpus, tiny_vocabulary, expected, of):
    share = CorpusSplit(of, 0.0, 0.5) if of == "documents" else CorpusSplit(of, 0.5, 1.0)
    parts = [read(tiny_corpus, tiny_vocabulary, share=part) for part in (share.rest, share)]
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
        file.write(serialised_example({"input_ids": [2, 5, 3]}))
    with pytest.raises(InputError, match=f"^{path} holds finished examples"):
        read(path, tiny_vocabulary)
