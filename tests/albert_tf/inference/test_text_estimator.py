import copy
import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn.utils.estimator_checks as checks
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import albert_tf
from albert_tf.constants import WEIGHTS
from albert_tf.errors import InputError
from albert_tf.finetuning import finetune as run_module
from albert_tf.finetuning.finetuning_recipes import FINETUNING_RECIPES
from albert_tf.inference import estimator_data
from albert_tf.inference.estimator_data import check_one_dimensional, column_names
from albert_tf.inference.inputs import expand_weight
from albert_tf.recipes import LongTexts
from albert_tf.runs.checkpoints import checkpoint_parts
from albert_tf.runs.run_directory import RunDirectory
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
    albert_tf.save(albert_tf.AlbertEncoder(TINY.replace(num_hidden_layers=1)), run, tiny_vocabulary)
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
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-15)
    np.testing.assert_array_equal(learned.predict_log_proba(TEXTS[:5]), np.log(found))
    for row, answer in zip(found, answers, strict=True):
        assert row[[-3, 7].index(int(answer["label"]))] == row.max() == pytest.approx(answer["score"])


def test_a_pickled_estimator_answers_when_the_first_is_gone(learned, origin):
    copied = pickle.loads(pickle.dumps(learned))
    (step,) = RunDirectory(copied.run_).steps()
    assert checkpoint_parts(copied.run_, step) == {"model"}  # nothing of the optimizer
    assert copied.run_ != learned.run_
    np.testing.assert_array_equal(copied.predict_proba(TEXTS[:4]), learned.predict_proba(TEXTS[:4]))
    assert clone(learned).get_params() == learned.get_params()
    with pytest.raises(NotFittedError):
        clone(learned).predict(TEXTS)


@pytest.mark.slow
def test_weights_of_labels_and_what_is_held_out_are_the_runs(origin):
    """Labels that are floats have the names that tables give them."""
    settings = {"class_weight": {7.0: 3.0}, "eval_share": 0.25, "label_smoothing": 0.1, "best_by": "loss"}
    settings |= {
        **QUICK,
        "epochs": None,
        "steps": np.int64(3),
        "threshold": np.float32(1e-9),
    }  # as grids have them
    labels = LABELS.astype(float)
    estimator = TextEstimator(origin, **settings).fit(TEXTS, labels, sample_weight=[0, 1] * 16)
    run = RunDirectory(estimator.run_)
    assert run.recipe["class_weight"] == {"7.0": 3.0}
    assert run.recipe["eval_examples"] == {"dev": len(TEXTS) // 4}
    assert (run.recipe["label_smoothing"], run.recipe["steps"]) == (0.1, 3)
    assert run.task["best_by"] == "eval_loss"
    assert estimator.predict(TEXTS).tolist() == [7.0] * len(TEXTS)  # by the threshold
    assert estimator.predict_proba(TEXTS).min() > 1e-9
    assert estimator.threshold_ == pytest.approx(1e-9)


def test_what_weighs_nothing_is_not_learned(origin, monkeypatch):
    """Weights arrive in the loss, whatever rows are held out."""
    seen = []
    monkeypatch.setattr(
        run_module, "training_losses", lambda data, _: (seen.append(data), pytest.fail("trained"))
    )
    weights = np.arange(len(TEXTS)) / 2
    for settings in ({}, {"long": "windows", "doc_stride": 2}):
        with pytest.raises(pytest.fail.Exception):
            TextEstimator(origin, **{**QUICK, **settings, "seq_length": 6}).fit(TEXTS, LABELS, weights)
        data = seen.pop()
        expected = [weights[int(record.id)] for record in data.sets.train]
        found = data.rows.features[WEIGHTS]
        assert (len(found) > len(expected)) == bool(settings)
        if settings:
            ends = np.flatnonzero(np.diff(data.rows.starts[:, 0]) > 2) + 1
            found = [part.sum() for part in np.split(found, ends)]
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_number_weighs_all_texts(origin, learned):
    assert expand_weight(2, 3).tolist() == [2.0, 2.0, 2.0]
    right = [*LABELS[:-1], -LABELS[-1]]
    assert learned.score(TEXTS, right, sample_weight=3.0) == learned.score(TEXTS, right) < 1
    for wrong in (0, -1, np.inf):
        with pytest.raises(InputError, match="sample_weight"):
            TextEstimator(origin).fit(TEXTS, LABELS, wrong)


@pytest.mark.slow
def test_a_split_and_a_pipeline_take_it(origin, tmp_path, capfd):
    """Each fit replaces the run of another, and nothing else; each estimator keeps its own weights."""
    upper = FunctionTransformer(lambda texts: [text.upper() for text in texts])
    estimator = make_pipeline(upper, TextEstimator(origin, output=tmp_path / "run", **QUICK))
    texts = TEXTS[:16] + [f"so {text}" for text in TEXTS[16:]]
    found = cross_validate(estimator, texts, LABELS, cv=2, scoring="roc_auc", return_estimator=True)
    assert found["test_score"].shape == (2,)
    first, second = (fitted[-1] for fitted in found["estimator"])
    assert first.run_ == second.run_ == str(tmp_path / "run")
    answers = albert_tf.pipeline(tmp_path / "run")(TEXTS[:2], top_k=2)
    best = [max(row) for row in second.predict_proba(TEXTS[:2])]
    assert [answer[0]["score"] for answer in answers] == pytest.approx(best)
    assert not np.array_equal(first.predict_proba(TEXTS[:2]), second.predict_proba(TEXTS[:2]))
    assert "step" not in capfd.readouterr().err
    there = {path.name: path.read_bytes() for path in (tmp_path / "run").glob("*.json")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            estimator_data, "_write", lambda folder, files: Path(folder).read_bytes()
        )  # a disk that fails
        with pytest.raises(OSError, match="run"):
            first._run.copy_to(RunDirectory(tmp_path / "run"))
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").glob("*.json")} == there
    assert albert_tf.pipeline(tmp_path / "run")(TEXTS[:2], top_k=2) == answers
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    for place in (origin, tmp_path / "other"):
        with pytest.raises(FileExistsError, match=str(place)):
            TextEstimator(origin, output=place).fit(TEXTS, LABELS)
    assert (tmp_path / "other/file").exists()


def test_what_others_put_beside_a_run_is_not_deleted(learned, origin, tmp_path):
    run = shutil.copytree(learned.run_, tmp_path / "run")
    estimator_data.check_replaceable(RunDirectory(run))
    (run / "thesis.txt").write_text("The only copy.")
    with pytest.raises(FileExistsError, match=r"thesis\.txt"):
        TextEstimator(origin, output=run, **QUICK).fit(TEXTS, LABELS)
    assert (run / "thesis.txt").exists()


@pytest.mark.slow
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
    again = TextEstimator.from_pretrained(tmp_path / "run")
    assert is_regressor(again) and again.predict(pairs).tolist() == found.tolist()


def test_the_estimator_of_a_run(learned, origin, tmp_path):
    again = TextEstimator.from_pretrained(learned.run_, epochs=1)
    assert again.classes_.tolist() == ["-3", "7"] and again.get_params()["init_from"] == learned.run_
    np.testing.assert_array_equal(again.predict_proba(TEXTS[:3]), learned.predict_proba(TEXTS[:3]))
    for labels in (LABELS.astype(str), LABELS, pd.Series(LABELS.astype(float))):  # as pandas may read them
        assert again.score(TEXTS, labels) == 1
    with pytest.warns(DataConversionWarning):
        assert again.score(TEXTS, pd.DataFrame({"label": LABELS})) == 1  # a column
    folder = tmp_path / "seeds"
    shutil.copytree(learned.run_, folder / "seed-0")
    (folder / "summary.json").write_text('{"best_run": "seed-0"}')
    best = TextEstimator.from_pretrained(folder)
    assert best.get_params()["init_from"] == str(folder / "seed-0")  # which `fit` takes
    with pytest.raises(InputError, match="fine-tune it first"):
        TextEstimator.from_pretrained(origin)


def test_columns_are_those_of_fit(learned):
    """Pairs in another order would be other texts."""
    table = pd.DataFrame({"good": TEXTS[:2], "other": TEXTS[:2]})
    named = copy.copy(learned)._set_fitted(learned._run, learned.classes_, column_names(table[["good"]]))
    assert named.feature_names_in_.tolist() == ["good"]
    expected = learned.predict(TEXTS[:2]).tolist()
    assert named.predict(table[["good"]]).tolist() == named.predict(TEXTS[:2]).tolist() == expected
    with pytest.raises(InputError, match="columns other: `fit` was given good"):
        named.predict(table[["other"]])


def test_labels_in_a_column_are_taken_with_a_warning():
    with pytest.warns(DataConversionWarning):
        assert check_one_dimensional(LABELS[:, np.newaxis]).tolist() == LABELS.tolist()


def test_parameters_are_in_the_documentation():
    table = (Path(__file__).parents[3] / "docs/keras.md").read_text("utf-8").partition("| parameter |")[2]
    documented = {}
    for line in table.partition("\n\n")[0].splitlines()[2:]:
        names, default, _ = line.strip("|").split(" | ", 2)
        documented |= dict.fromkeys(re.findall(r"`(\w+)`", names), default.strip().strip("`"))
    settings, recipe = TextEstimator().get_params(), FINETUNING_RECIPES["classification"]
    assert documented.keys() == settings.keys()
    for name, value in settings.items():
        value = getattr(recipe, name, getattr(LongTexts, name, None)) if value is None else value
        if name not in ("epochs", "steps", "best_by"):
            expected = "none" if value is None else f'"{value}"' if isinstance(value, str) else str(value)
            assert documented[name].replace("3e-5", "3e-05") == expected


@pytest.mark.parametrize(
    ("texts", "labels", "named"),
    [
        ("one text", LABELS, "list of texts"),
        (TEXTS, [*LABELS[:-1].tolist(), None], r"y\[31\]=None"),
        (TEXTS, [*["a", "b"] * 15, "a", float("nan")], r"y\[31\]=nan"),
        ([], [], "0 texts"),
        (TEXTS, np.array([1, "a"] * 16, object), "several types"),
        (TEXTS, np.linspace(0, 1, 32), "continuous"),
        (TEXTS, LABELS[:-1], "31 labels"),
        (TEXTS, np.eye(32), "multi_label"),
        (TEXTS, [{"a"}, {"a", "b"}] * 16, "multi_label"),
        (TEXTS, [["a"], ["a", "b"]] * 16, "multi_label"),
        (TEXTS, None, "y is missing"),
        ([*TEXTS[:-1], 3], LABELS, "3"),
        (TEXTS, np.array(["a", "a "] * 16), "'a '"),
        (TEXTS, ["a"] * 32, "^X and y: the only label is 'a'"),
    ],
)
def test_what_does_not_fit_is_named(origin, texts, labels, named):
    with pytest.raises(ValueError, match=named):
        TextEstimator(origin).fit(texts, labels)


def test_what_is_missing_is_named(origin, learned):
    with pytest.raises(InputError, match=r"y\[1\]=nan"):
        TextEstimator(origin, task="regression").fit(["a", "b"], [0.5, np.nan])
    for weights, named in (([1.0], r"\[1\]"), ([*[1] * 31, np.nan], r"\[31\]=nan"), ([0] * 32, "0")):
        with pytest.raises(InputError, match=f"sample_weight.*{named}"):
            TextEstimator(origin).fit(TEXTS, LABELS, weights)
    with pytest.raises(InputError, match="init_from"):
        TextEstimator().fit(TEXTS, LABELS)
    for wrong, named in ({"seed": None}, "seed=None"), ({"task": "tagging"}, "albert-tf finetune"):
        with pytest.raises(InputError, match=named):
            TextEstimator(origin, **wrong).fit(TEXTS, LABELS)
    for function in (learned.predict, learned.predict_proba):
        with pytest.raises(InputError, match=r"X='one text' .* list"):
            function("one text")


@pytest.mark.parametrize(
    "check",
    [
        checks.check_no_attributes_set_in_init,
        checks.check_parameters_default_constructible,
        checks.check_do_not_raise_errors_in_init_or_set_params,
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
