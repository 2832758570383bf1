"""Keras' binary metrics for classifiers of two labels, which have two logits per text."""

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
)


@keras.saving.register_keras_serializable("albert_tf")
class SecondLabelMetric(keras.metrics.Metric):
    """A binary metric of the second of two labels, given labels int [B] or one-hot [B, 2] and logits [B, 2].

    Args:
      metric: the metric of Keras. It receives labels [B], and probabilities or logits [B].
    """

    def __init__(self, metric: keras.metrics.Metric, **kwargs: Any):
        super().__init__(**{"name": metric.name, "dtype": metric.dtype, **kwargs})
        self.metric = metric

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: Any = None) -> Any:
        """Adds a batch."""
        labels = y_true[:, 1] if y_true.shape[1:] == (2,) else tf.reshape(y_true, [-1])  # [B]
        logits = y_pred[:, 1] - y_pred[:, 0]  # whose sigmoid is the softmax of both
        takes_logits = getattr(self.metric, "_from_logits", False)
        return self.metric.update_state(
            labels, logits if takes_logits else tf.sigmoid(logits), sample_weight=sample_weight
        )

    def result(self) -> tf.Tensor:
        """The value over all batches."""
        return self.metric.result()

    def reset_state(self) -> None:
        """Forgets the batches."""
        self.metric.reset_state()

    def get_config(self) -> dict[str, Any]:
        """The arguments, for `from_config`."""
        metric = {"class_name": type(self.metric).__name__, "config": self.metric.get_config()}
        return {**super().get_config(), "metric": metric}  # in every format that Keras saves

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> SecondLabelMetric:
        """The same metric without batches."""
        return cls(
            **{**config, "metric": keras.metrics.deserialize(config["metric"], use_legacy_format=True)}
        )


def second_label_metric(metric: Any) -> Any:
    """Wraps a metric of Keras' `compile` for two labels; metrics that are not binary stay as they are."""
    if isinstance(metric, str) and metric in [kind.__name__ for kind in _BINARY]:
        metric = keras.metrics.get(metric)
    is_of_one = getattr(metric, "class_id", None) is None and not getattr(metric, "multi_label", False)
    return SecondLabelMetric(metric) if isinstance(metric, _BINARY) and is_of_one else metric
