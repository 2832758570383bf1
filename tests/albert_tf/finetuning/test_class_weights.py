"""Weights of labels and smoothed labels: against scikit-learn, and in a run."""

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight

from albert_tf.conversion.init_from import InitFrom
from albert_tf.errors import InputError
from albert_tf.finetuning.data import class_weights, encode_splits, read_splits, training_kind
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.finetuned_model import load_finetuned
from albert_tf.finetuning.finetuning_recipes import FINETUNING_RECIPES
from albert_tf.finetuning.task_table import TASK_SPECS, task_entries
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.losses import LABEL
from tests.albert_tf.finetuning.runs import RECIPE
from tests.albert_tf.pretraining.runs import metrics
from tests.tiny import TINY

NAMES = ["0", "1", "2", "3"]


def test_balanced_is_scikit_learns():
    targets = np.random.default_rng(0).choice(4, 300, p=[0.6, 0.3, 0.07, 0.03])
    expected = compute_class_weight("balanced", classes=np.arange(4), y=targets)
    np.testing.assert_allclose(class_weights("balanced", NAMES, targets), expected)
    # Tokens without a label are none, and a label that training has not seen does not count.
    tokens = np.concatenate([targets, np.full(50, -1)])
    np.testing.assert_allclose(class_weights("balanced", [*NAMES, "4"], tokens), [*expected, 1])


def test_balanced_of_several_labels_weighs_those_with_and_without_alike():
    targets = np.array([[1, 0, 1, 0], [0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]])
    assert class_weights("balanced", NAMES, targets) == [3, 1, 1, 1 / 3]


def test_weights_by_label():
    targets = np.arange(4)
    assert class_weights({"3": 2.5, "1.0": 0}, NAMES, targets) == [1, 0, 1, 2.5]  # 1.0 is 1
    with pytest.raises(InputError, match="class_weight: label='4' is none of 0, 1, 2, 3"):
        class_weights({"4": 1.0}, NAMES, targets)


def test_how_weights_are_written():
    replace = FINETUNING_RECIPES["classification"].replace
    for asked in ('{"a": 2, "b": 0.5}', {"a": 2, "b": 0.5}):
        assert replace(class_weight=asked).class_weight == {"a": 2.0, "b": 0.5}
    assert replace(class_weight={0: 3}).class_weight == {"0": 3.0}
    assert replace(class_weight="balanced").class_weight == "balanced"
    for asked, message in (
        ("even", "class_weight='even'"),
        ("[1, 2]", "class_weight="),
        ('{"a": -1}', r"class_weight\['a'\]=-1"),
    ):
        with pytest.raises(InputError, match=message):
            replace(class_weight=asked)


FITTED = {**RECIPE, "class_weight": {"speech": 40.0}, "label_smoothing": 0.2}


@pytest.fixture(scope="module")
def weighted(asked, made_once):
    """A run of six updates with weights and smoothing."""
    return made_once("weighted", lambda folder: finetune(asked(folder, recipe=FITTED)))


def test_training_is_weighted_and_evaluations_are_not(weighted, finetuned, own_table):
    first = {run: metrics(run)[0] for run in (weighted, finetuned)}
    assert first[weighted]["loss"] > 3 * first[finetuned]["loss"]
    recipe = RunDirectory(weighted).recipe
    assert (recipe["class_weight"], recipe["label_smoothing"]) == ({"speech": 40.0}, 0.2)
    trained, kinds = load_finetuned(weighted, 6), ["speech", "tale"]
    records = trained.task.format.read(own_table, True, Columns("text", None, "kind"))
    chances = [
        found.scores[kinds.index(record.label)]
        for record, found in zip(records, trained.predicted(records).predictions, strict=True)
    ]
    (line,) = (line for line in metrics(weighted) if "eval_loss" in line and line["step"] == 6)
    assert line["eval_loss"] == pytest.approx(-np.log(chances).mean(), rel=1e-4)


def test_weights_of_tags_are_by_words(tiny_vocabulary, tmp_path):
    """Of which each counts once, however many tokens it has."""
    file = tmp_path / "own.conll"
    file.write_text("boats O\nand O\nMrs. B-X\n\nboats O\nKept B-Y\n" * 4)
    task = TASK_SPECS["tagging"]
    sets = read_splits(task, None, file, file, None)
    start = InitFrom(TINY, tiny_vocabulary, {"lowercase": True, "strip_accents": True}, None)
    data = encode_splits(task, task_entries("tagging", sets.train, 32), sets, start)
    kind = training_kind(data, FINETUNING_RECIPES["tagging"].replace(class_weight="balanced"))
    assert list(data.kind.labels) == ["O", "B-X", "B-Y"]
    np.testing.assert_allclose(kind.losses["label"].term.keywords["class_weights"], [5 / 9, 5 / 3, 5 / 3])
    assert data.kind.losses is LABEL  # of evaluations
