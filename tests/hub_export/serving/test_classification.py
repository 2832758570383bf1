import numpy as np
import pytest

import albert_tf
from albert_tf.tasks.classification import text_rows
from albert_tf.tasks.examples.records import TextRecord
from albert_tf.utils.errors import InputError
from hub_export.serving import Served, serving_signatures
from tests.hub_export.conftest import CONFIG
from tests.hub_export.serving.fine_tuned import outputs_of, served, softmax
from tests.tiny import DOCUMENTS

LABELS = ["schlecht", "so là là", "gut"]
TEXTS = [*DOCUMENTS[0][:5], "", " ".join(DOCUMENTS[1])]  # the last is longer than any input
PAIRS = DOCUMENTS[2][:7]
LENGTH = 20


@pytest.fixture(scope="module")
def classifier(piece_tokenizer):
    task = {"labels": LABELS, "seq_length": LENGTH}  # of texts and of pairs, as it does not say
    return served(albert_tf.AlbertClassifier(CONFIG, num_labels=3), piece_tokenizer, task)


def logits(asked, pairs=None):
    records = [
        TextRecord("f.csv", n, str(n), text, pair, None)
        for n, (text, pair) in enumerate(zip(TEXTS, pairs or [None] * len(TEXTS), strict=True))
    ]
    return outputs_of(asked.model, text_rows(records, asked.tokenizer, {}), LENGTH)[1]["logits"]


@pytest.mark.parametrize("pairs", [None, PAIRS])
def test_labels_and_scores_are_those_of_the_reader_and_the_model(classifier, pairs):
    expected = softmax(logits(classifier, pairs))
    asked = {"text": TEXTS} if pairs is None else {"text": TEXTS, "text_pair": pairs}
    found = classifier.ask("serving_default" if pairs is None else "pair", **asked)
    assert found.keys() == {"label", "score", "labels", "scores"}
    assert [[name.decode() for name in row] for row in found["labels"]] == [LABELS] * len(TEXTS)
    np.testing.assert_allclose(found["scores"], expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found["score"], expected.max(axis=1), rtol=0, atol=1e-5)
    assert [name.decode() for name in found["label"]] == [LABELS[n] for n in expected.argmax(axis=1)]
    assert pairs or len(set(found["label"])) > 1


def test_regression_is_one_number_a_row(piece_tokenizer):
    task = {"seq_length": LENGTH, "columns": {"text": "review", "text_pair": None, "label": "stars"}}
    regression = served(albert_tf.AlbertClassifier(CONFIG, num_labels=1), piece_tokenizer, task)
    assert sorted(regression.signatures) == ["serving_default", "tokens"]  # those of its columns
    found = regression.ask("serving_default", text=TEXTS)
    assert found.keys() == {"score"}
    np.testing.assert_allclose(found["score"], logits(regression)[:, 0], rtol=0, atol=1e-5)


def test_signatures_are_those_of_what_was_learned(classifier):
    assert sorted(classifier.signatures) == ["pair", "serving_default", "tokens"]
    task = {"columns": {"text": "a", "text_pair": "b", "label": "c"}}
    signatures = serving_signatures(Served(classifier.model, classifier.tokenizer, LENGTH, task))
    assert sorted(signatures) == ["pair", "serving_default", "tokens"]
    assert signatures["serving_default"] is signatures["pair"]
    assert signatures["pair"].example.keys() == {"text", "text_pair"}


def test_names_are_numbers_without_labels_and_must_be_as_many(classifier):
    def label_names(task):
        return Served(classifier.model, classifier.tokenizer, 16, task).label_names()

    assert label_names({}) == ["0", "1", "2"]
    assert label_names({"labels": [True, 1.5, 2]}) == ["True", "1.5", "2"]
    with pytest.raises(InputError, match=r"2 labels.*num_labels=3"):
        label_names({"labels": ["a", "b"]})
