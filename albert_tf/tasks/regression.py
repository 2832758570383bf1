"""Regression: a text, or a pair of texts, to a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.report import Report
from albert_tf.tasks.classification import TextRecords, TextTask, format_inputs
from albert_tf.tasks.examples import TextRecord, scores
from albert_tf.tasks.losses import SCORE
from albert_tf.tasks.metrics import correlations
from albert_tf.tasks.task import Arrays, Prediction
from albert_tf.tasks.task_reports import number_report


class Regression(TextTask):
    """A number for each text, by a classifier with one logit."""

    name = "regression"
    metric_names = ("pearson", "spearman")
    report_names = ("rmse", "mae", "r2")
    has_exits = True
    losses = SCORE

    @classmethod
    def model_config(cls, records: TextRecords) -> dict[str, Any]:
        """One logit."""
        return {"model": cls.model, "num_labels": 1}

    def targets(self, records: TextRecords) -> np.ndarray:
        """Numbers to learn, float32 [N]."""
        return np.array(scores(records), np.float32)

    @staticmethod
    def scores(logits: tf.Tensor) -> tf.Tensor:
        """Numbers [B]."""
        return logits[:, 0]

    def decide(self, scores: tf.Tensor) -> dict[str, tf.Tensor]:
        """The number, `score` [B]."""
        return {"score": scores}

    def scored_predictions(self, scores: np.ndarray) -> list[Prediction]:
        """The numbers."""
        return [Prediction(score, score) for score in scores]

    def metrics(self, records: TextRecords, predictions: Sequence[Prediction]) -> dict[str, float]:
        """`pearson` and `spearman`."""
        return correlations(scores(records), [float(found.value) for found in predictions])

    def report(self, records: TextRecords, predictions: Sequence[Prediction]) -> Report:
        """`number_report` of the texts."""
        predicted = [float(found.value) for found in predictions]
        return number_report(scores(records), predicted, format_inputs(records))

    def format_output(self, record: TextRecord, outputs: Arrays, top_k: int | None) -> dict[str, float]:
        """The number."""
        return {"score": float(outputs["score"])}
