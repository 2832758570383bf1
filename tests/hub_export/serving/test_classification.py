import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.tasks.examples.records import TextRecord
from albert_tf.tasks.examples.texts import text_rows
from albert_tf.utils.errors import InputError
from hub_export.serving import Served, serving_signatures
from hub_export.warmup import read_requests
from tests.hub_export.conftest import CONFIG
from tests.hub_export.serving.fine_tuned import exported, outputs_of, softmax
from tests.tiny import DOCUMENTS

LABELS = ["schlecht", "so là là", "gut"]
TEXTS = [*DOCUMENTS[0][:5], "", " ".join(DOCUMENTS[1])]  # the last is longer than any input
PAIRS = DOCUMENTS[2][:7]
LENGTH = 20


@pytest.fixture(scope="module")
def classifier(tiny_vocabulary, tmp_path_factory):
    task = {"labels": LABELS, "seq_length": LENGTH}  # of texts and of pairs, as it does not say
    model = albert_tf.AlbertClassifier(CONFIG, num_labels=3)
    return exported(model, tiny_vocabulary, tmp_path_factory.mktemp("classifier"), task)


@pytest.fixture(scope="module")
def regression(tiny_vocabulary, tmp_path_factory):
    model = albert_tf.AlbertClassifier(CONFIG, num_labels=1)
    task = {"labels": None, "columns": {"text": "review", "text_pair": None, "label": "stars"}}
    task["seq_length"] = CONFIG.max_position_embeddings
    return exported(model, tiny_vocabulary, tmp_path_factory.mktemp("regression"), task)


def logits(served, pairs=None, seq_length=LENGTH):
    records = [
        TextRecord("f.csv", n, str(n), text, pair, None)
        for n, (text, pair) in enumerate(zip(TEXTS, pairs or [None] * len(TEXTS), strict=True))
    ]
    rows = text_rows(records, served.tokenizer, {})
    return outputs_of(served.model, rows, seq_length)[1]["logits"]


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


def test_a_text_is_answered_the_same_whatever_else_is_asked(classifier):
    together = classifier.ask("serving_default", text=TEXTS)
    assert len(set(together["label"])) > 1
    for row in (0, 5):
        alone = classifier.ask("serving_default", text=[TEXTS[row]])
        np.testing.assert_allclose(alone["scores"], together["scores"][row : row + 1], rtol=0, atol=1e-5)


def test_regression_is_one_number_a_row(regression):
    found = regression.ask("serving_default", text=TEXTS)
    assert found.keys() == {"score"}
    assert found["score"].dtype == np.float32
    expected = logits(regression, seq_length=CONFIG.max_position_embeddings)[:, 0]
    np.testing.assert_allclose(found["score"], expected, rtol=0, atol=1e-5)


def test_signatures_are_those_of_the_columns(classifier, regression):
    assert sorted(classifier.loaded.signatures) == ["pair", "serving_default", "tokens"]
    assert sorted(regression.loaded.signatures) == ["serving_default", "tokens"]
    for served in (classifier, regression):
        assert sorted(dict(read_requests(served.folder))) == sorted(served.loaded.signatures)


def test_a_model_of_pairs_answers_nothing_else(classifier):
    task = {"labels": LABELS, "columns": {"text": "a", "text_pair": "b"}}
    served = Served(classifier.model, classifier.tokenizer, LENGTH, task)
    signatures = serving_signatures(served)
    assert sorted(signatures) == ["pair", "serving_default", "tokens"]
    assert signatures["serving_default"] is signatures["pair"]
    assert signatures["pair"].example.keys() == {"text", "text_pair"}


def test_variables_are_the_models(classifier):
    assert len(classifier.loaded.variables) == len(classifier.model.variables)
    names = {variable.name for variable in classifier.loaded.variables}
    assert any("classifier" in name for name in names)


def test_the_encoder_of_a_fine_tuned_run_has_no_heads(classifier):
    encoder = tf.saved_model.load(str(classifier.folder.parents[1] / "encoder"))
    assert not any(hasattr(encoder, head) for head in ("mlm", "sop", "nsp"))
    assert len(encoder.variables) == len(classifier.model.encoder.weights)


def test_names_are_numbers_without_labels_and_must_be_as_many(classifier):
    def answers(task):
        served = Served(classifier.model, classifier.tokenizer, 16, task)
        return serving_signatures(served)["serving_default"].function(TEXTS[:1])

    assert answers({})["labels"].numpy().tolist() == [[b"0", b"1", b"2"]]
    assert answers({"labels": [True, 1.5, 2]})["labels"].numpy().tolist() == [[b"True", b"1.5", b"2"]]
    with pytest.raises(InputError, match=r"task\.json names 2 labels, and the model has num_labels=3"):
        answers({"labels": ["a", "b"]})
