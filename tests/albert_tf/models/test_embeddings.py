"""Embeddings: sums of table rows, by hand; ids outside the tables."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.models.embeddings import Embeddings
from albert_tf.models.layers import dropout
from tests.devices import refused_ids
from tests.tiny import TINY

IDS = tf.constant([[2, 7, 199], [3, 0, 1]])
TYPES = tf.constant([[0, 0, 1], [1, 0, 0]])
MASK = tf.constant([[1, 1, 1], [1, 1, 0]])
V = TINY.vocab_size


@pytest.fixture(scope="module")
def embeddings():
    return Embeddings(TINY)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_rows_are_summed_and_normalized_in_float32(policy):
    embeddings = Embeddings(TINY, dtype=policy)
    dtype = policy.removeprefix("mixed_")
    assert {v.dtype for v in embeddings.variables} == {tf.float32}
    names = ("word_embeddings", "token_type_embeddings", "position_embeddings")
    words, types, positions = (getattr(embeddings, name).numpy() for name in names)
    rows = words[IDS.numpy()] + types[TYPES.numpy()] + positions[:3]
    expected = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-12)
    found = embeddings(IDS, MASK, TYPES)
    assert found.dtype == dtype
    rounding = {"float32": 1e-4, "bfloat16": 2**-8, "float16": 2**-11}[dtype]
    np.testing.assert_allclose(tf.cast(found, tf.float32), expected, rtol=rounding, atol=1e-4)


@pytest.mark.parametrize(
    ("ids", "types"),
    [([[2, V]], [[0, 0]]), ([[2, -1]], [[0, 0]]), ([[2, 3]], [[0, 2]]), ([[2, 3]], [[0, -1]])],
)
@pytest.mark.parametrize("traced", [False, True])
def test_ids_outside_a_table(embeddings, ids, types, traced):
    call = tf.function(embeddings.__call__) if traced else embeddings
    with refused_ids(r"is not in \[0, (200|2)\)"):
        call(tf.constant(ids), tf.ones([1, 2], tf.int32), tf.constant(types))


def test_more_positions_than_there_are(embeddings):
    ids = tf.zeros([1, 65], tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[0, 64\].* 65"):
        embeddings(ids, ids, ids)


def test_dropout_comes_last():
    embeddings = Embeddings(TINY.replace(hidden_dropout_prob=0.5))
    seed = tf.constant([1, 2])
    np.testing.assert_array_equal(
        embeddings(IDS, MASK, TYPES, seed), dropout(embeddings(IDS, MASK, TYPES), 0.5, seed)
    )


def test_positions_count_tokens_after_an_offset():
    """RoBERTa's: the first token has row 2, and padding, wherever it stands, row 1."""
    embeddings = Embeddings(TINY.replace(position_offset=2, type_vocab_size=0))
    assert embeddings.token_type_embeddings is None
    assert embeddings.position_embeddings.shape[0] == TINY.max_position_embeddings + 2
    mask = [[1, 1, 1], [0, 1, 1]]
    rows = np.array([[2, 3, 4], [1, 2, 3]])
    total = embeddings.word_embeddings.numpy()[IDS.numpy()] + embeddings.position_embeddings.numpy()[rows]
    expected = (total - total.mean(-1, keepdims=True)) / np.sqrt(total.var(-1, keepdims=True) + 1e-12)
    np.testing.assert_allclose(embeddings(IDS, tf.constant(mask), TYPES), expected, rtol=1e-4, atol=1e-4)


def test_repeated_positions_begin_after_the_offset():
    embeddings = Embeddings(TINY.replace(position_offset=2))
    before = embeddings.position_embeddings.numpy()
    embeddings.repeat_positions(3, 7)
    np.testing.assert_array_equal(embeddings.position_embeddings[:5], before[:5])
    np.testing.assert_array_equal(embeddings.position_embeddings[5:9], before[[2, 3, 4, 2]])
    np.testing.assert_array_equal(embeddings.position_embeddings[9:], before[9:])
