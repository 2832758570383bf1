"""Probabilities, labels and scores of a TextClassifier, beside logits by hand."""

import itertools

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.metrics import r2_score

import albert_tf
from albert_tf.errors import InputError
from tests.albert_tf.inference.conftest import SENTENCES


def test_one_label_each(made, tmp_path):
    model = albert_tf.TextClassifier.from_pretrained(made("classification").run)
    logits, labels = model.predict(SENTENCES), ["no", "yes", "é"]
    np.testing.assert_allclose(model.predict_proba(SENTENCES), softmax(logits, axis=1), rtol=1e-5)
    right = logits.argmax(axis=1)
    assert model.predict_labels(SENTENCES, batch_size=3) == [labels[number] for number in right]
    shifted = right.copy()
    shifted[::2] = (shifted[::2] + 1) % 3
    share = (right == shifted).mean()
    for given in (shifted, [labels[number] for number in shifted], np.eye(3)[shifted]):
        assert model.score(SENTENCES, given) == share
    with pytest.raises(InputError, match=r"y\[0\]='maybe'"):
        model.score(SENTENCES, ["maybe"] * len(SENTENCES))
    with pytest.raises(InputError, match=r"threshold=0\.3.* 3"):
        albert_tf.TextClassifier.from_pretrained(made("classification").run, threshold=0.3)


def test_any_number_of_labels(made, tmp_path):
    model = albert_tf.TextClassifier.from_pretrained(made("multi_label").run)
    scores = expit(model.predict(SENTENCES))
    np.testing.assert_allclose(model.predict_proba(SENTENCES), scores, rtol=1e-5)
    expected = [tuple(name for name, score in zip("abc", row, strict=True) if score >= 0.4) for row in scores]
    assert model.predict_labels(SENTENCES) == expected
    answers = albert_tf.pipeline(model)(SENTENCES)
    assert [{label["label"] for label in answer} for answer in answers] == list(map(set, expected))
    right = scores >= 0.4
    right[::3, 1] ^= True
    share = 1 - len(right[::3]) / len(right)
    assert model.score(SENTENCES, right.astype(int)) == pytest.approx(share)
    model.compile()
    found = model.evaluate(SENTENCES, right.astype(int), return_dict=True, verbose=0)
    loss = -np.log(np.where(right, scores, 1 - scores)).mean()
    assert found["loss"] == pytest.approx(loss, rel=1e-4)
    model.save(tmp_path / "model.keras")
    again = albert_tf.TextClassifier.load(tmp_path / "model.keras")
    assert again.predict_labels(SENTENCES) == expected


def test_numbers(made):
    model = albert_tf.TextClassifier.from_pretrained(made("regression").run)
    pairs = list(itertools.pairwise(SENTENCES))
    numbers = model.predict(pairs)[:, 0]
    assert model.predict_labels(pairs) == numbers.tolist()
    given = numbers + np.arange(len(numbers)) % 2
    assert model.score(pairs, given) == pytest.approx(r2_score(given, numbers))
    with pytest.raises(InputError, match="predict_proba: a regression"):
        model.predict_proba(pairs)
