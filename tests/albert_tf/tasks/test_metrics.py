"""Metrics of records and predictions against counts by hand and the recorded scores of SQuAD's scripts."""

import json

import numpy as np
import pytest

from albert_tf.tasks.classification import label_metrics
from albert_tf.tasks.datasets.squad import read_squad
from albert_tf.tasks.examples.predictions import (
    AnswerPrediction,
    ChoicePrediction,
    FoundAnswer,
    LabelPrediction,
    LabelsPrediction,
    ScorePrediction,
    TagPrediction,
)
from albert_tf.tasks.examples.records import ChoiceRecord, TaggedRecord, TextRecord
from albert_tf.tasks.metrics.labels import accuracy
from albert_tf.tasks.metrics.squad import squad_scores
from albert_tf.tasks.multi_label import MultiLabel
from albert_tf.tasks.multiple_choice import MultipleChoice
from albert_tf.tasks.question_answering import QuestionAnswering
from albert_tf.tasks.regression import Regression
from albert_tf.tasks.tagging import Tagging
from albert_tf.utils.errors import InputError

NONE = np.zeros(2, np.float32)


def texts(*labels):
    return [TextRecord("f.tsv", n + 2, str(n), "", None, label) for n, label in enumerate(labels)]


def test_labels():
    metrics = label_metrics(accuracy=accuracy, zero=lambda right, predicted: 0.0)
    predictions = [LabelPrediction(label, NONE) for label in "aab"]
    assert metrics(texts("a", "b", "b"), predictions) == {"accuracy": 2 / 3, "zero": 0.0}
    with pytest.raises(InputError, match=r"f\.tsv:3: the row has no label"):
        metrics(texts("a", None, "b"), predictions)


def test_several_labels():
    """Of "a" one is right and one is missing, of "b" one is right and one is wrong, "c" is missing."""
    right = texts("a|b", "a|c", None, "")
    predictions = [LabelsPrediction(labels, NONE) for labels in (("a", "b"), (), (), ("b",))]
    metrics = MultiLabel.metrics(right, predictions)
    assert metrics == pytest.approx({"micro_f1": 4 / 7, "macro_f1": (2 / 3 + 2 / 3 + 0) / 3, "accuracy": 0.5})
    nothing = MultiLabel.metrics(texts(None), predictions[1:2])
    assert nothing == {"micro_f1": 1, "macro_f1": 1, "accuracy": 1}


def test_scores():
    predictions = [ScorePrediction(np.float32(score)) for score in (1, 2, 4)]
    metrics = Regression.metrics(texts("1", "2", "3"), predictions)
    assert metrics == {"pearson": pytest.approx(0.98198, abs=1e-5), "spearman": pytest.approx(1)}


def test_tags():
    records = [TaggedRecord("f", 1, ("a", "b"), ("B-X", "I-X")), TaggedRecord("f", 4, ("c",), ("B-Y",))]
    predictions = [TagPrediction(("B-X", "O"), NONE), TagPrediction(("B-Y",), NONE[:1])]
    assert Tagging.metrics(records, predictions) == {
        "precision": 0.5,
        "recall": 0.5,
        "f1": 0.5,
        "accuracy": pytest.approx(2 / 3),
    }


def test_choices_by_group():
    groups = [("middle", 0), ("middle", 1), ("high", 0), ("high", 2), ("high", 1)]
    records = [ChoiceRecord("f", "", group, "", "", ("a", "b", "c"), right) for group, right in groups]
    predictions = [ChoicePrediction(0, NONE)] * 5
    assert MultipleChoice.metrics(records, predictions, ("middle", "high")) == {
        "accuracy": 2 / 5,
        "accuracy_middle": 1 / 2,
        "accuracy_high": pytest.approx(1 / 3),
    }
    assert MultipleChoice.metrics(records[:2], predictions[:2], ("middle", "high")).keys() == {
        "accuracy",
        "accuracy_middle",
    }
    assert MultipleChoice.metrics(records, predictions) == {"accuracy": 2 / 5}
    with pytest.raises(InputError, match=r"^f:"):
        MultipleChoice.metrics([records[0]._replace(label=None)], predictions[:1])


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_answers_are_scored_as_by_the_scripts(shared, version):
    folder = shared / "golden/squad_metrics"
    is_second = version == "2.0"
    answers = json.loads((folder / f"predictions-v{version}.json").read_text("utf-8"))
    records = [
        record
        for record in read_squad(folder / f"dev-v{version}.json", is_second, needs_answers=True)
        if record.id in answers
    ]
    # Odds that agree with the answers: above 0 where the answer is empty.
    odds = {record.id: 0.5 if not answers[record.id] else -0.5 for record in records}
    predictions = [
        AnswerPrediction(
            (FoundAnswer(answers[record.id], 0, 0, 0.0, 0.0, 1.0),), odds[record.id] if is_second else None
        )
        for record in records
    ]
    metrics = QuestionAnswering.metrics(records, predictions)
    dataset = folder / f"dev-v{version}.json"
    assert metrics == pytest.approx(squad_scores(dataset, answers, odds if is_second else None), abs=1e-9)
    assert set(metrics) >= ({"exact", "f1", "best_f1"} if is_second else {"exact_match", "f1"})
    assert len(records) > 20


def test_a_whole_number_is_the_same_label_with_a_fraction_of_zeros():
    """Of the table, or of a run whose labels an older version has spelled so."""
    metrics = label_metrics(accuracy=accuracy)
    predictions = [LabelPrediction(label, NONE) for label in ("1.0", "1", "2.0", "01")]
    assert metrics(texts("1", "1.0", "1", "1"), predictions) == {"accuracy": 0.5}
