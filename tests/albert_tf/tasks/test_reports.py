"""What reports of predictions consist of, beside scikit-learn's and seqeval's own reports and hand counts."""

import numpy as np
import pytest
from seqeval.metrics import classification_report as entity_report
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    classification_report,
    confusion_matrix,
    f1_score,
    matthews_corrcoef,
    roc_auc_score,
)

from albert_tf.errors import InputError
from albert_tf.report import Report
from albert_tf.tasks.classification import label_metrics
from albert_tf.tasks.examples import Answer, QuestionRecord, TextRecord
from albert_tf.tasks.metrics import PREFIXES, accuracy, calibration, find_scheme, precision_recall, thresholds
from albert_tf.tasks.multi_label import MultiLabel
from albert_tf.tasks.task import Prediction
from albert_tf.tasks.task_reports import (
    WORST,
    answer_report,
    confusion_table,
    describe_tags,
    label_report,
    multi_label_report,
    number_report,
    tag_report,
)

NAMES = ("precision", "recall", "f1-score", "support")


def by_name(report):
    return {table.name: table for table in report.tables}


def inputs(count):
    return {"where": [f"a.csv:{n}" for n in range(count)], "text": [f"text {n}" for n in range(count)]}


def check_labels(table, expected):
    """The table has the rows of a dict of scikit-learn's, but for `accuracy`."""
    expected = {name: [row[key] for key in NAMES] for name, row in expected.items() if name != "accuracy"}
    assert {name: pytest.approx(row) for name, *row in table.rows} == expected


@pytest.mark.parametrize("count", [2, 3])
def test_one_label_each(count):
    rng = np.random.default_rng(count)
    labels, right = ["red", "green", "blue", "unseen"][:count], rng.integers(0, count, 40)
    scores = rng.dirichlet(np.ones(count), 40).astype(np.float32)
    predicted = scores.argmax(axis=1)
    report = label_report(labels, right, predicted, scores, inputs(40))
    tables, names = by_name(report), np.array(labels)
    check_labels(tables["labels"], classification_report(names[right], names[predicted], output_dict=True))
    assert [list(row[1:]) for row in tables["confusion"].rows] == confusion_matrix(right, predicted).tolist()
    assert [row[0] for row in tables["confusion"].rows] == labels
    assert ("auc" in report.metrics) == (count == 2)
    if count == 2:
        assert report.metrics["auc"] == pytest.approx(roc_auc_score(right, scores[:, 1]))
    wrong = [n for n in range(40) if right[n] != predicted[n]]
    errors = tables["errors"]
    assert errors.columns == ("where", "text", "label", "prediction", "probability", "probability_of_label")
    assert {row[0] for row in errors.rows} == {f"a.csv:{n}" for n in wrong}
    assert [row[-1] for row in errors.rows] == sorted(scores[n, right[n]].item() for n in wrong)
    first = int(errors.rows[0][1].split()[1])
    assert errors.rows[0][2:5] == (labels[right[first]], labels[predicted[first]], scores[first].max().item())


def test_labels_that_are_nowhere_count_in_no_mean():
    right, predicted = np.array([0, 0, 1]), np.array([0, 1, 1])
    scores = np.eye(3, dtype=np.float32)[predicted]
    tables = by_name(label_report(["a", "b", "c"], right, predicted, scores, inputs(3)))
    assert [row[0] for row in tables["labels"].rows] == ["a", "b", "macro avg", "weighted avg"]
    assert tables["labels"].rows[2][3] == pytest.approx(f1_score(right, predicted, average="macro"))


def test_one_label_alone_has_no_auc():
    scores = np.array([[0.9, 0.1], [0.2, 0.8]], np.float32)
    report = label_report(["a", "b"], np.array([0, 0]), np.array([0, 1]), scores, inputs(2))
    # 0.9 and right, 0.8 and wrong: both are in the bin from 0.8 on.
    assert report.metrics == {"ece": pytest.approx((0.9 + 0.8) / 2 - 1 / 2)}


def test_so_many_errors_are_shown():
    right, scores = np.zeros(WORST + 9, int), np.tile(np.float32([0.1, 0.9]), [WORST + 9, 1])
    tables = by_name(label_report(["a", "b"], right, right + 1, scores, inputs(WORST + 9)))
    assert len(tables["errors"].rows) == WORST


def test_any_number_of_labels():
    rng = np.random.default_rng(0)
    right, scores = rng.random([30, 3]) < 0.4, rng.random([30, 3])
    right[:, 2] = False
    scores[:, 2] *= 0.3
    predicted = scores >= 0.5
    report = multi_label_report(["a", "b", "c"], right, predicted, scores, inputs(30))
    tables = by_name(report)
    expected = classification_report(
        right[:, :2], predicted[:, :2], target_names=["a", "b"], output_dict=True, zero_division=0
    )
    check_labels(tables["labels"], expected)
    for name, number in (("a", 0), ("b", 1)):
        counts = confusion_matrix(right[:, number], predicted[:, number]).ravel().tolist()
        assert (name, *counts) in tables["confusion"].rows
    assert sum(row[-1] for row in tables["calibration"].rows) == 90
    wrong = [n for n in range(30) if (right[n] != predicted[n]).any()]
    losses = -np.log(np.where(right, scores, 1 - scores)).mean(axis=1)
    assert [row[-1] for row in tables["errors"].rows] == pytest.approx(sorted(losses[wrong])[::-1])
    alone = multi_label_report(["a"], right[:, :1], predicted[:, :1], scores[:, :1], inputs(30))
    assert by_name(alone)["labels"].rows[0] == tables["labels"].rows[0]
    assert by_name(alone)["confusion"].rows == tables["confusion"].rows[:1]
    nothing = np.zeros([4, 3], bool)
    assert (
        by_name(multi_label_report(list("abc"), nothing, nothing, scores[:4], inputs(4)))["labels"].rows == []
    )


def test_numbers_by_hand():
    report = number_report([1.0, 2.0, 4.0], [1.0, 4.0, 3.0], inputs(3))
    mean = 7 / 3
    variance = (1 - mean) ** 2 + (2 - mean) ** 2 + (4 - mean) ** 2
    assert report.metrics == pytest.approx({"rmse": (5 / 3) ** 0.5, "mae": 1.0, "r2": 1 - 5 / variance})
    tables = by_name(report)
    assert [row[-1] for row in tables["errors"].rows] == [2.0, -1.0]
    assert [row[1:] for row in tables["predictions"].rows] == [(1.0, 1.0), (2.0, 4.0), (4.0, 3.0)]
    assert set(number_report([1.0], [2.0], inputs(1)).metrics) == {"rmse", "mae"}


def test_kinds_of_entities():
    right = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-ORG"], ["B-PER"]]
    predicted = [["B-PER", "I-PER", "O", "B-ORG"], ["O", "B-ORG"], ["O"]]
    words = [["Ada", "Lovelace", "of", "London"], ["the", "ACM"], ["Grace"]]
    scores = [np.float32([0.9] * len(tags)) for tags in right]
    report = tag_report(words, right, predicted, scores, {"where": ["a:1", "a:6", "a:9"]}, PREFIXES)
    tables = by_name(report)
    check_labels(tables["labels"], entity_report(right, predicted, output_dict=True, zero_division=0))
    assert tables["labels"].rows[2][1:] == (1.0, 0.5, pytest.approx(2 / 3), 2)  # PER: one of two
    assert tables["errors"].rows == [
        ("a:1", "Ada Lovelace of London", "LOC: London", "ORG: London"),
        ("a:9", "Grace", "PER: Grace", ""),
    ]
    assert report.metrics["ece"] == pytest.approx(0.9 - 5 / 7)
    grid = {
        row[0]: dict(zip(tables["confusion"].columns[1:], row[1:], strict=True))
        for row in tables["confusion"].rows
    }
    assert grid["B-LOC"]["B-ORG"] == 1 and grid["B-PER"] == {**dict.fromkeys(grid, 0), "B-PER": 1, "O": 1}
    none_right = [["O"]], [["B-LOC"]]
    found = tag_report([["a"]], *none_right, [np.float32([1])], {"where": ["a:1"]}, PREFIXES)
    check_labels(by_name(found)["labels"], entity_report(*none_right, output_dict=True, zero_division=0))
    averages = [["B-accuracy", "B-macro avg"]]
    found = tag_report([["a", "b"]], averages, averages, [np.float32([1, 1])], {"where": ["a:1"]}, PREFIXES)
    assert by_name(found)["labels"].rows[:2] == [("accuracy", 1, 1, 1, 1), ("macro avg", 1, 1, 1, 1)]
    assert [row[-1] for row in by_name(found)["labels"].rows[2:]] == [2, 2, 2]
    nothing = tag_report([["a"]], [["O"]], [["O"]], [np.float32([1])], {"where": ["a:1"]}, PREFIXES)
    assert by_name(nothing)["labels"].rows == [] and nothing.metrics == {"ece": 0}
    assert "undefined" in nothing.notes[0]


def described(tags):
    return describe_tags(tags, find_scheme(tags))


def test_notes_name_the_tags_that_are_of_no_scheme():
    assert described(["O", "B-PER", "I-PER"]) == ["entities: parts before types (B-PER, I-PER)"]
    (mixed,) = described(["O", "B-PER", "I-PER", "NUM"])
    assert "'NUM'" in mixed and "one by one" in mixed and "'B-PER'" not in mixed
    (none,) = described(["NOUN", "VERB"])
    assert "'NOUN', 'VERB'" in none and "one by one" in none


def test_answers_by_length_and_answerability():
    long = "word " * 60
    records = [
        QuestionRecord(where, "", "Who?", context, tuple(Answer(text, 0) for text in answers), not answers)
        for where, context, *answers in (
            ("q1", "Ada wrote it.", "Ada"), ("q2", long, "the old tower", "tower"),
            ("q3", long), ("q4", long),
        )
    ]  # fmt: skip
    found = ["Ada", "Old tower of London", "", "word"], [0.9, 0.8, 0.7, 0.6]
    report = answer_report(records, *found, [-2.0, -1.0, 3.0, -0.5])
    tables = by_name(report)
    assert tables["answerability"].rows == [
        ("has an answer", 50.0, pytest.approx(100 * (1 + 2 / 3) / 2), 2), ("has none", 50.0, 50.0, 2),
    ]  # fmt: skip
    assert [(row[0], row[-1]) for row in tables["context_length"].rows] == [("0 to 50", 1), ("51 to 100", 3)]
    assert [(row[0], row[-1]) for row in tables["answer_length"].rows] == [("0 to 1", 2)]
    assert report.metrics["auc"] == 1.0
    assert report.metrics["ece"] == pytest.approx((abs(0.9 - 1) + 0.8 + 0.6) / 3)
    assert [row[0] for row in tables["errors"].rows] == ["q4", "q2"]
    first = answer_report(records[:2], *(column[:2] for column in found), None)
    assert set(first.metrics) == {"ece"} and "precision_recall" not in by_name(first)


# Calibration, thresholds and curves of precision and recall.


def test_calibration_by_hand():
    # Bins (0.5, 0.6], (0.8, 0.9] and (0.9, 1.0]; 0.9 is in the second.
    error, table = calibration([0.6, 0.55, 0.85, 0.9, 1.0], [True, False, True, True, False])
    assert table.rows == [
        ("0.5 to 0.6", pytest.approx(0.575), 0.5, 2),
        ("0.8 to 0.9", pytest.approx(0.875), 1.0, 2),
        ("0.9 to 1.0", pytest.approx(1.0), 0.0, 1),
    ]
    assert error == pytest.approx((2 * 0.075 + 2 * 0.125 + 1 * 1.0) / 5)
    assert calibration([], []) == (0, table._replace(rows=[]))


def test_calibration_is_scikit_learns():
    rng = np.random.default_rng(0)
    scores = rng.random(500)
    right = rng.random(500) < scores**2
    _, table = calibration(scores, right)
    shares, means = calibration_curve(right, scores, n_bins=10)
    np.testing.assert_allclose([row[1:3] for row in table.rows], np.stack([means, shares], axis=1))


@pytest.mark.parametrize("seed", range(5))
def test_no_threshold_is_better_than_the_best_of_those(seed):
    rng = np.random.default_rng(seed)
    right = rng.random(60) < 0.3
    scores = np.round(np.clip(0.3 * right + rng.normal(0.3, 0.2, 60), 0, 1), 2).astype(
        np.float32
    )  # with ties
    tried = thresholds(scores, right, limit=300)
    assert 0.5 in tried and len(tried) < 40
    for metric in (accuracy_score, f1_score, matthews_corrcoef, lambda *x: f1_score(*x, average="macro")):
        everywhere = max(metric(right, scores >= threshold) for threshold in np.linspace(-0.005, 1.005, 102))
        assert max(metric(right, scores >= threshold) for threshold in tried) == everywhere


def test_thresholds_by_hand():
    is_label = np.array([False, True, True, False, True])
    found = thresholds(np.array([0.1, 0.2, 0.4, 0.6, 0.8]), is_label, limit=9)
    np.testing.assert_allclose(found, [0.15, 0.5, 0.7])
    np.testing.assert_allclose(thresholds(np.array([0.4, 0.6]), np.array([True, False]), 9), [0.2, 0.5, 0.8])
    assert len(thresholds(np.linspace(0.1, 0.9, 1000), np.arange(1000) % 2 == 1, limit=20)) <= 21


def test_precision_recall_by_hand():
    scores = np.array([0.9, 0.8, 0.7, 0.1])
    is_label = np.array([True, False, True, False])
    table = precision_recall(
        ["other", "b"], np.stack([~is_label & False, is_label], 1), np.stack([scores] * 2, 1)
    )
    names, recall, precision, cuts = zip(*table.rows, strict=True)
    assert set(names) == {f"b (AP {average_precision_score(is_label, scores):.3f})"} == {"b (AP 0.833)"}
    points = dict(zip(cuts, zip(precision, recall, strict=True), strict=True))
    for cut in {0.9, 0.7} & points.keys():
        chosen = scores >= cut
        assert points[cut] == ((chosen & is_label).sum() / chosen.sum(), (chosen & is_label).sum() / 2)
    assert points[None] == (1.0, 0.0) and 0.7 in points
    many = np.random.default_rng(0).random([5000, 1])
    assert len(precision_recall(["a"], many > 0.5, many**2 + many[::-1]).rows) == 500


# Metrics of records and predictions against counts by hand.

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
    right = texts(("a", "b"), ("a", "c"), None, ())
    predictions = [Prediction(labels, NONE) for labels in (("a", "b"), (), (), ("b",))]
    metrics = MultiLabel({}).metrics(right, predictions)
    assert metrics == pytest.approx({"micro_f1": 4 / 7, "macro_f1": (2 / 3 + 2 / 3 + 0) / 3, "accuracy": 0.5})
    assert set(MultiLabel({}).metrics(texts(None), predictions[1:2]).values()) == {1}


def test_one_label_alone_that_is_never_predicted_scores_nothing():
    metrics = MultiLabel({}).metrics(texts(("a",), None, None), [Prediction((), NONE)] * 3)
    assert metrics == {"micro_f1": 0, "macro_f1": 0, "accuracy": pytest.approx(2 / 3)}


def test_a_label_of_the_name_of_the_first_column_keeps_its_own():
    table = confusion_table([0, 1], [0, 0], [0, 1], ["no", "true label"])
    row, other = Report({}, [table]).to_dict()["tables"]["confusion"]
    assert (row["no"], row["true label"], other["no"], other["true label"]) == (1, 0, 1, 0)
    assert "no" in row.values() and "true label" in other.values()
