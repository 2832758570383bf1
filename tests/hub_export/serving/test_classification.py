import pytest

import albert_tf
from albert_tf.errors import InputError
from hub_export.serving_signatures import Served, serving_signatures
from tests.hub_export.conftest import CONFIG
from tests.hub_export.serving.fine_tuned import served

LABELS = ["schlecht", "so là là", "gut"]
LENGTH = 20


@pytest.fixture(scope="module")
def classifier(piece_tokenizer):
    task = {"labels": LABELS, "seq_length": LENGTH}  # of texts and of pairs, as it does not say
    return served(albert_tf.AlbertClassifier(CONFIG, num_labels=3), piece_tokenizer, task)


def test_regression_is_one_number_a_row(piece_tokenizer):
    task = {"seq_length": LENGTH, "columns": {"text": "review", "text_pair": None, "label": "stars"}}
    regression = served(albert_tf.AlbertClassifier(CONFIG, num_labels=1), piece_tokenizer, task)
    assert sorted(regression.signatures) == [
        "embed",
        "head",
        "serving_default",
        "tokens",
    ]  # those of its columns
    found = regression.ask("serving_default", text=["", "a boat"])
    assert found.keys() == {"score"} and found["score"].shape == (2,)


def test_signatures_are_those_of_what_was_learned(classifier):
    found = classifier.ask("serving_default", text=["a boat"])
    assert found.keys() == {"label", "score", "labels", "scores"}
    assert [name.decode() for name in found["labels"][0]] == LABELS
    assert sorted(classifier.signatures) == ["embed", "head", "pair", "serving_default", "tokens"]
    task = {"columns": {"text": "a", "text_pair": "b", "label": "c"}}
    signatures = serving_signatures(Served(classifier.model, classifier.tokenizer, LENGTH, task))
    assert sorted(signatures) == ["embed", "head", "pair", "serving_default", "tokens"]
    assert signatures["serving_default"] is signatures["pair"]
    assert signatures["pair"].example.keys() == {"text", "text_pair"}


def test_names_are_numbers_without_labels_and_must_be_as_many(classifier):
    def label_names(task):
        return Served(classifier.model, classifier.tokenizer, 16, task).label_names()

    assert label_names({}) == ["0", "1", "2"]
    assert label_names({"labels": [True, 1.5, 2]}) == ["True", "1.5", "2"]
    with pytest.raises(InputError, match=r"2 labels.*num_labels=3"):
        label_names({"labels": ["a", "b"]})
