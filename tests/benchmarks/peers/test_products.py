"""Products are counted as by hand."""

import dataclasses

import albert_tf
from benchmarks.peers.compared import CASES
from benchmarks.peers.products import operations

BASE = dataclasses.asdict(albert_tf.PRESETS["albert_base_v2"])


def test_a_forward_pass_is_two_operations_a_weight_and_token_and_the_attention():
    tokens, layers, hidden, inner = 8 * 128, 12, 768, 3072
    weights = 4 * hidden**2 + 2 * hidden * inner
    attention = 2 * tokens * 128 * hidden  # scores and context: S products of D numbers a head and token
    others = tokens * 128 * hidden + 8 * hidden**2  # the projection of embeddings, the pooler
    expected = 2 * (layers * (tokens * weights + attention) + others)
    assert operations(BASE, CASES["forward-8x128-float32"]) == expected


def test_an_update_has_the_heads_and_twice_as_much_behind():
    forward = operations(BASE, CASES["forward-8x128-float32"])
    heads = 2 * (8 * 20 * (768 * 128 + 128 * 30000) + 8 * 768 * 2)
    assert operations(BASE, CASES["update-8x128-bfloat16"]) == 3 * (forward + heads)
