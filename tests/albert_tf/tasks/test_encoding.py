import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.examples import ChoiceRecord, TaggedRecord, TextRecord
from albert_tf.tasks.multi_label import MultiLabel
from albert_tf.tasks.multiple_choice import LONGEST_QUESTION, MultipleChoice
from albert_tf.tasks.regression import Regression
from albert_tf.tasks.tagging import Tagging
from albert_tf.text.text_tokenizer import ALBERT_IDS


@pytest.fixture(scope="module")
def ids(tiny_tokenizer):
    return lambda text: tiny_tokenizer(tf.constant([text])).to_list()[0]


def classes(*labels):
    return Classification({"labels": labels})


def choices(seq_length, num_choices=2):
    return MultipleChoice({"seq_length": seq_length, "num_choices": num_choices})


def tags(*labels, seq_length=64):
    return Tagging({"seq_length": seq_length, "labels": labels})


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
    texts = records(("the sea", None, "b"), ("", None, "a"))
    single = classes("a", "b").encode(texts, tiny_tokenizer.tokenize, True).rows
    assert segments(single) == [[ids("the sea")], [[]]]
    assert single.features["labels"].tolist() == [1, 0]
    assert single.features["labels"].dtype == np.int32
    texts = records(("the sea", "a cup", "2.5"), ("a", "", "0"))
    pairs = Regression({}).encode(texts, tiny_tokenizer.tokenize, True).rows
    assert segments(pairs) == [[ids("the sea"), ids("a cup")], [ids("a"), []]]
    assert pairs.features["labels"].tolist() == [2.5, 0]
    assert pairs.features["labels"].dtype == np.float32
    unlabelled = records(("the sea", None, None))
    assert classes("a", "b").encode(unlabelled, tiny_tokenizer.tokenize, False).rows.features == {}
    with pytest.raises(InputError, match=r"f\.csv:2"):
        classes("a", "b").encode(unlabelled, tiny_tokenizer.tokenize, True)


def test_several_labels(tiny_tokenizer):
    texts = records(("the sea", None, ("b", " a")), ("a", None, None), ("a", None, ("c", "c")))
    config = MultiLabel.model_config(texts)
    assert config["labels"] == ["a", "b", "c"] and config["num_labels"] == 3
    rows = MultiLabel(config).encode(texts, tiny_tokenizer.tokenize, True).rows
    assert rows.features["labels"].tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1]]
    with pytest.raises(InputError, match=r"f\.csv:2.*'d'"):
        MultiLabel(config).encode(records(("a", None, ("a", "d"))), tiny_tokenizer.tokenize, True)
    with pytest.raises(InputError, match=r"f\.csv"):
        MultiLabel.model_config(records(("a", None, None)))


def choice(context, question, options, label=1):
    return ChoiceRecord("f.jsonl:1", "0", "", context, question, options, label)


def test_choices_share_their_context_and_trim_it(tiny_tokenizer, ids):
    long = "the old clock and the sea and the old clock and the sea"
    asked = [
        choice(long, "what is _ ?", ("the sea", "a clock that stopped")),
        choice("the sea", "what", ("a cup", "no cup"), label=0),
        choice(long, "who", ("he", "she")),
    ]
    rows = choices(30).encode(asked, tiny_tokenizer.tokenize, True).rows
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
    assert rows.features["labels"].tolist() == [1, 0, 1]
    assert len(rows.tokens) == len(ids(long)) + len(ids("the sea")) + sum(len(ids(t)) for t in texts)
    assert rows.sequence_lengths.max() == 30
    unlabelled = [record._replace(label=None) for record in asked]
    assert choices(30).encode(unlabelled, tiny_tokenizer.tokenize, False).rows.features == {}
    with pytest.raises(InputError, match=r"f\.jsonl:1"):
        choices(30).encode(unlabelled, tiny_tokenizer.tokenize, True)


def test_of_a_long_question_the_end_stays(tiny_tokenizer, ids):
    text = "the sea " * 200
    rows = choices(512).encode([choice("a cup", text, ("one", "two"))], tiny_tokenizer.tokenize, True).rows
    assert segments(rows)[1] == [ids("a cup"), ids(text + " two")[-LONGEST_QUESTION:]]
    rows = choices(10).encode([choice("a cup", text, ("one", "two"))], tiny_tokenizer.tokenize, True).rows
    assert segments(rows)[1] == [[], ids(text + " two")[-7:]]


SENTENCES = [
    TaggedRecord("f.txt", 1, ("lighthouse", "\u200b", "sea"), ("B-X", "O", "I-X")),
    TaggedRecord("f.txt", 5, ("clock",), ("O",)),
]


def test_the_first_token_of_a_word_has_its_label(tiny_tokenizer, ids):
    found = tags("O", "B-X", "I-X").encode(SENTENCES, tiny_tokenizer.tokenize, True).rows
    words = [ids("lighthouse"), [ALBERT_IDS.unknown], ids("sea"), ids("clock")]
    assert len(words[0]) > 1
    assert segments(found) == [[[*words[0], *words[1], *words[2]]], [words[3]]]
    expected = [
        label if place == 0 else -1
        for word, label in zip(words, (1, 0, 2, 0), strict=True)
        for place in range(len(word))
    ]
    assert found.token_labels.tolist() == expected
    unlabelled = [record._replace(tags=None) for record in SENTENCES]
    assert set(tags("O").encode(unlabelled, tiny_tokenizer.tokenize, False).rows.token_labels) == {-1}
    with pytest.raises(InputError, match=r"f\.txt:1"):
        tags("O").encode(unlabelled, tiny_tokenizer.tokenize, True)
    with pytest.raises(InputError, match=r"f\.txt:1.*'I-X'"):
        tags("O", "B-X").encode(SENTENCES, tiny_tokenizer.tokenize, True)
