import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.documents import Documents
from albert_tf.data.splits import BY_HASH, CorpusSplit, split_between


def test_a_share_its_rest_and_a_part_of_it():
    begins, ends = CorpusSplit(BY_HASH, 0.0, 0.25), CorpusSplit(BY_HASH, 0.25, 1.0)
    assert (begins.rest, ends.rest) == (ends, begins)
    assert begins.at_most(0.125) == CorpusSplit(BY_HASH, 0.0, 0.125)
    assert ends.at_most(0.125) == CorpusSplit(BY_HASH, 0.875, 1.0)
    assert (begins.at_most(3.0), ends.at_most(3.0)) == (begins, ends)


def documents_of(*lengths):
    """Documents of sentences of these lengths, their tokens numbered."""
    flat = [length for document in lengths for length in document]
    tokens = tf.range(sum(flat), dtype=tf.int32)
    return Documents(tokens, tf.constant(flat, tf.int32), tf.constant([len(x) for x in lengths], tf.int32))


def as_lists(documents):
    tokens = tf.RaggedTensor.from_row_lengths(documents.tokens, documents.sentence_lengths)
    return tf.RaggedTensor.from_row_lengths(tokens, documents.sentences).to_list()


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
    assert as_lists(split_between(documents_of([2, 4], [], [4]), *share)) == expected


def test_parts_of_documents_divide_them():
    generator = np.random.default_rng(1)
    lengths = [generator.integers(1, 30, generator.integers(0, 40)).tolist() for _ in range(200)]
    documents = documents_of(*lengths)
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
