"""Probabilities and labels of a classifier of texts, by the names that scikit-learn has for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.models import task_of
from albert_tf.inference.labels import Labels
from albert_tf.tasks import kind_of
from albert_tf.tasks.metrics.labels import accuracy
from albert_tf.tasks.metrics.number_report import number_figures
from albert_tf.utils.errors import InputError


class Decisions:
    """Methods of a model from texts to logits, which a subclass is, that decide by them.

    All take texts and further arguments as `predict` does, and raise an InputError for what is no text.
    """

    classifier: Any
    labels: Any
    predict: Any
    task_entries: Any

    def predict_proba(self, x: Any, **kwargs: Any) -> np.ndarray:
        """The probabilities of all labels, float32 [N, K]; an InputError for a regression."""
        if self.classifier.num_labels == 1:
            raise InputError("predict_proba: a regression has no labels: `predict` gives its numbers")
        return self._kind.scores(tf.constant(self.predict(x, **kwargs), tf.float32)).numpy()

    def predict_labels(self, x: Any, **kwargs: Any) -> list[Any]:
        """The name of each text's label, a tuple of names of several labels; of regression the number."""
        if self.classifier.num_labels == 1:
            return self.predict(x, **kwargs)[:, 0].tolist()
        kind = self._kind
        return [kind.prediction(row).value for row in self.predict_proba(x, **kwargs)]

    def score(self, x: Any, y: Any, **kwargs: Any) -> float:
        """The share of texts whose label, or whose labels all, are right; of regression R².

        Labels are as `fit` takes them, by number, by name, or one-hot; an InputError names one that does not
        fit.
        """
        count = self.classifier.num_labels
        if count == 1:
            predicted = self.predict_labels(x, **kwargs)
            right = Labels(None, 1, "").targets(y, len(predicted), "y").tolist()
            return number_figures(right, predicted)["r2"]
        scores, kind = self.predict_proba(x, **kwargs), self._kind
        found, numbers = Labels(self.labels, count, "").targets(y, len(scores), "y"), np.arange(count)
        chosen = [np.isin(numbers, kind.prediction(row).chosen) for row in scores]  # bool [K] each
        is_label = found > 0 if found.ndim == 2 else found[:, np.newaxis] == numbers  # [N, K]
        return accuracy(is_label, np.array(chosen))

    @property
    def _kind(self) -> Any:
        return kind_of({**self.task_entries(), **task_of(self.classifier)})
