"""Curves of probabilities: how often they are right, and what a threshold on them finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf.reports.content import CALIBRATION, LINES, Table

BINS = 10  # of probabilities, of equal width
MAX_POINTS = 500  # of a curve
MAX_CURVES = 10  # labels in a picture, the most frequent of more


def calibration(scores: Any, is_right: Any) -> tuple[float, Table]:
    """The expected calibration error, and the share that is right among examples of about one probability.

    The error is the mean, over examples of probabilities [N] that are right or not, bool [N], of how far the
    mean probability in their bin is from the share that is right there. Bins have their upper ends, and the
    table only those that are not empty.

    Source: Guo et al. 2017, arXiv 1706.04599, §2.
    """
    scores, is_right = np.asarray(scores, np.float64), np.asarray(is_right, bool)
    bins = np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], scores)
    rows = []
    for number in np.unique(bins):
        inside = bins == number
        ends = f"{number / BINS:.1f} to {(number + 1) / BINS:.1f}"
        rows.append((ends, scores[inside].mean().item(), is_right[inside].mean().item(), int(inside.sum())))
    error = sum(count * abs(mean - share) for _, mean, share, count in rows) / max(len(scores), 1)
    columns = ("bin", "mean probability", "share that is right", "examples")
    return error, Table("calibration", "Calibration", columns, rows, CALIBRATION)


def thresholds(scores: np.ndarray, is_label: np.ndarray, limit: int) -> np.ndarray:
    """Thresholds among which that of the best metric is, and 0.5; ascending float64.

    They lie halfway between a probability that is not of a label and the next one that is: of any metric
    that gains by what is right, all others are no better.

    Examples have probabilities [N] and the label or not, bool [N]. Of more than `limit` thresholds those at
    equal distances in their order are left.
    """
    values, group = np.unique(np.asarray(scores, np.float64), return_inverse=True)
    labelled = np.bincount(group, weights=is_label)
    has_label, has_none = labelled > 0, labelled < np.bincount(group)
    # Those that all have the label, and that none has, are at the ends.
    ends = np.concatenate([[0.0], values, [1.0]])
    is_border = np.concatenate([[True], has_none]) & np.concatenate([has_label, [True]])
    found = ((ends[:-1] + ends[1:]) / 2)[is_border]
    if len(found) > limit:
        found = found[np.linspace(0, len(found) - 1, limit).round().astype(int)]
    return np.union1d(found, [0.5])


def precision_recall(labels: Sequence[str], is_label: np.ndarray, scores: np.ndarray) -> Table:
    """Precision and recall of each of K labels at every threshold, with the average precision in its name.

    Examples have them or not, bool [N, K], and probabilities [N, K].
    """
    from sklearn.metrics import average_precision_score, precision_recall_curve

    counts = is_label.sum(axis=0)
    rows: list[tuple[Any, ...]] = []
    for number in sorted(np.argsort(-counts, kind="stable")[:MAX_CURVES]):
        if counts[number]:
            of_label = is_label[:, number], scores[:, number]
            name = f"{labels[number]} (AP {average_precision_score(*of_label):.3f})"
            precision, recall, thresholds = precision_recall_curve(*of_label, drop_intermediate=True)
            points = list(zip(recall.tolist(), precision.tolist(), [*thresholds.tolist(), None], strict=True))
            places = np.unique(np.linspace(0, len(points) - 1, MAX_POINTS).astype(int))
            rows += [(name, *points[place]) for place in places]
    columns = ("label", "recall", "precision", "threshold")
    return Table("precision_recall", "Precision and recall", columns, rows, LINES)
