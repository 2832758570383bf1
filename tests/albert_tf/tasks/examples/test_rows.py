import numpy as np
import pytest
import tensorflow as tf

from albert_tf.tasks.examples.rows import TokenRows, check_length, row_lengths, tokenised


def test_tokens_are_the_tokenizers(tiny_tokenizer):
    texts = ["the old clock", "", "é \ud800 sea", "a"] * 5
    found = tokenised(tiny_tokenizer, texts, at_once=3)
    expected = tiny_tokenizer(tf.constant([text.replace("\ud800", "?") for text in texts])).to_list()
    assert found.to_list() == expected
    assert row_lengths(found).numpy().tolist() == [len(row) for row in expected]
    assert (found.dtype, row_lengths(found).dtype) == (tf.int32, tf.int32)
    of_two = tokenised(lambda a, b: (tiny_tokenizer(a + b), tiny_tokenizer(b)), ["the "] * 2, ["sea", "cup"])
    assert [part.to_list() for part in of_two] == [
        tiny_tokenizer(texts).to_list() for texts in (["the sea", "the cup"], ["sea", "cup"])
    ]


def test_lengths():
    lengths = np.array([[[3, 1], [2, 4]], [[0, 0], [5, 5]]], np.int32)
    rows = TokenRows(np.zeros(20, np.int32), np.zeros([2, 2, 2], np.int64), lengths, {})
    assert rows.sequence_lengths.tolist() == [[7, 9], [3, 13]]
    assert check_length("seq_length", 3, 3) == 3
    with pytest.raises(ValueError, match=r"seq_length=2 .* 3 "):
        check_length("seq_length", 2, 3)
