import numpy as np
import pytest
import tensorflow as tf

from albert_tf.recipes import LongTexts
from albert_tf.tasks.classification import text_rows
from albert_tf.tasks.examples import (
    ChoiceRecord,
    QuestionRecord,
    TextRecord,
    TokenizedExamples,
    character_offsets,
    row_lengths,
    tokenize_texts,
    truncation_report,
)
from albert_tf.tasks.long_texts import split_into_windows
from albert_tf.tasks.multiple_choice import MultipleChoice
from albert_tf.tasks.question_answering import QuestionAnswering
from albert_tf.text.text_tokenizer import TextTokenizer


def test_tokens_are_the_tokenizers(tiny_tokenizer):
    texts = ["the old clock", "", "é \ud800 sea", "a"] * 5
    found = tokenize_texts(tiny_tokenizer, texts, at_once=3)
    expected = tiny_tokenizer(tf.constant([text.replace("\ud800", "?") for text in texts])).to_list()
    assert found.to_list() == expected
    assert row_lengths(found).numpy().tolist() == [len(row) for row in expected]
    assert (found.dtype, row_lengths(found).dtype) == (tf.int32, tf.int32)
    of_two = tokenize_texts(
        lambda a, b: (tiny_tokenizer(a + b), tiny_tokenizer(b)), ["the "] * 2, ["sea", "cup"]
    )
    assert [part.to_list() for part in of_two] == [
        tiny_tokenizer(texts).to_list() for texts in (["the sea", "the cup"], ["sea", "cup"])
    ]


def test_lengths(piece_tokenizer):
    lengths = np.array([[[3, 1], [2, 4]], [[0, 0], [5, 5]]], np.int32)
    rows = TokenizedExamples(
        np.zeros(20, np.int32), np.zeros([2, 2, 2], np.int64), lengths, {}, piece_tokenizer.vocabulary
    )
    assert rows.sequence_lengths.tolist() == [[7, 9], [3, 13]]


def test_characters():
    text = "aä🐝\u2003z\ud800b"
    places = np.cumsum([0, *(len(x.encode("utf-8", "replace")) for x in text)])
    assert character_offsets(text, places).tolist() == list(range(len(text) + 1))


class Words(TextTokenizer):
    """A token a word: its length, and 1, the id of the unknown piece, for words in capitals."""

    kind = "wordpiece"

    def __call__(self, texts):
        split = tf.strings.split(texts)
        unknown = tf.strings.regex_full_match(split.values, "[A-Z]+")
        return split.with_values(tf.where(unknown, 1, 10 + tf.strings.length(split.values)))


@pytest.fixture
def rows(piece_tokenizer):
    def make(*texts, pair=None):
        records = [TextRecord("file", n, str(n), text, pair, "x") for n, text in enumerate(texts)]
        return text_rows(records, Words(piece_tokenizer.vocabulary), {}, 128)

    return make


def test_texts_that_are_longer(rows):
    assert truncation_report(rows("one two three", "one two three four"), 6) == []
    (line,) = truncation_report(rows("a b c d", "a b c d e", "a b c d e f g h i j k"), 7)
    assert "1 of 3" in line and "seq_length=7" in line and "30.0%" in line  # 6 of 20
    assert truncation_report(rows("a b c d e f"), 7, "head_tail")[0].endswith(
        "the beginning and the end of each are read"
    )
    (line,) = truncation_report(rows("a b", "a b c", pair="d e"), 7)  # with three special tokens
    assert "1 of 2" in line and "11.1%" in line  # 1 of 9


def test_choices_lose_their_contexts(piece_tokenizer):
    record = ChoiceRecord("file:1", "1", "", " ".join("abcdefghij"), "why", ("x", "y z"), 0)
    task = MultipleChoice({"seq_length": 10, "num_choices": 2})
    rows = task.encode([record], Words(piece_tokenizer.vocabulary), True).rows
    # 10 - 3 special tokens - 2 and 3 of question and option leave 5 and 4 of 10 of the context.
    assert rows.dropped.tolist() == [5 + 6]
    assert "44.0%" in truncation_report(rows, 10)[0]


def test_empty_texts_are_counted_once_whatever_their_windows(rows, piece_tokenizer):
    texts = rows("a b c d e f g h", "", "a b c d")
    windows = split_into_windows(texts, 5, LongTexts(long="windows", doc_stride=1))
    assert len(windows) > 5
    assert truncation_report(windows, 5)[0].startswith("1 of 3 texts is empty")
    config = {"seq_length": 10, "max_query_length": 4, "doc_stride": 2, "n_best": 1}
    asked = [
        QuestionRecord(f"f:{n}", str(n), question, "one two three four five six seven", (), False)
        for n, question in enumerate(("who", ""))
    ]
    found = QuestionAnswering(config).encode(asked, piece_tokenizer, False).rows
    assert len(found) > 4
    assert any(line.startswith("1 of 4 texts is empty") for line in truncation_report(found, 10))


def test_unknown_pieces_are_told_above_one_in_twenty(rows):
    for unknown, count in ((1, 0), (2, 1)):
        lines = truncation_report(rows(" ".join(["X"] * unknown + ["word"] * (20 - unknown))), 128)
        assert len(lines) == count
    assert "10.0%" in lines[0]
