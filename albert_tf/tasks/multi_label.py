"""Multi-label classification: predicts any number of labels, or none, for a text or a pair of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.constants import Tensors
from albert_tf.errors import InputError
from albert_tf.report import Report
from albert_tf.tasks.classification import TextRecords, TextTask, format_inputs, label_scores, most_likely
from albert_tf.tasks.examples import TextRecord, label_ids, label_set, normalize_label
from albert_tf.tasks.losses import MULTI_LABEL
from albert_tf.tasks.metrics import multi_label_scores
from albert_tf.tasks.task import Arrays, Prediction, TaskEntries
from albert_tf.tasks.task_reports import multi_label_report

THRESHOLD = 0.5  # least probability of a label that a text has


class MultiLabel(TextTask):
    """Any number of labels for each text: one sigmoid for each label."""

    name = "multi_label"
    metric_names = ("micro_f1", "macro_f1", "accuracy")
    supported_settings = TextTask.supported_settings | {"class_weight", "threshold"}
    losses = MULTI_LABEL

    def __init__(self, entries: TaskEntries):
        super().__init__(entries)
        self.threshold: float = entries.get("threshold", THRESHOLD)

    @classmethod
    def model_config(cls, records: TextRecords, threshold: float = THRESHOLD) -> dict[str, Any]:
        """Entries of task.json, with the sorted labels of the records."""
        labels = sorted({label for record in records for label in label_set(record)})
        if not labels:
            raise InputError(f"{records[0].file}: no row has a label: there is nothing to learn")
        entries = {"model": cls.model_kind, "num_labels": len(labels), "labels": labels}
        return {**entries, "multi_label": True, "threshold": threshold}

    @classmethod
    def labels_of(cls, record: TextRecord) -> tuple[str, ...]:
        """The labels of a text."""
        return label_set(record)

    def targets(self, records: TextRecords) -> np.ndarray:
        """1 for each label of a text, int32 [N, K]."""
        pairs = [(row, label) for row, record in enumerate(records) for label in label_set(record)]
        labels_and_places = ((label, records[row].where) for row, label in pairs)
        columns = label_ids(labels_and_places, map(normalize_label, self.labels))
        targets = np.zeros([len(records), len(self.labels)], np.int32)
        targets[[row for row, _ in pairs], columns] = 1
        return targets

    @staticmethod
    def scores(logits: tf.Tensor) -> tf.Tensor:
        """Probabilities of each label."""
        return tf.sigmoid(logits)

    def decide(self, scores: tf.Tensor) -> dict[str, tf.Tensor]:
        """True for labels at least as likely as the threshold, `is_label` [B, K]."""
        return {"is_label": scores >= self.threshold}

    def predictions_from_scores(self, scores: np.ndarray) -> list[Prediction]:
        """The labels of each text."""
        is_label, labels = self.decide(tf.constant(scores))["is_label"].numpy(), np.array(self.labels, object)
        rows = zip(scores, is_label, strict=True)
        return [Prediction(tuple(labels[chosen]), row, np.flatnonzero(chosen)) for row, chosen in rows]

    def metrics(self, records: TextRecords, predictions: Sequence[Prediction]) -> dict[str, float]:
        """`micro_f1`, `macro_f1`, and `accuracy`, the share of texts with all labels right."""
        y_pred = [tuple(map(normalize_label, prediction.value)) for prediction in predictions]
        return multi_label_scores([label_set(record) for record in records], y_pred)

    def report(self, records: TextRecords, predictions: Sequence[Prediction]) -> Report:
        """`multi_label_report` of the texts."""
        y_pred = np.zeros([len(records), len(self.labels)], bool)
        for row, prediction in zip(y_pred, predictions, strict=True):
            row[prediction.label_indices] = True
        scores = np.stack([prediction.scores for prediction in predictions])
        y_true = self.targets(records) > 0
        return multi_label_report(self.labels, y_true, y_pred, scores, format_inputs(records))

    def serving_outputs(self, scores: tf.Tensor, names: Sequence[str]) -> Tensors:
        """`labels` string, their probabilities `scores` float32, and `is_label` bool, [B, K] each."""
        return label_scores(scores, names) | self.decide(scores)

    def format_output(self, record: TextRecord, outputs: Arrays, top_k: int | None) -> list[dict[str, Any]]:
        """The labels of the text, the likeliest first; or the `top_k` likeliest labels."""
        chosen = np.flatnonzero(outputs["is_label"])
        return most_likely(outputs, chosen)[: len(chosen) if top_k is None else top_k]
