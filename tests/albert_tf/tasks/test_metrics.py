"""Metrics of records and predictions against counts by hand."""

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.tasks.classification import label_metrics
from albert_tf.tasks.examples import TextRecord
from albert_tf.tasks.metrics import accuracy
from albert_tf.tasks.multi_label import MultiLabel
from albert_tf.tasks.task import Prediction

NONE = np.zeros(2, np.float32)


def texts(*labels):
    return [TextRecord("f.tsv", n + 2, str(n), "", None, label) for n, label in enumerate(labels)]


def test_labels():
    """A whole number is the same with a fraction of zeros: of a table, or of a run of an older version."""
    metrics = label_metrics(accuracy=accuracy, zero=lambda right, predicted: 0.0)
    predictions = [Prediction(label, NONE) for label in ("1.0", "1", "2.0", "01")]
    assert metrics(None, texts("1", "1.0", "1", "1"), predictions) == {"accuracy": 0.5, "zero": 0.0}
    with pytest.raises(InputError, match=r"f\.tsv:3"):
        metrics(None, texts("1", None, "1", "1"), predictions)


def test_several_labels():
    """Of "a" one is right and one is missing, of "b" one is right and one is wrong, "c" is missing."""
    right = texts("a|b", "a|c", None, "")
    predictions = [Prediction(labels, NONE) for labels in (("a", "b"), (), (), ("b",))]
    metrics = MultiLabel({}).metrics(right, predictions)
    assert metrics == pytest.approx({"micro_f1": 4 / 7, "macro_f1": (2 / 3 + 2 / 3 + 0) / 3, "accuracy": 0.5})
    assert set(MultiLabel({}).metrics(texts(None), predictions[1:2]).values()) == {1}
