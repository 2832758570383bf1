"""Classification: a text, or a pair of texts, to one of several labels."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.constants import HEAD_TAIL, LABELS, TRUNCATE, WINDOWS, Tensors
from albert_tf.errors import InputError, shorten
from albert_tf.models.compiled_encoder import map_blocks
from albert_tf.recipes import LongTexts
from albert_tf.report import Report
from albert_tf.settings import unflatten_record
from albert_tf.tasks.examples import (
    TextRecord,
    TokenizedExamples,
    TokenizedTexts,
    check_forms,
    concat_rows,
    examples_from_spans,
    label_ids,
    label_names,
    label_of,
    normalize_label,
    row_lengths,
    tokenize_texts,
)
from albert_tf.tasks.glue import GLUE
from albert_tf.tasks.long_texts import (
    head_and_tail,
    pool_windows,
    split_into_windows,
    text_inputs,
    window_inputs,
)
from albert_tf.tasks.losses import LABEL
from albert_tf.tasks.metrics import accuracy, f1
from albert_tf.tasks.serving import DEFAULT, PAIR, TEXT_REQUESTS, ServingModel, without_padding
from albert_tf.tasks.task import Arrays, Examples, FinetuningTask, Prediction, TaskEntries
from albert_tf.tasks.task_reports import label_report
from albert_tf.text.text_tokenizer import check_text
from albert_tf.text.tokenizer import TextTokenizer

TextRecords = Sequence[TextRecord]
Metric = Callable[[Sequence[str], Sequence[str]], float]
TextMetrics = Callable[[Any, TextRecords, Sequence[Prediction]], dict[str, float]]

# Entry of task.json: whether texts are pairs, if neither columns nor a GLUE task say so.
PAIRS_KEY = "takes_pairs"


def takes_pairs(entries: TaskEntries) -> bool | None:
    """True if a model learned pairs of texts, False if single texts. None if task.json does not say."""
    if PAIRS_KEY in entries:
        return bool(entries[PAIRS_KEY])
    if entries.get("columns"):
        return entries["columns"].get("text_pair") is not None
    task = entries.get("task")
    return GLUE[task].columns.text_pair is not None if task in GLUE else None


def text_rows(
    records: TextRecords,
    tokenizer: TextTokenizer,
    features: Mapping[str, np.ndarray],
    seq_length: int,
    long: str = TRUNCATE,
) -> TokenizedExamples:
    """Tokenises texts, or pairs of texts: either all records have a second text, or none has.

    Tokens are not trimmed to `seq_length` yet, but `TextTokenizer.shorten_text` has cut very long texts; what
    it cut off is not counted. With `long="head_tail"` the tokens between head and tail are dropped.
    """

    def tokenize(text: tf.Tensor) -> tf.RaggedTensor:
        return tokenizer.tokenize_shortened(text, seq_length, long)

    columns = [[record.text for record in records]]
    if records[0].text_pair is not None:
        columns.append([record.text_pair or "" for record in records])
    segments = [tokenize_texts(tokenize, texts) for texts in columns]
    dropped: np.ndarray | int = 0
    if long == HEAD_TAIL:
        budget = seq_length - tokenizer.vocabulary.input_format.num_special_tokens(1)
        with tf.device("CPU:0"):
            dropped = np.maximum(segments[0].row_lengths().numpy() - budget, 0)
            segments = [head_and_tail(segments[0], budget)]
    tokens, starts = concat_rows(segments)
    lengths = [row_lengths(segment) for segment in segments]
    spans = TokenizedTexts(tokens, tf.stack(starts, axis=-1), tf.stack(lengths, axis=-1))
    return examples_from_spans(spans, tokenizer.vocabulary, features, dropped=dropped)


class TextTask(FinetuningTask):
    """Texts, or pairs of texts, with the logits of a classifier; a subclass says what the logits mean.

    Training and `predict` use `encode`, `collect_outputs` and `predictions`; servers and `pipeline` use
    `answer` and `format_output`. Both decide by `decide`.
    """

    model_kind = "classifier"
    inputs = ("text", "text_pair")
    supported_settings = frozenset({"sample_weight", "pooling", "long", "window_pooling", "doc_stride"})

    def __init__(self, entries: TaskEntries):
        super().__init__(entries)
        self.long_texts = unflatten_record(LongTexts, entries)
        self.takes_pairs = takes_pairs(entries) if self.long_texts.long == TRUNCATE else False

    @abc.abstractmethod
    def targets(self, records: TextRecords) -> np.ndarray:
        """The targets of the loss for labelled records, [N, …]."""

    def encode(self, records: TextRecords, tokenizer: TextTokenizer, is_labelled: bool) -> Examples:
        """Tokens for `[CLS] text [SEP]` or `[CLS] text [SEP] text_pair [SEP]`, trimmed when they are packed.

        With `long="windows"` a text has a row for each window.
        """
        self.check_records(records)
        features = {LABELS: self.targets(records)} if is_labelled else {}
        rows = text_rows(records, tokenizer, features, self.seq_length, self.long_texts.long)
        if self.long_texts.long == WINDOWS:
            rows = split_into_windows(rows, self.seq_length, self.long_texts)
        return Examples(records, rows)

    def check_records(self, records: TextRecords) -> None:
        """Raises InputError unless all are single texts, or all are pairs, as the model was trained."""
        check_forms(records, self.takes_pairs)

    @staticmethod
    @abc.abstractmethod
    def scores(logits: tf.Tensor) -> tf.Tensor:
        """Scores [B, K], or [B], of logits [B, K]."""

    @abc.abstractmethod
    def decide(self, scores: tf.Tensor) -> dict[str, tf.Tensor]:
        """The decision for each text, given its scores. Runs in the graph."""

    @abc.abstractmethod
    def predictions_from_scores(self, scores: np.ndarray) -> list[Prediction]:
        """Predictions for texts with these scores, by `decide`."""

    def serving_outputs(self, scores: tf.Tensor, names: Sequence[str]) -> Tensors:
        """The outputs of a server, given float32 scores and the names of the labels."""
        return self.decide(scores)

    def collect_outputs(self, outputs: Tensors, batch: Tensors) -> Tensors:
        """Logits [B, K]."""
        return {"logits": outputs["logits"]}

    def predictions(self, examples: Examples, outputs: Arrays) -> list[Prediction]:
        """The prediction for each text; for texts in windows, from their pooled logits."""
        with tf.device("CPU:0"):
            logits = tf.constant(outputs["logits"])
            if (text_of := examples.rows.records) is not None:
                logits = pool_windows(logits, text_of, len(examples.records), self.long_texts)
            return self.predictions_from_scores(self.scores(logits).numpy())

    def answer(
        self,
        served: ServingModel,
        text: tf.Tensor,
        text_pair: tf.Tensor | None = None,
        patience: tf.Tensor | None = None,
    ) -> Tensors:
        """`serving_outputs` for texts, string [B]. With `patience`, int32 [B], also the `layers` computed."""
        settings = self.long_texts
        reading = served.seq_length, served.input_format, settings
        texts = (text,) if text_pair is None else (text, text_pair)
        inputs = text_inputs(served.tokenize(*texts, long=settings.long), *reading)
        if settings.long == WINDOWS:
            windows, rows = window_inputs(inputs, *reading)
            logits = map_blocks(
                lambda windows: served.logits(windows)[0], without_padding(windows), tf.float32
            )
            logits = pool_windows(logits, rows, tf.size(text), settings)
            layers = dict[str, tf.Tensor]()
        else:
            logits, layers = served.logits(without_padding(inputs), patience)
        return {**self.serving_outputs(self.scores(logits), served.label_names()), **layers}

    def requests(self) -> Mapping[str, Mapping[str, Any]]:
        """`serving_default` for single texts and `pair` for pairs, or only the one that the model learned.

        hub_export repeats the first one as `serving_default`.
        """
        if self.takes_pairs is None:
            return TEXT_REQUESTS
        name = PAIR if self.takes_pairs else DEFAULT
        return {name: TEXT_REQUESTS[name]}

    def check_model(self, served: ServingModel) -> None:
        """Raises InputError if task.json has not as many labels as the model."""
        served.label_names()

    @staticmethod
    def parse_input(value: Any, where: str) -> TextRecord:
        """A text, or a pair: a tuple or list of two, or a dict of `text` and `text_pair`."""
        if isinstance(value, Mapping):
            names = ("text", "text_pair") if "text_pair" in value else ("text",)
            value = TextTask.fields(value, names, where)
        texts = value if isinstance(value, tuple | list) else [value]
        if len(texts) not in (1, 2):
            raise InputError(f"{where}={shorten(value)} is not a pair of texts")
        text, *pair = (check_text(text, where if n == 0 else f"{where}[{n}]") for n, text in enumerate(texts))
        return TextRecord(where, 1, where, text, pair[0] if pair else None, None)

    def to_model_inputs(self, records: TextRecords) -> tuple[str, dict[str, Any]]:
        """The texts, and the second texts of pairs."""
        if records[0].text_pair is None:
            return DEFAULT, self.texts_of(records, "text")
        return PAIR, self.texts_of(records, "text", "text_pair")


class Classification(TextTask):
    """One label for each text."""

    name = "classification"
    metric_names = ("accuracy", "f1")
    report_names = ("ece", "auc")
    supported_settings = TextTask.supported_settings.union(
        {"class_weight", "label_smoothing", "threshold", "early_exit"}
    )
    losses = LABEL

    def __init__(self, entries: TaskEntries):
        super().__init__(entries)
        # Probability from which a text has the second of two labels. None: the likelier label.
        self.threshold: float | None = entries.get("threshold")

    @classmethod
    def model_config(
        cls, records: TextRecords, labels: Sequence[str] | None = None, threshold: float | None = None
    ) -> dict[str, Any]:
        """Entries of task.json. `labels` are in the order of the logits; None takes those of the records."""
        labels = list(label_names(records) if labels is None else labels)
        entries = {"model": cls.model_kind, "num_labels": len(labels), "labels": labels}
        if threshold is None:
            return entries
        if len(labels) != 2:
            raise InputError(
                f"threshold: it is between two labels, and there are {len(labels)}: leave it out"
            )
        return {**entries, "threshold": threshold}

    @classmethod
    def labels_of(cls, record: TextRecord) -> tuple[str, ...]:
        """The label."""
        return (label_of(record),)

    def targets(self, records: TextRecords) -> np.ndarray:
        """Numbers of the labels, int32 [N]."""
        found = ((label_of(record), record.where) for record in records)
        return np.array(label_ids(found, map(normalize_label, self.labels)), np.int32)

    @staticmethod
    def scores(logits: tf.Tensor) -> tf.Tensor:
        """Probabilities that sum to 1."""
        return tf.nn.softmax(logits)

    def decide(self, scores: tf.Tensor) -> dict[str, tf.Tensor]:
        """`chosen` [B]: index of the likeliest label; with a threshold, 1 if the second label reaches it."""
        if self.threshold is None:
            return {"chosen": tf.argmax(scores, axis=1)}
        return {"chosen": tf.cast(scores[:, 1] >= self.threshold, tf.int64)}

    def predictions_from_scores(self, scores: np.ndarray) -> list[Prediction]:
        """The label of each text."""
        chosen = self.decide(tf.constant(scores))["chosen"].numpy().tolist()
        return [Prediction(self.labels[n], row, n) for n, row in zip(chosen, scores, strict=True)]

    def serving_outputs(self, scores: tf.Tensor, names: Sequence[str]) -> Tensors:
        """`label` string [B], its probability `score` float32 [B]; all `labels` and `scores` [B, K]."""
        chosen = self.decide(scores)["chosen"]
        score = tf.gather(scores, chosen, batch_dims=1)
        return {"label": tf.gather(tf.constant(names), chosen), "score": score, **label_scores(scores, names)}

    def metrics(self, records: TextRecords, predictions: Sequence[Prediction]) -> dict[str, float]:
        """`accuracy`, and the mean of the labels' F1 scores as `f1`."""
        return label_metrics(accuracy=accuracy, f1=f1)(self, records, predictions)

    def report(self, records: TextRecords, predictions: Sequence[Prediction]) -> Report:
        """`label_report` of the texts."""
        scores = np.stack([found.scores for found in predictions])
        y_pred = np.array([found.label_indices for found in predictions])
        return label_report(self.labels, self.targets(records), y_pred, scores, format_inputs(records))

    def format_output(self, record: TextRecord, outputs: Arrays, top_k: int | None) -> Any:
        """The label, or with `top_k` a list that begins with it, followed by the likeliest others."""
        if top_k is not None:
            return most_likely(outputs, np.flatnonzero(outputs["labels"] == outputs["label"]))[:top_k]
        return {"label": bytes(outputs["label"]).decode(), "score": float(outputs["score"])}


def format_inputs(records: TextRecords) -> dict[str, list[str]]:
    """The columns of a report that show the texts."""
    has_pairs = records[0].text_pair is not None
    names = ("where", "text", "text_pair") if has_pairs else ("where", "text")
    return {name: [getattr(record, name) for record in records] for name in names}


def label_scores(scores: tf.Tensor, names: Sequence[str]) -> dict[str, tf.Tensor]:
    """`labels` string and `scores` float32 [B, K].

    The labels are repeated for each row: a server that batches requests splits the outputs by rows.
    """
    return {"labels": tf.repeat(tf.constant([names]), tf.shape(scores)[0], axis=0), "scores": scores}


def most_likely(outputs: Arrays, chosen: np.ndarray) -> list[dict[str, Any]]:
    """Labels of a text with their scores, in the order of `Prediction.order`."""
    labels, scores = outputs["labels"], outputs["scores"]
    order = Prediction(None, scores, chosen).order
    return [{"label": labels[number].decode(), "score": float(scores[number])} for number in order]


def label_metrics(**functions: Metric) -> TextMetrics:
    """Creates a function from a task, records and predictions to metrics of their labels."""

    def metrics(_: Any, records: TextRecords, predictions: Sequence[Prediction]) -> dict[str, float]:
        y_true = [label_of(record) for record in records]
        y_pred = [normalize_label(found.value) for found in predictions]
        return {name: function(y_true, y_pred) for name, function in functions.items()}

    return metrics
