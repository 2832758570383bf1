"""Interfaces of a kind of task.

All text goes the same way: tokens → model → `decide`, which runs in the graph. Training and `predict` work in
bulk: `encode` tokenises all records, the model sees them in batches, and `predictions` formats the decisions.
Servers and `pipeline` call `answer`, one graph from strings to outputs, and `format_output` turns its outputs
into plain Python values.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.constants import Tensors
from albert_tf.errors import InputError, check_names, shorten
from albert_tf.models.loss_sums import Loss, LossFn
from albert_tf.report import Report
from albert_tf.tasks.examples import TokenizedExamples, utf8
from albert_tf.tasks.formats import Records
from albert_tf.tasks.serving import ServingModel, Signature, create_signatures
from albert_tf.text.text_tokenizer import check_text
from albert_tf.text.tokenizer import TextTokenizer

Arrays = Mapping[str, np.ndarray]


def to_arrays(tensors: Tensors) -> dict[str, np.ndarray]:
    """Converts tensors by name to arrays."""
    return {name: tensor.numpy() for name, tensor in tensors.items()}


# Content of task.json: `model` and its arguments, `labels`, `seq_length`, settings of questions.
TaskEntries = Mapping[str, Any]

SEQ_LENGTH = 128  # default of a task.json without `seq_length`


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
    """Records as tokens."""

    records: Sequence[Any]  # one for each prediction
    rows: TokenizedExamples  # input of a model; a long record may have several
    layout: Any = None  # where the rows hold contexts (question answering) or words (tagging)


class Prediction(NamedTuple):
    """Prediction for a record. Question answering has its own, `AnswerPrediction`."""

    value: Any  # a label; a tuple of labels or tags; a number; the number of an option
    scores: np.ndarray  # probability of each label or option; of each tag; the number itself
    # Index of the value in `scores`, or indices. None: the highest score, or all scores of a tuple.
    label_indices: Any = None

    @property
    def score(self) -> np.ndarray:
        """Probability of the label or option; of each label or tag in a tuple."""
        if self.label_indices is not None:
            return self.scores[self.label_indices]
        return self.scores if isinstance(self.value, tuple) else self.scores.max()

    @property
    def order(self) -> np.ndarray:
        """Places of the labels: first the predicted ones, then the others, the likeliest first."""
        is_other = ~np.isin(np.arange(len(self.scores)), self.label_indices)
        return np.lexsort((-self.scores, is_other))


class Task(abc.ABC):
    """A kind of task with the settings of one model."""

    name: ClassVar[str]  # name of the task in `pipeline`
    model_kind: ClassVar[str]  # value of `model` in task.json
    signature: ClassVar[str]  # signature that a pipeline calls
    inputs: ClassVar[tuple[str, ...]]  # inputs of that signature; records have fields of these names
    example: Mapping[str, Any]  # a request with these inputs
    # Names of the settings of fine-tuning that this kind can use, without those that every kind can use.
    supported_settings: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, entries: TaskEntries):
        self.seq_length: int = entries.get("seq_length", SEQ_LENGTH)
        self.labels: Sequence[str] = entries.get("labels") or ()

    # From a serving model and tensors by the names of the inputs to outputs: `answer(served, text=…)`.
    answer: Callable[..., Tensors]

    def requests(self) -> Mapping[str, Mapping[str, Any]]:
        """An example of a request for each signature, that of the default one first."""
        return {self.signature: self.example}

    def signatures(self, served: ServingModel) -> dict[str, Signature]:
        """The functions that a server offers, by name, the default one first: `answer` with its inputs.

        A model with early exits also has `early_exit`, with the further input `patience`, int32 [B], and the
        further output `layers`.
        """
        self.check_model(served)
        has_exits = "early_exit" in self.supported_settings and served.has_exits
        return create_signatures(functools.partial(self.answer, served), self.requests(), has_exits)

    def check_model(self, served: ServingModel) -> None:  # noqa: B027  few kinds refuse any
        """Raises InputError for a model that does not fit the task. Called before anything is computed."""

    @abc.abstractmethod
    def parse_input(self, value: Any, where: str) -> Any:
        """Makes a record of one input of a pipeline. Raises InputError with its place, `where`."""

    def check_records(self, records: Records) -> None:  # noqa: B027  few kinds refuse any
        """Raises InputError for records that cannot be answered together."""

    def to_model_inputs(self, records: Records) -> tuple[str, dict[str, Any]]:
        """The name of the signature that takes the records, and its inputs."""
        return self.signature, self.texts_of(records, *self.inputs)

    @staticmethod
    def texts_of(records: Records, *names: str) -> dict[str, list[Any]]:
        """Fields of records as inputs of a signature."""
        return {name: [_to_bytes(getattr(record, name)) for record in records] for name in names}

    @classmethod
    def fields(cls, value: Any, names: Sequence[str], where: str) -> tuple[str, ...]:
        """The texts of a dict, by names. Raises InputError if one is missing, or a key is unknown."""
        if isinstance(value, Mapping):
            check_names(value, cls.inputs, where)
        if not isinstance(value, Mapping) or not value.keys() >= set(names):
            raise InputError(f"{where}={shorten(value)} is not a dict of {', '.join(names)}")
        return tuple(check_text(value[name], f"{where}[{name!r}]") for name in names)

    @abc.abstractmethod
    def format_output(self, record: Any, outputs: Arrays, top_k: int | None) -> Any:
        """The answer of a pipeline to a record: plain values, with places in characters.

        Args:
          record: a record that `parse_input` made.
          outputs: the row of this record in the outputs of `answer`.
          top_k: number of answers. None: the default of the task.
        """

    def collect(self, answers: list[Any]) -> Any:
        """Joins the answers to a list of inputs into the result of a pipeline."""
        return answers


def _to_bytes(texts: str | Sequence[str]) -> Any:
    return utf8(texts) if isinstance(texts, str) else [utf8(text) for text in texts]


def to_length(values: tf.Tensor, length: int, filler: float = 0) -> tf.Tensor:
    """Pads values of tokens, [B, S, …], to a fixed length, so that batches of all lengths have one shape."""
    padded = tf.pad(values, [[0, 0], [0, length - tf.shape(values)[1]]], constant_values=filler)
    return tf.ensure_shape(padded, [None, length])


class FinetuningTask(Task):
    """A kind of task for which models are fine-tuned."""

    has_windows: ClassVar[bool] = False  # True if long texts are read in windows (`QuestionSettings`)
    metric_names: ClassVar[tuple[str, ...]] = ("accuracy",)  # the first one chooses the best step
    report_names: tuple[str, ...] = ("ece",)  # further metrics in `report`
    losses: Mapping[str, Loss]  # terms of the loss by name; their sum is the loss
    has_evaluation_loss: bool = True  # True if the loss can be computed from the outputs of a prediction

    @classmethod
    @abc.abstractmethod
    def model_config(cls, records: Records) -> dict[str, Any]:
        """Entries of task.json for a model that learns these records: class, size, labels."""

    @classmethod
    def labels_of(cls, record: Any) -> tuple[str, ...]:
        """Labels of a record, by which held-out data is stratified. Empty for kinds without label names."""
        return ()

    @abc.abstractmethod
    def encode(self, records: Records, tokenizer: TextTokenizer, is_labelled: bool) -> Examples:
        """Tokenises records. Raises InputError, with its place, for a record that does not fit the model."""

    @abc.abstractmethod
    def collect_outputs(self, outputs: Tensors, batch: Tensors) -> Tensors:
        """Selects the tensors that `predictions` needs: [B, …], with static shapes except B."""

    @abc.abstractmethod
    def predictions(self, examples: Examples, outputs: Arrays) -> list[Any]:
        """Predictions, one for each record, from the outputs of `collect_outputs` for all rows, [N, …]."""

    def loss_fn(self) -> LossFn:
        """The loss function of fine-tuning."""
        return LossFn(self.losses)

    @abc.abstractmethod
    def metrics(self, records: Records, predictions: Sequence[Any]) -> dict[str, float]:
        """Metrics of predictions for labelled records."""

    @abc.abstractmethod
    def report(self, records: Records, predictions: Sequence[Any]) -> Report:
        """Further metrics, tables and curves of predictions for labelled records."""
