"""Metrics of records and predictions against counts by hand."""

import numpy as np
import pytest

from albert_tf.tasks.classification import label_metrics
from albert_tf.tasks.examples.records import Answer, ChoiceRecord, QuestionRecord, TaggedRecord, TextRecord
from albert_tf.tasks.kind import Prediction
from albert_tf.tasks.metrics.labels import accuracy
from albert_tf.tasks.multi_label import MultiLabel
from albert_tf.tasks.multiple_choice import MultipleChoice
from albert_tf.tasks.question_answering import AnswerPrediction, FoundAnswer, QuestionAnswering
from albert_tf.tasks.tagging import Tagging
from albert_tf.utils.errors import InputError

NONE = np.zeros(2, np.float32)


def texts(*labels):
    return [TextRecord("f.tsv", n + 2, str(n), "", None, label) for n, label in enumerate(labels)]


def test_labels():
    """A whole number is the same with a fraction of zeros: of a table, or of a run of an older version."""
    metrics = label_metrics(accuracy=accuracy, zero=lambda right, predicted: 0.0)
    predictions = [Prediction(label, NONE) for label in ("1.0", "1", "2.0", "01")]
    assert metrics(texts("1", "1.0", "1", "1"), predictions) == {"accuracy": 0.5, "zero": 0.0}
    with pytest.raises(InputError, match=r"f\.tsv:3"):
        metrics(texts("1", None, "1", "1"), predictions)


def test_several_labels():
    """Of "a" one is right and one is missing, of "b" one is right and one is wrong, "c" is missing."""
    right = texts("a|b", "a|c", None, "")
    predictions = [Prediction(labels, NONE) for labels in (("a", "b"), (), (), ("b",))]
    metrics = MultiLabel.metrics(right, predictions)
    assert metrics == pytest.approx({"micro_f1": 4 / 7, "macro_f1": (2 / 3 + 2 / 3 + 0) / 3, "accuracy": 0.5})
    assert set(MultiLabel.metrics(texts(None), predictions[1:2]).values()) == {1}


def test_tags():
    record = TaggedRecord("f", 1, ("a", "b"), ("B-X", "I-X"))
    metrics = Tagging.metrics([record], [Prediction(("B-X", "O"), NONE)])
    assert metrics == {"precision": 0, "recall": 0, "f1": 0, "accuracy": 0.5}


def test_choices_by_group():
    groups = [("middle", 0), ("middle", 1), ("high", 0), ("high", 2), ("high", 1)]
    records = [ChoiceRecord("f", "", group, "", "", ("a", "b", "c"), right) for group, right in groups]
    predictions = [Prediction(0, NONE)] * 5
    assert MultipleChoice.metrics(records, predictions) == {
        "accuracy": 2 / 5,
        "accuracy_middle": 1 / 2,
        "accuracy_high": pytest.approx(1 / 3),
    }
    assert "accuracy_high" not in MultipleChoice.metrics(records[:2], predictions[:2])
    with pytest.raises(InputError, match=r"^f:"):
        MultipleChoice.metrics([records[0]._replace(label=None)], predictions[:1])


@pytest.mark.parametrize("odds", [None, -0.5])
def test_answers(odds):
    """One is right, one is not."""
    records = [QuestionRecord("f", name, "?", "red sea", (Answer("red", 0),), False) for name in "ab"]
    predictions = [
        AnswerPrediction((FoundAnswer(text, 0, 0, 0.0, 0.0, 1.0),), odds) for text in ("red", "sea")
    ]
    metrics = QuestionAnswering.metrics(records, predictions)
    assert metrics["exact_match" if odds is None else "exact"] == metrics["f1"] == 50
    assert ("best_f1" in metrics) == (odds is not None)
