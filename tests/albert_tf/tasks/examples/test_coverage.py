"""What is told of texts that a model does not read whole, counted by hand."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.tasks.examples.coverage import dropped_tokens, unread
from albert_tf.tasks.examples.records import ChoiceRecord, TextRecord
from albert_tf.tasks.examples.texts import text_rows
from albert_tf.tasks.multiple_choice import MultipleChoice


class Words:
    """A token a word: its length, and 1, the id of the unknown piece, for words in capitals."""

    def __init__(self, vocabulary):
        self.vocabulary = vocabulary

    def __call__(self, texts):
        split = tf.strings.split(texts)
        unknown = tf.strings.regex_full_match(split.values, "[A-Z]+")
        return split.with_values(tf.where(unknown, 1, 10 + tf.strings.length(split.values)))


@pytest.fixture
def words(piece_tokenizer):
    return Words(piece_tokenizer.vocabulary)


def texts(*lines):
    return [TextRecord("file", n, str(n), line, None, "x") for n, line in enumerate(lines)]


def pairs(*lines):
    return [TextRecord("file", n, str(n), *line, "x") for n, line in enumerate(lines)]


def test_what_fits_is_not_told(words):
    rows = text_rows(texts("one two three", "one two three four"), words, {})
    assert unread(rows, 6) == []


def test_texts_that_are_longer(words):
    rows = text_rows(texts("a b c d", "a b c d e", "a b c d e f g h i j k"), words, {})
    np.testing.assert_array_equal(dropped_tokens(rows, 7), [0, 0, 6])
    (line,) = unread(rows, 7)
    assert "1 of 3" in line and "seq_length=7" in line and "30.0%" in line  # 6 of 20


def test_pairs_have_three_special_tokens(words):
    rows = text_rows(pairs(("a b", "c d"), ("a b c", "d e")), words, {})
    np.testing.assert_array_equal(dropped_tokens(rows, 7), [0, 1])


def test_choices_lose_their_contexts(words):
    record = ChoiceRecord("file:1", "1", "", " ".join("abcdefghij"), "why", ("x", "y z"), 0)
    rows = MultipleChoice({"seq_length": 10, "num_choices": 2}).encode([record], words, True).rows
    # 10 - 3 special tokens - 2 and 3 of question and option leave 5 and 4 of 10 of the context.
    np.testing.assert_array_equal(dropped_tokens(rows, 10), [5 + 6])
    assert rows.num_tokens == 2 * 10 + 2 + 3


@pytest.mark.parametrize(("unknown", "is_told"), [(1, False), (2, True)])
def test_unknown_pieces_are_told_above_one_in_twenty(words, unknown, is_told):
    rows = text_rows(texts(" ".join(["X"] * unknown + ["word"] * (20 - unknown))), words, {})
    lines = unread(rows, 128)
    assert bool(lines) == is_told
    assert not lines or "10.0%" in lines[0]
