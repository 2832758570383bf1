"""Fine-tuning as an estimator of scikit-learn."""

from __future__ import annotations

from albert_tf.inference.text_estimator import TextEstimator

__all__ = ["TextEstimator"]
