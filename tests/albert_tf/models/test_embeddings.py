"""Embeddings: sums of table rows, by hand; ids outside the tables."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.models.embeddings import Embeddings
from albert_tf.models.layer import dropout, layer_norm
from tests.tiny import TINY

IDS = tf.constant([[2, 7, 199], [3, 0, 1]])
TYPES = tf.constant([[0, 0, 1], [1, 0, 0]])
V = TINY.vocab_size


@pytest.fixture(scope="module")
def embeddings():
    return Embeddings(TINY)


def test_rows_are_summed_and_normalized(embeddings):
    words, types, positions = (
        table.numpy()
        for table in (
            embeddings.word_embeddings,
            embeddings.token_type_embeddings,
            embeddings.position_embeddings,
        )
    )
    rows = words[IDS.numpy()] + types[TYPES.numpy()] + positions[:3]
    expected = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-12)
    np.testing.assert_allclose(embeddings(IDS, TYPES), expected, atol=1e-4)


def test_variables(embeddings):
    assert {v.name.removesuffix(":0"): tuple(v.shape) for v in embeddings.variables} == {
        "embeddings/word_embeddings": (200, 16),
        "embeddings/token_type_embeddings": (2, 16),
        "embeddings/position_embeddings": (64, 16),
        "embeddings/LayerNorm/gamma": (16,),
        "embeddings/LayerNorm/beta": (16,),
    }


@pytest.mark.parametrize(
    ("ids", "types"),
    [
        ([[2, V]], [[0, 0]]),
        ([[2, -1]], [[0, 0]]),
        ([[2, 2**31 - 1]], [[0, 0]]),
        ([[2, 3]], [[0, 2]]),
        ([[2, 3]], [[0, -1]]),
    ],
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


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "bfloat16", "mixed_float16", "float64"])
def test_policies(policy):
    embeddings = Embeddings(TINY, dtype=policy)
    dtype = policy.removeprefix("mixed_")
    assert embeddings(IDS, TYPES).dtype == dtype
    assert {v.dtype for v in embeddings.variables} == {tf.float32}
    total = (
        tf.gather(embeddings.word_embeddings, IDS)
        + tf.gather(embeddings.token_type_embeddings, TYPES)
        + embeddings.position_embeddings[:3]
    )  # the sum and its LayerNorm are float32, whatever the policy
    expected = layer_norm(total, embeddings.layer_norm.gamma, embeddings.layer_norm.beta, 1e-12)
    np.testing.assert_array_equal(embeddings(IDS, TYPES), tf.cast(expected, dtype))
