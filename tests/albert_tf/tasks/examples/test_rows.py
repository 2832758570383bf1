import numpy as np
import pytest
import tensorflow as tf

from albert_tf.tasks.examples.rows import TokenRows, check_length, row_lengths, tokenised, utf8


def test_tokens_are_the_tokenizers(tiny_tokenizer):
    texts = ["the old clock", "", "é \ud800 sea", "a"] * 5
    found = tokenised(tiny_tokenizer, texts, at_once=3)
    expected = tiny_tokenizer(tf.constant([text.replace("\ud800", "?") for text in texts])).to_list()
    assert found.to_list() == expected
    assert row_lengths(found).numpy().tolist() == [len(row) for row in expected]
    assert (found.dtype, row_lengths(found).dtype) == (tf.int32, tf.int32)


def test_functions_of_several_texts(tiny_tokenizer):
    found = tokenised(lambda a, b: tiny_tokenizer(a + b), ["the ", "a "], ["sea", "cup"])
    assert (
        found.flat_values.numpy().tolist()
        == tiny_tokenizer(["the sea", "a cup"]).flat_values.numpy().tolist()
    )


def test_packed_lengths():
    lengths = np.array([[[3, 1], [2, 4]], [[0, 0], [5, 5]]], np.int32)
    rows = TokenRows(np.zeros(20, np.int32), np.zeros([2, 2, 2], np.int64), lengths, {})
    assert rows.sequence_lengths.tolist() == [9, 13]
    assert len(rows) == 2


def test_small_helpers():
    assert utf8("aé\ud800") == b"a\xc3\xa9?"
    assert check_length("seq_length", 3, 3) == 3
    with pytest.raises(ValueError, match="seq_length=2 is too short: at least 3 tokens"):
        check_length("seq_length", 2, 3)
