"""Regression: predicts a number for a text or a pair of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.report import Report
from albert_tf.tasks.classification import TextRecords, TextTask, format_inputs
from albert_tf.tasks.examples import TextRecord, regression_labels
from albert_tf.tasks.losses import SCORE
from albert_tf.tasks.metrics import correlations
from albert_tf.tasks.task import Arrays, Prediction
from albert_tf.tasks.task_reports import number_report


class Regression(TextTask):
    """A number for each text, by a classifier with one logit."""

    name = "regression"
    metric_names = ("pearson", "spearman")
    report_names = ("rmse", "mae", "r2")
    supported_settings = TextTask.supported_settings | {"early_exit", "exit_threshold"}
    losses = SCORE

    @classmethod
    def model_config(cls, records: TextRecords) -> dict[str, Any]:
        """Entries of task.json; there is one logit."""
        return {"model": cls.model_kind, "num_labels": 1}

    def targets(self, records: TextRecords) -> np.ndarray:
        """The labels as numbers, float32 [N]."""
        return np.array(regression_labels(records), np.float32)

    @staticmethod
    def scores(logits: tf.Tensor) -> tf.Tensor:
        """The predicted numbers, [B], of logits [B, 1]."""
        return logits[:, 0]

    def decide(self, scores: tf.Tensor) -> dict[str, tf.Tensor]:
        """The number, `score` [B]."""
        return {"score": scores}

    def predictions_from_scores(self, scores: np.ndarray) -> list[Prediction]:
        """The number of each text."""
        return [Prediction(score, score) for score in scores]

    def metrics(self, records: TextRecords, predictions: Sequence[Prediction]) -> dict[str, float]:
        """`pearson` and `spearman`."""
        y_pred = [float(prediction.value) for prediction in predictions]
        return correlations(regression_labels(records), y_pred)

    def report(self, records: TextRecords, predictions: Sequence[Prediction]) -> Report:
        """`number_report` of the texts."""
        y_pred = [float(prediction.value) for prediction in predictions]
        return number_report(regression_labels(records), y_pred, format_inputs(records))

    def format_output(self, record: TextRecord, outputs: Arrays, top_k: int | None) -> dict[str, float]:
        """The number."""
        return {"score": float(outputs["score"])}
