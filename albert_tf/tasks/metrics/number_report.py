"""Reports of predicted numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from albert_tf.reports.content import POINTS, Report, Table
from albert_tf.tasks.metrics.label_report import Inputs, worst_errors


def number_figures(right: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
    """`rmse`, the root of the mean squared error, `mae`, the mean of absolute errors, and `r2`.

    The last is the share of the variance that is explained, and not there of a single number.
    """
    from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

    figures = {
        "rmse": float(np.sqrt(mean_squared_error(right, predicted))),
        "mae": float(mean_absolute_error(right, predicted)),
    }
    return {**figures, "r2": float(r2_score(right, predicted))} if len(right) > 1 else figures


def number_report(right: Sequence[float], predicted: Sequence[float], inputs: Inputs) -> Report:
    """The report of predictions of a number each.

    Args:
      right: N numbers.
      predicted: the same.
      inputs: columns of the table of errors.
    Returns:
      `number_figures`; tables of right and predicted numbers, and of errors, the largest first.
    """
    errors = np.subtract(predicted, right)
    order = np.argsort(-np.abs(errors), kind="stable")
    columns: Inputs = {**inputs, "label": right, "prediction": predicted, "error": errors.tolist()}
    points = list(zip(inputs["where"], right, predicted, strict=True))
    names = "where", "true", "predicted"
    tables = [
        Table("predictions", "True and predicted numbers", names, points, POINTS),
        worst_errors(order[errors[order] != 0], columns),
    ]
    return Report(number_figures(right, predicted), tables)
