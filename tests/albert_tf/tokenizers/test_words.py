import numpy as np
import tensorflow as tf

from albert_tf.tokenizers.words import SPACES, words_of

TEXTS = [
    "Ada Löwe lebt in Zürich .",
    "",
    " \t ",
    "one",
    "  two\u00a0three\u3000 four\u2028\x1cfive\n",
    "𝔘𝔫𝔦 \u200b zero-width",
]


def by_hand(text):
    """Words as Python splits them, with their bytes."""
    found, place = [], 0
    for word in text.split():
        place = text.index(word, place)
        start = len(text[:place].encode())
        found.append((word, start, start + len(word.encode())))
        place += len(word)
    return found


def listed(words):
    return [
        [(word.decode(), start, end) for word, start, end in zip(*row, strict=True)]
        for row in zip(*(ragged.to_list() for ragged in words), strict=True)
    ]


def test_words_are_those_of_python():
    assert listed(words_of(tf.constant(TEXTS))) == [by_hand(text) for text in TEXTS]
    for text in TEXTS:
        assert listed(words_of(tf.constant([text]))) == [by_hand(text)]


def test_spaces_are_those_of_python():
    assert set(SPACES) == {chr(code) for code in range(0x110000) if chr(code).isspace()}


def test_bytes_that_are_no_utf8_belong_to_words():
    (row,) = zip(*(ragged.to_list() for ragged in words_of(tf.constant([b"a\xff b\xc3"]))), strict=True)
    assert row == ([b"a\xff", b"b\xc3"], [0, 3], [2, 5])


def test_in_graph_of_any_size_and_without_asserts():
    function = tf.function(words_of, input_signature=[tf.TensorSpec([None], tf.string)])
    assert listed(function(tf.constant(TEXTS))) == [by_hand(text) for text in TEXTS]
    assert function(tf.constant([], tf.string)).text.to_list() == []
    ops = {op.type for op in function.get_concrete_function().graph.get_operations()}
    assert not {op for op in ops if "Assert" in op}


def test_a_long_text_takes_time_in_proportion():
    text = "word " * 50_000
    np.testing.assert_array_equal(words_of(tf.constant([text])).starts.flat_values, np.arange(50_000) * 5)
