import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.tasks.tagging import word_tokens
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


def test_a_word_without_tokens_is_an_unknown_one():
    pieces = tf.ragged.constant([[], [7, 8], [], [], [9], []], dtype=tf.int32)
    tokens, splits = word_tokens(pieces, 1)
    assert tokens.numpy().tolist() == [1, 7, 8, 1, 1, 9, 1]
    assert splits.numpy().tolist() == [0, 1, 3, 4, 5, 6, 7]
