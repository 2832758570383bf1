"""Embeddings: sums of table rows, by hand; ids outside the tables."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.models.embeddings import Embeddings
from albert_tf.models.layer import dropout
from tests.tiny import TINY

IDS = tf.constant([[2, 7, 199], [3, 0, 1]])
TYPES = tf.constant([[0, 0, 1], [1, 0, 0]])
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
    found = embeddings(IDS, TYPES)
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
    with tf.device("CPU"), pytest.raises(tf.errors.InvalidArgumentError, match=r"is not in \[0, (200|2)\)"):
        call(tf.constant(ids), tf.constant(types))


def test_more_positions_than_there_are(embeddings):
    ids = tf.zeros([1, 65], tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[0, 64\].* 65"):
        embeddings(ids, ids)


def test_dropout_comes_last():
    embeddings = Embeddings(TINY.replace(hidden_dropout_prob=0.5))
    seed = tf.constant([1, 2])
    np.testing.assert_array_equal(embeddings(IDS, TYPES, seed), dropout(embeddings(IDS, TYPES), 0.5, seed))
