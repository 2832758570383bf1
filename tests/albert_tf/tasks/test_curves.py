"""Calibration, thresholds and curves of precision and recall."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, matthews_corrcoef

from albert_tf.tasks.metrics import calibration, precision_recall, thresholds


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
