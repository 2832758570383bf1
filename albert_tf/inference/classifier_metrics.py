"""Keras' binary metrics for classifiers, whose outputs are logits."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras as keras

_BINARY = (
    *(keras.metrics.AUC, keras.metrics.Precision, keras.metrics.Recall),
    *(keras.metrics.TruePositives, keras.metrics.FalsePositives),
    *(keras.metrics.TrueNegatives, keras.metrics.FalseNegatives),
    *(keras.metrics.PrecisionAtRecall, keras.metrics.RecallAtPrecision),
    *(keras.metrics.SensitivityAtSpecificity, keras.metrics.SpecificityAtSensitivity),
    *(keras.metrics.BinaryAccuracy, keras.metrics.FBetaScore, keras.metrics.F1Score),
)
_ACCURACIES = ("accuracy", "acc", "binary_accuracy", "BinaryAccuracy")


@keras.saving.register_keras_serializable("albert_tf")
class ProbabilityMetric(keras.metrics.Metric):
    """A binary metric of Keras, given labels and the logits [B, K] of a classifier.

    Of two labels it is computed for the second one, unless the metric names one. The labels are then int [B]
    or one-hot [B, 2]; otherwise they are rows [B, K].

    Args:
      metric: the metric of Keras. It receives probabilities, or logits if it wants them.
      multi_label: True if each label has a probability of its own.
    """

    def __init__(self, metric: keras.metrics.Metric, multi_label: bool = False, **kwargs: Any):
        super().__init__(**{"name": metric.name, "dtype": metric.dtype, **kwargs})
        self.metric, self.multi_label = metric, multi_label

    def needs_rows(self, num_labels: int) -> bool:
        """True if labels must be rows [B, K]."""
        takes_rows = isinstance(self.metric, keras.metrics.FBetaScore) or (
            getattr(self.metric, "class_id", None) is not None
        )
        return self.multi_label or num_labels > 2 or takes_rows or getattr(self.metric, "multi_label", False)

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: Any = None) -> Any:
        """Adds a batch."""
        labels, logits, activation = y_true, y_pred, tf.sigmoid
        if not self.needs_rows(y_pred.shape[-1]):
            labels = y_true[:, 1] if y_true.shape[1:] == (2,) else tf.reshape(y_true, [-1])  # [B]
            logits = y_pred[:, 1] - y_pred[:, 0]  # whose sigmoid is the softmax of both
        elif not self.multi_label:
            activation = tf.nn.softmax
        is_accuracy = isinstance(self.metric, keras.metrics.BinaryAccuracy)
        is_of_logits = is_accuracy and not self.metric.get_config()["threshold"]
        takes_logits = is_of_logits or getattr(self.metric, "_from_logits", False)
        values = logits if takes_logits else activation(logits)
        return self.metric.update_state(labels, values, sample_weight=sample_weight)

    def result(self) -> tf.Tensor:
        """The value over all batches."""
        return self.metric.result()

    def reset_state(self) -> None:
        """Forgets the batches."""
        self.metric.reset_state()

    def get_config(self) -> dict[str, Any]:
        """The arguments, for `from_config`."""
        metric = {"class_name": type(self.metric).__name__, "config": self.metric.get_config()}
        # In every format that Keras saves.
        return {**super().get_config(), "metric": metric, "multi_label": self.multi_label}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> ProbabilityMetric:
        """The same metric without batches."""
        return cls(
            **{**config, "metric": keras.metrics.deserialize(config["metric"], use_legacy_format=True)}
        )


def probability_metric(metric: Any, multi_label: bool = False) -> Any:
    """Wraps a binary metric of Keras' `compile` for logits; other metrics stay as they are.

    For `multi_label`, Keras' short names of the accuracy mean the binary accuracy.
    """
    if multi_label and isinstance(metric, str) and metric in _ACCURACIES:
        return keras.metrics.BinaryAccuracy(metric, threshold=0.0)
    if isinstance(metric, str) and metric in [kind.__name__ for kind in _BINARY]:
        metric = keras.metrics.get(metric)
    return ProbabilityMetric(metric, multi_label) if isinstance(metric, _BINARY) else metric
