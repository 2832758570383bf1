import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.tasks.tagging import word_tokens
from hub_export.serving_signatures import ServingModel, serving_signatures
from tests.hub_export.conftest import CONFIG
from tests.hub_export.serving.fine_tuned import served
from tests.tiny import DOCUMENTS

TAGS = ["O", "B-Ort", "I-Ort", "B-Wer"]
LENGTH = 12
TEXTS = [
    DOCUMENTS[0][0],
    "  Ada   Löwe, in\u00a0Zürich .\n",
    "\u200b \u0301 seen",  # words of which normalisation leaves nothing
    "one " + "verylongword" * 6 + " end",
    *DOCUMENTS[1],
]


@pytest.fixture(scope="module")
def tagger(piece_tokenizer):
    model = albert_tf.AlbertTokenClassifier(CONFIG, num_labels=4)
    return served(model, piece_tokenizer, {"labels": TAGS, "seq_length": LENGTH})


def test_words_are_where_they_stand(tagger):
    found = tagger.ask("tag", text=TEXTS)
    widest = max(len(text.split()) for text in TEXTS)
    assert {array.shape for array in found.values()} == {(len(TEXTS), widest)}
    for row, text in enumerate(TEXTS):
        words = text.split()
        assert [bool(label) for label in found["labels"][row]] == [n < len(words) for n in range(widest)]
        spans = zip(found["start"][row], found["end"][row], strict=True)
        assert [text.encode()[start:end].decode() for start, end in spans][: len(words)] == words


def test_texts_without_words(tagger):
    assert tagger.ask("tag", text=["", " "])["labels"].shape == (2, 0)
    assert tagger.ask("tag", text=tf.zeros([0], tf.string))["labels"].shape == (0, 0)
    among_others = tagger.ask("serving_default", text=["", TEXTS[0], " "])
    alone = tagger.ask("tag", text=TEXTS[:1])
    assert not among_others["scores"][[0, 2]].any()
    np.testing.assert_array_equal(among_others["labels"][1], alone["labels"][0])
    np.testing.assert_allclose(among_others["scores"][1], alone["scores"][0], rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def punctuation_tagger(tagger):
    task = {"labels": TAGS, "seq_length": LENGTH, "words": "punctuation"}
    signatures = serving_signatures(ServingModel(tagger.model, tagger.tokenizer, LENGTH, task))
    return tagger._replace(signatures=signatures)


MARKED = {
    "(Paris) ist “schön”.": ["(", "Paris", ")", "ist", "“", "schön", "”", "."],
    "Ada/Löwe": ["Ada", "/", "Löwe"],
    "  no marks ": ["no", "marks"],
    "": [],
    "…": ["…"],
}


def test_marks_are_words_of_their_own(punctuation_tagger):
    """As if somebody had split the texts; bytes are those in the text."""
    words = list(MARKED.values())
    found = punctuation_tagger.ask("tag", text=list(MARKED))
    widest = max(map(len, words))
    given = punctuation_tagger.ask("tag_words", words=[row + [""] * (widest - len(row)) for row in words])
    np.testing.assert_array_equal(found["labels"], given["labels"])
    np.testing.assert_allclose(found["scores"], given["scores"], atol=1e-5)
    for row, (text, split) in enumerate(MARKED.items()):
        spans = zip(found["start"][row], found["end"][row], strict=True)
        assert [text.encode()[start:end].decode() for start, end in spans][: len(split)] == split
        assert [bool(label) for label in found["labels"][row]] == [n < len(split) for n in range(widest)]


def test_words_as_they_are(tagger):
    """Words between spaces are those of the text; others stay whole, and an empty one is none."""
    text = "Mrs. Alder's (old) bees"
    expected = tagger.ask("tag", text=[text])
    found = tagger.ask("tag_words", words=[["", *text.split()], ["", "one", "", "", "two"]])
    assert found["labels"][0].tolist() == [b"", *expected["labels"][0]]
    np.testing.assert_allclose(found["scores"][0], [0, *expected["scores"][0]], atol=1e-5)
    assert [bool(label) for label in found["labels"][1]] == [False, True, False, False, True]
    np.testing.assert_array_equal(found["scores"][1] > 0, found["labels"][1] != b"")
    whole = tagger.ask("tag_words", words=[["New York", "a.b/c"]])
    assert whole["labels"].shape == (1, 2) and all(whole["labels"][0])
    assert tagger.ask("tag_words", words=tf.zeros([2, 0], tf.string))["labels"].shape == (2, 0)
    assert tagger.ask("tag_words", words=tf.zeros([0, 3], tf.string))["labels"].shape == (0, 3)


def test_a_word_without_tokens_is_an_unknown_one():
    pieces = tf.ragged.constant([[], [7, 8], [], [], [9], []], dtype=tf.int32)
    tokens, splits = word_tokens(pieces, 1)
    assert tokens.numpy().tolist() == [1, 7, 8, 1, 1, 9, 1]
    assert splits.numpy().tolist() == [0, 1, 3, 4, 5, 6, 7]
