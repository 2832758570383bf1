"""What is told of texts that a model does not read whole, counted by hand."""

import pytest
import tensorflow as tf

from albert_tf.tasks.examples.coverage import unread
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
def rows(piece_tokenizer):
    def make(*texts, pair=None):
        records = [TextRecord("file", n, str(n), text, pair, "x") for n, text in enumerate(texts)]
        return text_rows(records, Words(piece_tokenizer.vocabulary), {})

    return make


def test_texts_that_are_longer(rows):
    assert unread(rows("one two three", "one two three four"), 6) == []
    (line,) = unread(rows("a b c d", "a b c d e", "a b c d e f g h i j k"), 7)
    assert "1 of 3" in line and "seq_length=7" in line and "30.0%" in line  # 6 of 20
    (line,) = unread(rows("a b", "a b c", pair="d e"), 7)  # with three special tokens
    assert "1 of 2" in line and "11.1%" in line  # 1 of 9


def test_choices_lose_their_contexts(piece_tokenizer):
    record = ChoiceRecord("file:1", "1", "", " ".join("abcdefghij"), "why", ("x", "y z"), 0)
    kind = MultipleChoice({"seq_length": 10, "num_choices": 2})
    rows = kind.encode([record], Words(piece_tokenizer.vocabulary), True).rows
    # 10 - 3 special tokens - 2 and 3 of question and option leave 5 and 4 of 10 of the context.
    assert rows.dropped.tolist() == [5 + 6]
    assert rows.num_tokens == 2 * 10 + 2 + 3
    assert "44.0%" in unread(rows, 10)[0]


def test_unknown_pieces_are_told_above_one_in_twenty(rows):
    for unknown, count in ((1, 0), (2, 1)):
        lines = unread(rows(" ".join(["X"] * unknown + ["word"] * (20 - unknown))), 128)
        assert len(lines) == count
    assert "10.0%" in lines[0]
