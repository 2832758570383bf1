"""Every stage of the input pipeline gives in tf.data what it gives eagerly."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.documents import (
    corpus_documents,
    hash_bucket,
    in_hash_range,
    shuffled,
    text_documents,
    tokenized,
)
from albert_tf.data.examples import ExampleMaker, filled_batch
from albert_tf.data.google_examples import decode_examples, encode_examples
from albert_tf.data.prepared import decode_documents, document_hashes, encode_document
from albert_tf.data.shares import between
from albert_tf.data.tfrecords import tfrecord_reader
from albert_tf.recipes import ExampleSettings
from albert_tf.tokenizers.tokenizer import FastPieceTokenizer
from albert_tf.tokenizers.vocabulary import Vocabulary
from albert_tf.utils.records import changed
from tests.tiny import DOCUMENTS

SEED = tf.constant([3, 4], tf.int64)
SIZE = ExampleSettings(seq_length=32, max_predictions=5)
TEXTS = tf.constant(["\n".join(document) for document in DOCUMENTS] + ["", "\u00ad", "👍🏽", "a\0b\nc \xff"])


@pytest.fixture(scope="module")
def vocabulary(tiny_vocabulary):
    return Vocabulary.from_file(tiny_vocabulary)


def maker(vocabulary, objective="sop"):
    return ExampleMaker(vocabulary, changed(SIZE, sentence_objective=objective), batch_size=64)


def documents(vocabulary):
    return tokenized(TEXTS, FastPieceTokenizer(vocabulary))


def records(vocabulary):
    """The documents as `prepare` stores them."""
    block = documents(vocabulary)
    sentences = np.split(block.sentence_lengths, np.cumsum(block.sentences)[:-1])
    tokens = np.split(block.tokens, np.cumsum([lengths.sum() for lengths in sentences])[:-1])
    return tf.constant([encode_document(*row, 7) for row in zip(tokens, sentences, strict=True)])


def batch(vocabulary, objective="sop"):
    made = maker(vocabulary, objective)
    return made.batch(made.rows(documents(vocabulary), SEED)[:50])


# Of each stage: what it does, and what it is given.
TENSOR_STAGES = {
    "hash_bucket": lambda v: (hash_bucket, TEXTS),
    "in_hash_range": lambda v: (lambda x: in_hash_range(x, (0.2, 0.7)), hash_bucket(TEXTS)),
    "tokenized": lambda v: (lambda x: tokenized(x, FastPieceTokenizer(v)), TEXTS),
    "document_hashes": lambda v: (document_hashes, records(v)),
    "between": lambda v: (lambda x: between(x, 0.1, 0.8), documents(v)),
    "decode_documents": lambda v: (decode_documents, records(v)),
    "rows": lambda v: (lambda x: maker(v).rows(x, SEED), documents(v)),
    "rows of nsp": lambda v: (lambda x: maker(v, "nsp").rows(x, SEED), documents(v)),
    "rows of none": lambda v: (lambda x: maker(v, "none").rows(x, SEED), documents(v)),
    "batch": lambda v: (maker(v).batch, maker(v).rows(documents(v), SEED)[:50]),
    "batch of none": lambda v: (
        maker(v, "none").batch,
        maker(v, "none").rows(documents(v), SEED)[:50],
    ),
    "filled_batch": lambda v: (lambda x: filled_batch(x, 70, SIZE), batch(v)),
    "decode_examples": lambda v: (
        lambda x: decode_examples(x, SIZE),
        tf.constant(
            encode_examples(
                {name: tensor.numpy() for name, tensor in batch(v).items()}, v, "sentence_order_labels"
            )
        ),
    ),
}


@pytest.mark.parametrize("name", TENSOR_STAGES)
def test_functions_of_tensors(name, vocabulary):
    stage, given = TENSOR_STAGES[name](vocabulary)
    eager = stage(given)
    pipeline = tf.data.Dataset.from_tensors(given).map(stage)
    found = pipeline.get_single_element()
    tf.nest.assert_same_structure(eager, found)
    for one, other, spec in zip(*map(tf.nest.flatten, (eager, found, pipeline.element_spec)), strict=True):
        assert one.dtype == other.dtype == spec.dtype
        assert one.shape == other.shape
        assert (one.numpy() == other.numpy()).all()
        assert tf.size(one) > 0


def in_pipeline(make):
    """The elements of a dataset that is made inside of another one, where its seed is a tensor."""
    return list(tf.data.Dataset.range(1).flat_map(lambda _: make()).as_numpy_iterator())


def test_functions_that_make_datasets(tiny_corpus, vocabulary, tmp_path):
    path, part = str(tiny_corpus), tf.distribute.InputContext()
    stored = str(tmp_path / "documents.tfrecord")
    with tf.io.TFRecordWriter(stored) as file:
        for record in records(vocabulary).numpy():
            file.write(record)
    stages = {
        "text_documents": lambda: text_documents(path),
        "tfrecord_reader": lambda: tfrecord_reader([stored])(tf.constant(stored)),
        "corpus_documents": lambda: corpus_documents([path, stored], text_documents, part),
    }
    for name, make in stages.items():
        eager = list(make().as_numpy_iterator())
        assert eager == in_pipeline(make), name
        assert len(eager) >= 8


def test_shuffles_give_what_they_are_given():
    numbers = tf.data.Dataset.range(100)
    found = in_pipeline(lambda: shuffled(numbers, 20, SEED))
    assert found == in_pipeline(lambda: shuffled(numbers, 20, SEED))
    assert found != sorted(found) == list(range(100))
    # An element comes at most a buffer's length too early.
    assert max(number - place for place, number in enumerate(found)) < 20
