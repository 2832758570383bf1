import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.tasks.encoding import choice_rows, tagged_rows, text_rows
from albert_tf.data.tasks.records import ChoiceRecord, TaggedRecord, TextRecord
from albert_tf.errors import InputError
from albert_tf.text.options import LONGEST_QUESTION
from albert_tf.text.vocabulary import ALBERT_IDS


@pytest.fixture(scope="module")
def ids(tiny_tokenizer):
    return lambda text: tiny_tokenizer(tf.constant([text])).to_list()[0]


def segments(rows):
    """The tokens of every segment of every sequence."""
    starts, lengths = (x.reshape(-1, x.shape[-1]) for x in (rows.starts, rows.lengths))
    return [
        [rows.tokens[s : s + n].tolist() for s, n in zip(*row, strict=True)]
        for row in zip(starts, lengths, strict=True)
    ]


def records(*rows):
    return [TextRecord("f.csv", n + 2, str(n), *row) for n, row in enumerate(rows)]


def test_texts_and_pairs(tiny_tokenizer, ids):
    single = text_rows(records(("the sea", None, "b"), ("", None, "a")), tiny_tokenizer, ("a", "b"))
    assert segments(single) == [[ids("the sea")], [[]]]
    assert single.features["labels"].tolist() == [1, 0]
    assert single.features["labels"].dtype == np.int32
    pairs = text_rows(records(("the sea", "a cup", "2.5"), ("a", "", "0")), tiny_tokenizer, None)
    assert segments(pairs) == [[ids("the sea"), ids("a cup")], [ids("a"), []]]
    assert pairs.features["labels"].tolist() == [2.5, 0]
    assert pairs.features["labels"].dtype == np.float32
    unlabelled = records(("the sea", None, None))
    assert text_rows(unlabelled, tiny_tokenizer, ("a", "b"), is_labelled=False).features == {}
    with pytest.raises(InputError, match=r"f\.csv:2: the row has no label"):
        text_rows(unlabelled, tiny_tokenizer, ("a", "b"))


def choice(context, question, options, label=1):
    return ChoiceRecord("f.jsonl:1", "0", "", context, question, options, label)


def test_choices_share_their_context_and_trim_it(tiny_tokenizer, ids):
    long = "the old clock and the sea and the old clock and the sea"
    asked = [
        choice(long, "what is _ ?", ("the sea", "a clock that stopped")),
        choice("the sea", "what", ("a cup", "no cup"), label=0),
        choice(long, "who", ("he", "she")),
    ]
    rows = choice_rows(asked, tiny_tokenizer, 30)
    texts = [
        "what is the sea ?",
        "what is a clock that stopped ?",
        "what a cup",
        "what no cup",
        "who he",
        "who she",
    ]
    contexts = [long, long, "the sea", "the sea", long, long]
    expected = []
    for text, context in zip(texts, contexts, strict=True):
        question = ids(text)[-27:]
        expected.append([ids(context)[: 27 - len(question)], question])
    assert segments(rows) == expected
    assert any(len(ids(context)) > len(told) for context, (told, _) in zip(contexts, expected, strict=True))
    assert rows.features["labels"].tolist() == [1, 0, 1]
    assert len(rows.tokens) == len(ids(long)) + 2 * 0 + len(ids("the sea")) + sum(len(ids(t)) for t in texts)
    assert rows.packed_lengths.max() == 30
    assert rows.starts.shape == (3, 2, 2)


def test_of_a_long_question_the_end_stays(tiny_tokenizer, ids):
    text = "the sea " * 200
    rows = choice_rows([choice("a cup", text, ("one", "two"))], tiny_tokenizer, 512)
    assert segments(rows)[1] == [ids("a cup"), ids(text + " two")[-LONGEST_QUESTION:]]
    rows = choice_rows([choice("a cup", text, ("one", "two"))], tiny_tokenizer, 10)
    assert segments(rows)[1] == [[], ids(text + " two")[-7:]]


def test_choices_without_labels(tiny_tokenizer):
    asked = [choice("a", "b", ("c", "d"), label=None)]
    assert choice_rows(asked, tiny_tokenizer, 16, is_labelled=False).features == {}
    with pytest.raises(InputError, match=r"f\.jsonl:1: label 'None' is none of '0', '1'"):
        choice_rows(asked, tiny_tokenizer, 16)


SENTENCES = [
    TaggedRecord("f.txt", 1, ("lighthouse", "\u200b", "sea"), ("B-X", "O", "I-X")),
    TaggedRecord("f.txt", 5, ("clock",), ("O",)),
]


def test_the_first_token_of_a_word_has_its_label(tiny_tokenizer, ids):
    found = tagged_rows(SENTENCES, tiny_tokenizer, 64, ("O", "B-X", "I-X"))
    words = [ids("lighthouse"), [ALBERT_IDS.unknown], ids("sea"), ids("clock")]
    assert len(words[0]) > 1
    assert segments(found.rows) == [[[*words[0], *words[1], *words[2]]], [words[3]]]
    expected = [
        label if place == 0 else -1
        for word, label in zip(words, (1, 0, 2, 0), strict=True)
        for place in range(len(word))
    ]
    assert found.rows.token_labels.tolist() == expected
    unlabelled = [record._replace(tags=None) for record in SENTENCES]
    assert set(tagged_rows(unlabelled, tiny_tokenizer, 64, ("O",), is_labelled=False).rows.token_labels) == {
        -1
    }
    with pytest.raises(InputError, match=r"f\.txt:1: words without tags"):
        tagged_rows(unlabelled, tiny_tokenizer, 64, ("O",))
    with pytest.raises(InputError, match=r"f\.txt:1: label 'I-X' is none of 'O', 'B-X'"):
        tagged_rows(SENTENCES, tiny_tokenizer, 64, ("O", "B-X"))


@pytest.mark.parametrize("seq_length", [3, 5, 9, 64])
def test_long_sentences_are_cut_and_every_word_is_answered(tiny_tokenizer, ids, seq_length):
    text = "the old clock was made of pear wood and stopped before the morning"
    words = (*text.split(" "),)
    sentences = [
        TaggedRecord("f.txt", n, words[n:], tuple(str(i) for i in range(n, len(words)))) for n in range(4)
    ]
    tags = [str(i) for i in range(len(words))]
    found = tagged_rows(sentences, tiny_tokenizer, seq_length, tags)
    assert found.rows.packed_lengths.max() <= seq_length
    pieces = [token for row in segments(found.rows) for token in row[0]]
    assert pieces == [token for sentence in sentences for word in sentence.words for token in ids(word)]
    longest = max(len(ids(word)) for word in words)
    starts = set(found.words.tolist())
    for (start,) in found.rows.starts:  # of a row: that of a word where one fits into it
        assert start in starts or longest > seq_length - 2
    # A model that is right at the first token of each word, and wrong elsewhere.
    values = np.full([len(found.rows), seq_length], -5)
    for number, ((start,), (length,)) in enumerate(zip(found.rows.starts, found.rows.lengths, strict=True)):
        labels = found.rows.token_labels[start : start + length]
        values[number, 1 : 1 + length] = np.where(labels >= 0, labels, -7)
    expected = [int(tag) for sentence in sentences for tag in sentence.tags]
    assert found.of_words(values).tolist() == expected
