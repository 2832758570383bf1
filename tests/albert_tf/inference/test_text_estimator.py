import pickle

import numpy as np
import pytest
import sklearn.utils.estimator_checks as checks
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import albert_tf
from albert_tf.checkpoints import RunDirectory
from albert_tf.sklearn import TextEstimator
from tests.tiny import DOCUMENTS, TINY

# Texts that are told apart by one word.
TEXTS = [f"{word} {sentence}" for sentence in DOCUMENTS[0][:4] * 4 for word in ("good", "bad")]
LABELS = np.array([7, -3] * 16)
QUICK = {"epochs": 1, "batch_size": 16, "seq_length": 16}


@pytest.fixture(scope="module")
def origin(tiny_vocabulary, tmp_path_factory):
    """A run to start from."""
    run = tmp_path_factory.mktemp("origin") / "run"
    albert_tf.save(albert_tf.AlbertEncoder(TINY), run, tiny_vocabulary)
    return str(run)


@pytest.fixture(scope="module")
def learned(origin):
    """An estimator that knows TEXTS by heart."""
    estimator = TextEstimator(origin, epochs=12, learning_rate=2e-3, batch_size=8, seq_length=16)
    return estimator.fit(TEXTS, LABELS)


def test_labels_are_learned_and_come_back_as_they_were_given(learned):
    assert learned.classes_.tolist() == [-3, 7]
    assert learned.score(TEXTS, LABELS) == 1
    assert learned.predict(TEXTS).dtype == LABELS.dtype


def test_probabilities_are_in_the_order_of_the_classes(learned):
    found = learned.predict_proba(TEXTS[:5])
    answers = albert_tf.pipeline(learned.run_)(TEXTS[:5])
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
    for row, answer in zip(found, answers, strict=True):
        assert row[[-3, 7].index(int(answer["label"]))] == answer["score"] == row.max()


def test_a_pickled_estimator_answers_when_the_first_is_gone(learned, origin):
    copied = pickle.loads(pickle.dumps(learned))
    assert copied.run_ != learned.run_
    np.testing.assert_array_equal(copied.predict_proba(TEXTS[:4]), learned.predict_proba(TEXTS[:4]))
    assert clone(learned).get_params() == learned.get_params()
    with pytest.raises(NotFittedError):
        clone(learned).predict(TEXTS)


def test_weights_of_labels_and_what_is_held_out_are_the_runs(origin):
    settings = {"class_weight": {7: 3.0}, "eval_share": 0.25, **QUICK}
    estimator = TextEstimator(origin, **settings).fit(TEXTS, LABELS)
    recipe = RunDirectory(estimator.run_).recipe
    assert recipe["class_weight"] == {"7": 3.0}
    assert recipe["eval_examples"] == {"dev": len(TEXTS) // 4}


def test_a_split_and_a_pipeline_take_it(origin):
    upper = FunctionTransformer(lambda texts: [text.upper() for text in texts])
    estimator = make_pipeline(upper, TextEstimator(origin, **QUICK))
    assert cross_val_score(estimator, TEXTS, LABELS, cv=2, scoring="roc_auc").shape == (2,)


@pytest.mark.slow
def test_a_search_takes_it(origin):
    search = GridSearchCV(TextEstimator(origin, **QUICK), {"learning_rate": [1e-4, 1e-3]}, cv=2)
    search.fit(TEXTS, LABELS)
    assert set(search.best_params_) == {"learning_rate"}
    assert 0 <= search.best_score_ <= 1


def test_regression_and_pairs(origin, tmp_path):
    numbers = np.linspace(-1, 3, len(TEXTS))
    estimator = TextEstimator(origin, task="regression", output=tmp_path / "run", **QUICK)
    pairs = [(text, "and more") for text in TEXTS]
    assert is_regressor(estimator)
    assert not hasattr(estimator, "predict_proba")
    found = estimator.fit(pairs, numbers).predict(pairs)
    assert found.shape == numbers.shape
    assert estimator.score(pairs, found) == 1
    assert pickle.loads(pickle.dumps(estimator)).run_ == str(tmp_path / "run")


@pytest.mark.parametrize(
    ("texts", "labels", "named"),
    [
        (TEXTS, LABELS[:-1], "31 labels"),
        (TEXTS, np.eye(32), "shape"),
        ([*TEXTS[:-1], 3], LABELS, "3"),
        (TEXTS, np.array(["a", "a "] * 16), "'a '"),
        (TEXTS, ["a"] * 32, "^X and y: the only label is 'a'"),
    ],
)
def test_what_does_not_fit_is_named(origin, texts, labels, named):
    with pytest.raises(ValueError, match=named):
        TextEstimator(origin).fit(texts, labels)


@pytest.mark.parametrize(
    "check",
    [
        checks.check_estimator_cloneable,
        checks.check_estimator_repr,
        checks.check_estimator_tags_renamed,
        checks.check_valid_tag_types,
        checks.check_no_attributes_set_in_init,
        checks.check_parameters_default_constructible,
        checks.check_do_not_raise_errors_in_init_or_set_params,
        checks.check_get_params_invariance,
        checks.check_set_params,
        checks.check_mixin_order,
        checks.check_estimators_unfitted,
    ],
    ids=lambda check: check.__name__,
)
def test_scikit_learns_own_checks(check, origin):
    """Those that give it no numbers in the place of texts."""
    estimator = TextEstimator(origin)
    assert is_classifier(estimator)
    check("TextEstimator", estimator)
