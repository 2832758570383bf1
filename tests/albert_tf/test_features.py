"""What a pre-training batch is said to consist of."""

import pytest
import tensorflow as tf

from albert_tf.features import pretraining_spec

TOKENS = ("input_word_ids", "input_mask", "input_type_ids")


@pytest.mark.parametrize(
    ("objective", "labels"),
    [("sop", "sentence_order_labels"), ("nsp", "next_sentence_labels"), ("none", None)],
)
def test_pretraining_spec(objective, labels):
    expected = {name: ([None, 16], tf.int32) for name in TOKENS}
    expected["masked_lm_positions"] = expected["masked_lm_ids"] = ([None, 3], tf.int32)
    expected["masked_lm_weights"] = ([None, 3], tf.float32)
    if labels:
        expected[labels] = ([None], tf.int32)
    spec = pretraining_spec(None, 16, 3, objective)
    assert {name: (s.shape.as_list(), s.dtype) for name, s in spec.items()} == expected
    assert all(s.name == name for name, s in spec.items())
