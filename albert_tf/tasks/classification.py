"""Classification: a text, or a pair of texts, to one of several labels."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.features import LABELS
from albert_tf.tasks.datasets.columns import own_records
from albert_tf.tasks.examples.predictions import LabelPrediction
from albert_tf.tasks.examples.records import TextRecord, label_ids, label_names, label_of, same_label
from albert_tf.tasks.examples.texts import read_text, takes_pairs, text_rows
from albert_tf.tasks.files.own import table_files
from albert_tf.tasks.kind import Arrays, Examples, FinetunedKind, TaskConfig, Tensors, texts_of
from albert_tf.tasks.losses import LABEL
from albert_tf.tasks.metrics.labels import accuracy, f1
from albert_tf.tasks.serving import DEFAULT, PAIR, Served, Signature, text_signatures
from albert_tf.tokenizers.kinds import TextTokenizer
from albert_tf.utils.errors import InputError

TextRecords = Sequence[TextRecord]
Metric = Callable[[Sequence[str], Sequence[str]], float]


class TextKind(FinetunedKind):
    """Texts, or pairs of texts, to what a classifier says of each; a subclass says what that is."""

    model = "classifier"
    is_pooled = True
    read_file = staticmethod(own_records)
    prediction_files = staticmethod(table_files)

    def __init__(self, config: TaskConfig):
        super().__init__(config)
        self.takes_pairs = takes_pairs(config)

    @abc.abstractmethod
    def targets(self, records: TextRecords) -> np.ndarray:
        """Labels of records as the loss takes them, [N, …]."""

    def encode(self, records: TextRecords, tokenizer: TextTokenizer, is_labelled: bool) -> Examples:
        """`[CLS] text [SEP]` or `[CLS] text [SEP] text_pair [SEP]`, trimmed when they are packed."""
        self.check(records)
        features = {LABELS: self.targets(records)} if is_labelled else {}
        return Examples(records, text_rows(records, tokenizer, features))

    def check(self, records: TextRecords) -> None:
        """All are single texts, or all are pairs; those that the model was trained on, if it says."""
        wanted = records[0].text_pair is not None if self.takes_pairs is None else self.takes_pairs
        for record in records:
            if (record.text_pair is not None) != wanted:
                forms = ("a single text", "pairs (text, text_pair)")[:: 1 if wanted else -1]
                why = "the first is one of" if self.takes_pairs is None else "the model was trained on"
                raise InputError(f"{record.file} is {forms[0]}, and {why} {forms[1]}")

    @staticmethod
    @abc.abstractmethod
    def scores(logits: tf.Tensor) -> tf.Tensor:
        """Scores [B, K], or [B], of logits [B, K]."""

    def keep(self, outputs: Tensors, batch: Tensors) -> Tensors:
        """Scores."""
        return {"scores": self.scores(outputs["logits"])}

    @abc.abstractmethod
    def serve(self, scores: tf.Tensor, names: Sequence[str]) -> Tensors:
        """Answers of a server, given float32 scores and the names of the labels."""

    def signatures(self, served: Served) -> dict[str, Signature]:
        """`serving_default` of a text a row and `pair` of two, unless the run says which of them it learned.

        A model of pairs has `pair` alone, which is its `serving_default`, too.
        """
        names = served.label_names()

        def answer(*texts: tf.Tensor) -> Tensors:
            logits = served.outputs(served.inputs(*texts))["logits"]
            return self.serve(self.scores(tf.cast(logits, tf.float32)), names)

        signatures = text_signatures(answer)
        if self.takes_pairs is None:
            return signatures
        name = PAIR if self.takes_pairs else DEFAULT
        return {name: signatures[name]}

    def read(self, value: Any, where: str) -> TextRecord:
        """A text, or a pair: a tuple or list of two, or a dict of `text` and `text_pair`."""
        return read_text(value, where)

    def request(self, records: TextRecords) -> tuple[str, dict[str, Any]]:
        """Texts, and second texts where there are any."""
        if records[0].text_pair is None:
            return DEFAULT, texts_of(records, "text")
        return PAIR, texts_of(records, "text", "text_pair")


class Classification(TextKind):
    """One label a text."""

    name = "classification"
    losses = LABEL

    @classmethod
    def model_config(cls, records: TextRecords, labels: Sequence[str] | None = None) -> dict[str, Any]:
        """Entries of task.json; labels in the order of the logits, None for those of the records."""
        found = label_names(records) if labels is None else labels
        return {"model": cls.model, "num_labels": len(found), "labels": list(found)}

    @classmethod
    def labels_of(cls, record: TextRecord) -> tuple[str, ...]:
        """The label."""
        return (label_of(record),)

    def targets(self, records: TextRecords) -> np.ndarray:
        """Numbers of the labels, int32 [N]."""
        return np.array(label_ids(records, self.labels), np.int32)

    @staticmethod
    def scores(logits: tf.Tensor) -> tf.Tensor:
        """Probabilities that sum to 1."""
        return tf.nn.softmax(logits)

    def decode(self, examples: Examples, outputs: Arrays) -> list[LabelPrediction]:
        """The likeliest label of each text."""
        return [LabelPrediction(self.labels[row.argmax()], row) for row in outputs["scores"]]

    @classmethod
    def metrics(cls, records: TextRecords, predictions: Sequence[LabelPrediction]) -> dict[str, float]:
        """`accuracy`, and the mean of the labels' F1 scores as `f1`."""
        return label_metrics(accuracy=accuracy, f1=f1)(records, predictions)

    def serve(self, scores: tf.Tensor, names: Sequence[str]) -> Tensors:
        """`label` string [B], its probability `score` float32 [B]; all `labels` and `scores` [B, K]."""
        best = {
            "label": tf.gather(tf.constant(names), tf.argmax(scores, axis=1)),
            "score": tf.reduce_max(scores, axis=1),
        }
        return best | label_scores(scores, names)

    def answer(self, record: TextRecord, outputs: Arrays, top_k: int | None) -> Any:
        """The likeliest label, or a list of the `top_k` likeliest."""
        best = likeliest(outputs)[: top_k or 1]
        return best[0] if top_k is None else best


def label_scores(scores: tf.Tensor, names: Sequence[str]) -> dict[str, tf.Tensor]:
    """`labels` string and `scores` float32 [B, K].

    The labels are there for each row, since a server that collects requests into batches splits outputs by
    their rows.
    """
    return {"labels": tf.repeat(tf.constant([names]), tf.shape(scores)[0], axis=0), "scores": scores}


def likeliest(outputs: Arrays) -> list[dict[str, Any]]:
    """Labels of a text with their scores, the likeliest first; outputs `labels` and `scores`, [K] each."""
    labels, scores = outputs["labels"], outputs["scores"]
    order = np.argsort(-scores, kind="stable")
    return [{"label": labels[number].decode(), "score": float(scores[number])} for number in order]


def label_metrics(**functions: Metric) -> Callable[[TextRecords, Sequence[Any]], dict[str, float]]:
    """A function from records and predictions to metrics of their labels."""

    def metrics(records: TextRecords, predictions: Sequence[LabelPrediction]) -> dict[str, float]:
        right = [label_of(record) for record in records]
        predicted = [same_label(found.label) for found in predictions]
        return {name: function(right, predicted) for name, function in functions.items()}

    return metrics
