"""Labels in the forms in which people have them, as losses take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.tokenizers.given import listed
from albert_tf.utils.errors import InputError, shown

_CATEGORICAL = "compile with loss=tf_keras.losses.CategoricalCrossentropy(from_logits=True)"


class Labels(NamedTuple):
    """The labels of a classifier, and the loss that takes them.

    Attributes:
      names: in the order of the logits; None if they have none.
      num_labels: K; 1 is regression.
      loss: as Keras' `compile` takes it.
    """

    names: Sequence[str] | None
    num_labels: int
    loss: Any

    @property
    def are_one_hot(self) -> bool:
        """True if the loss compares one-hot labels."""
        return self._loss_name.startswith("categorical")

    @property
    def _loss_name(self) -> str:
        loss = self.loss
        name = loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
        return name.replace("_", "").lower()

    def check_metrics(self, metrics: Any) -> None:
        """InputError where a metric of Keras cannot compare logits with the labels that the loss takes."""
        for metric in tf.nest.flatten(metrics):
            name = metric if isinstance(metric, str) else type(metric).__name__
            if name == "AUC" and not getattr(metric, "_from_logits", False):
                raise InputError(
                    "metrics: AUC() is of probabilities; the model gives logits: from_logits=True"
                )
            if name in ("AUC", "Precision", "Recall") and self.num_labels > 1 and not self.are_one_hot:
                raise InputError(f"metrics: {name} needs one-hot labels: {_CATEGORICAL}")

    def targets(self, labels: Any, count: int, argument: str) -> np.ndarray:
        """The targets of texts.

        Args:
          labels: of each text a number from 0, a name, or a number for each label; of regression a number.
          count: number of texts, N.
          argument: name of the labels in errors.
        Returns:
          int32 [N]; float32 [N] of regression, [N, K] of one-hot labels.
        Raises:
          InputError: a label is missing or does not fit.
        """
        values = listed(labels)
        if len(values) != count:
            raise InputError(f"{argument} holds {len(values)} labels for {count} texts")
        if all(isinstance(value, list) and len(value) == 1 for value in values):
            values = [value for (value,) in values]
        if self.num_labels == 1:
            for number, value in enumerate(values):
                if not isinstance(value, int | float) or not np.isfinite(value):
                    raise InputError(f"{argument}[{number}]={shown(value)} is not a finite number")
            return np.array(values, np.float32)
        if all(isinstance(value, list) and len(value) == self.num_labels for value in values):
            rows = np.array(values, np.float32)
            self._check_shape(rows, argument)
            return rows
        numbers = range(self.num_labels)
        known = dict(zip(self.names or (), numbers, strict=False)) | {number: number for number in numbers}
        for number, value in enumerate(values):
            if isinstance(value, list) or value not in known:
                expected = ", ".join(map(repr, known))
                raise InputError(f"{argument}[{number}]={shown(value)} is not one of {expected}")
            # A file's labels are read as numbers by some libraries and as texts by others.
            if isinstance(value, int) and known.get(str(value), value) != value:
                raise InputError(
                    f"{argument} holds {value}, the number of one label and the name of another: "
                    "give the names, as texts"
                )
        found = np.array([known[value] for value in values], np.int32)
        return np.eye(self.num_labels, dtype=np.float32)[found] if self.are_one_hot else found

    def target_tensor(self, labels: tf.Tensor, argument: str) -> tf.Tensor:
        """The targets of a batch of a tf.data.Dataset.

        Args:
          labels: string or integer [B], or [B, K].
          argument: name of the dataset in errors.
        Returns:
          Integer [B], or float32 [B, K].
        Raises:
          InputError: labels by name, of a model without names, or one-hot where the loss takes numbers.
          tf.errors.InvalidArgumentError: where it runs, for a name that is none of these.
        """
        self._check_shape(labels, argument)
        if labels.dtype != tf.string:
            are_numbers = self.are_one_hot and labels.shape.rank == 1
            if are_numbers or self._are_checked(labels):
                is_known = (labels >= 0) & (labels < tf.cast(self.num_labels, labels.dtype))
                labels = _known(labels, is_known, f"{argument}: labels outside 0 to {self.num_labels - 1}:")
            return tf.one_hot(labels, self.num_labels) if are_numbers else labels
        if self.names is None:
            raise InputError(f"{argument} has labels by name, and the model has no names: give it labels")
        labels = tf.reshape(labels, [-1])  # [B]
        message = f"{argument} has labels that are none of {', '.join(self.names)}:"
        is_known = tf.reduce_any(labels[:, tf.newaxis] == tf.constant(list(self.names)), axis=1)
        matches = _known(labels, is_known, message)[:, tf.newaxis] == tf.constant(list(self.names))  # [B, K]
        return tf.cast(matches, tf.float32) if self.are_one_hot else tf.argmax(matches, axis=1)

    def _are_checked(self, labels: tf.Tensor) -> bool:
        """True if the loss takes these as numbers of labels, and none that it is to ignore."""
        is_sparse = self._loss_name.startswith("sparsecategorical")
        ignores = getattr(self.loss, "ignore_class", None) is not None
        return is_sparse and not ignores and labels.dtype.is_integer and self.num_labels > 1

    def _check_shape(self, labels: Any, argument: str) -> None:
        """InputError for one-hot labels [B, K] where the loss compares numbers."""
        is_sparse = self._loss_name.startswith("sparsecategorical")
        if is_sparse and labels.shape[1:] == (self.num_labels,) and self.num_labels > 1:
            shape = tuple(labels.shape)
            raise InputError(f"{argument} has the shape {shape}, which is one-hot: {_CATEGORICAL}")


def _known(labels: tf.Tensor, is_known: tf.Tensor, message: str) -> tf.Tensor:
    """The labels; where it runs, an InvalidArgumentError of the message and those that are not known."""
    unknown, _ = tf.unique(tf.reshape(labels[~is_known], [-1]))
    with tf.control_dependencies([tf.debugging.Assert(tf.size(unknown) == 0, [message, unknown])]):
        return tf.identity(labels)
