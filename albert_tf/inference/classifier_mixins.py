"""What TextClassifier does to data before Keras' fit, and to logits after its predict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.constants import INPUT_MASK, WINDOWS
from albert_tf.errors import InputError
from albert_tf.inference.inputs import LabelEncoder, pack_texts, segments, tokenize_dataset, tokenize_inputs
from albert_tf.recipes import LongTexts
from albert_tf.runs.build_model import task_of
from albert_tf.tasks import create_task
from albert_tf.tasks.batches import few_lengths
from albert_tf.tasks.examples import TokenizedExamples, truncation_report
from albert_tf.tasks.long_texts import pool_windows, text_inputs, window_inputs
from albert_tf.tasks.metrics import accuracy
from albert_tf.tasks.task_reports import number_figures
from albert_tf.text.text_tokenizer import InputFormat

_BINARY = (
    *(keras.metrics.AUC, keras.metrics.Precision, keras.metrics.Recall),
    *(keras.metrics.TruePositives, keras.metrics.FalsePositives),
    *(keras.metrics.TrueNegatives, keras.metrics.FalseNegatives),
    *(keras.metrics.PrecisionAtRecall, keras.metrics.RecallAtPrecision),
    *(keras.metrics.SensitivityAtSpecificity, keras.metrics.SpecificityAtSensitivity),
)


@keras.saving.register_keras_serializable("albert_tf")
class SecondLabelMetric(keras.metrics.Metric):
    """A metric of probabilities of the second label, by labels int [B] or one-hot [B, 2] and logits [B, 2].

    Args:
      metric: the metric of Keras, which gets [B] of both; logits where it takes them.
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


def of_second_label(metric: Any) -> Any:
    """The metric for two labels, as Keras' `compile` takes it; those of other kinds stay as they are."""
    if isinstance(metric, str) and metric in [kind.__name__ for kind in _BINARY]:
        metric = keras.metrics.get(metric)
    is_of_one = getattr(metric, "class_id", None) is None and not getattr(metric, "multi_label", False)
    return SecondLabelMetric(metric) if isinstance(metric, _BINARY) and is_of_one else metric


# Batches that Keras takes as they are, and these or token ids.
_BATCHES = (keras.utils.Sequence, Iterator, tf.distribute.DistributedDataset)
_NOT_TEXTS = (Mapping, *_BATCHES)


class FitMixin:
    """Methods of a model from texts to logits, which a subclass is, that make token ids of texts."""

    classifier: Any
    tokenizer: Any
    labels: Any
    seq_length: int
    long_texts: LongTexts
    pad_to_length: bool
    jit_compile: Any
    takes_pairs: bool | None
    _set_save_spec: Any

    def _labels(self, loss: Any) -> LabelEncoder:
        return LabelEncoder(self.labels, self.classifier.num_labels, loss)

    def _learn_form(self, pairs: bool | None) -> None:
        self.takes_pairs = pairs
        # Of what a SavedModel takes; Keras would have it from the first call, which may be one of token ids.
        self._saved_model_inputs_spec = None  # else Keras keeps the first
        self._set_save_spec(tf.TensorSpec([None, 2] if pairs else [None], tf.string, "text"))

    def _check_form(self, pairs: bool | None, argument: str) -> None:
        if None not in (pairs, self.takes_pairs) and pairs != self.takes_pairs:
            given, learned = ("pairs of texts", "single texts")[:: 1 if pairs else -1]
            raise InputError(f"{argument} holds {given}: the model learned {learned}")

    def _token_ids(self, texts: Any) -> dict[str, tf.Tensor]:
        """The encoder's inputs, int32 [B, S] each, of tensors of texts."""
        columns, reading = segments(texts), (self.seq_length, self.long_texts.long)
        tokens = [self.tokenizer(self.tokenizer.shorten_text(text, *reading)) for text in columns]
        return text_inputs(tokens, *self._reading)

    @property
    def _reading(self) -> tuple[int, InputFormat, LongTexts]:
        return self.seq_length, self.tokenizer.vocabulary.input_format, self.long_texts

    def _windows(self, ids: Mapping[str, tf.Tensor]) -> tuple[Any, Callable[[tf.Tensor], tf.Tensor]]:
        """The network's inputs for those of texts, and a function from its logits to those of the texts."""
        if self.long_texts.long != WINDOWS:
            return ids, lambda logits: logits
        windows, rows = window_inputs(ids, *self._reading)
        return windows, lambda logits: pool_windows(
            logits, rows, tf.shape(ids[INPUT_MASK])[0], self.long_texts
        )

    def _columns(self, rows: TokenizedExamples) -> int:
        """Columns of an array of texts; for XLA, which compiles for each length, one of a few."""
        if self.long_texts.long == WINDOWS:
            return int(rows.sequence_lengths.max())
        if self.pad_to_length or not self.jit_compile:
            return self.seq_length  # `call` leaves the padding of each batch out
        longest = min(rows.sequence_lengths.max(), self.seq_length)
        return next(length for length in few_lengths(self.seq_length) if length >= longest)

    def _data(self, x: Any, y: Any, argument: str, learns: bool = False) -> tuple[Any, Any]:
        """Token ids for texts, and targets for labels, if there are any."""
        labels, lines = self._labels(getattr(self, "loss", None)), []  # Keras sets the loss when it compiles
        if isinstance(x, tf.data.Dataset):
            x, pairs = tokenize_dataset(x, self._token_ids, labels, argument)
        elif isinstance(x, _NOT_TEXTS) and not hasattr(x, "column_names"):
            return x, y
        else:
            reading = self.seq_length, self.long_texts.long
            rows, pairs = tokenize_inputs(x, self.tokenizer, argument, *reading, y)
            if y is not None:
                y = labels.targets(y, len(rows), "y" if argument == "x" else f"{argument}[1]")
            columns = self._columns(rows)
            x = pack_texts(rows, columns)
            lines = truncation_report(rows, max(columns, self.seq_length), self.long_texts.long)
        if learns and pairs is not None:
            self._learn_form(pairs)
        self._check_form(pairs, argument)
        for line in lines if learns else ():
            logging.warning(line)
        return x, y


def check_labelled(x: Any, y: Any) -> None:
    """InputError for texts without labels; a dataset has them beside its texts."""
    if y is None and not isinstance(x, (tf.data.Dataset, *_BATCHES)):
        raise InputError("y is missing: give the label of each text")


class PredictMixin:
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
        return [found.value for found in self._kind.scored_predictions(self.predict_proba(x, **kwargs))]

    def score(self, x: Any, y: Any, **kwargs: Any) -> float:
        """The share of texts whose label, or whose labels all, are right; of regression R².

        Labels are as `fit` takes them, by number, by name, or one-hot; an InputError names one that does not
        fit.
        """
        count = self.classifier.num_labels
        if count == 1:
            predicted = self.predict_labels(x, **kwargs)
            right = LabelEncoder(None, 1, "").targets(y, len(predicted), "y").tolist()
            return number_figures(right, predicted)["r2"]
        predicted = self._kind.scored_predictions(self.predict_proba(x, **kwargs))
        found, numbers = (
            LabelEncoder(self.labels, count, "").targets(y, len(predicted), "y"),
            np.arange(count),
        )
        chosen = [np.isin(numbers, found.chosen) for found in predicted]  # bool [K] each
        is_label = found > 0 if found.ndim == 2 else found[:, np.newaxis] == numbers  # [N, K]
        return accuracy(is_label, np.array(chosen))

    @property
    def _kind(self) -> Any:
        return create_task({**self.task_entries(), **task_of(self.classifier)})
