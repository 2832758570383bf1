"""Interfaces of a kind of task.

Text goes one way: tokens → model → `decide`, in the graph. In bulk, for training and files, `encode` makes
rows of tokens of records, a model sees them in batches, and `predictions` are made of what `decide` gives. At
once, for a server and for `pipeline`, `answer` does all of it in one graph, from strings to outputs, and
`format_output` makes plain values of these.
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
from albert_tf.models.loss_sums import LossFn, LossSum
from albert_tf.report import Report
from albert_tf.tasks.examples import TokenizedExamples, utf8
from albert_tf.tasks.formats import Records
from albert_tf.tasks.losses import LossSpec
from albert_tf.tasks.serving import EARLY_EXIT, EXAMPLE_PATIENCE, Served, Signature, sign
from albert_tf.text.text_tokenizer import check_text
from albert_tf.text.tokenizer import TextTokenizer

Arrays = Mapping[str, np.ndarray]

# Content of task.json: `model` and its arguments, `labels`, `seq_length`, settings of questions.
TaskConfig = Mapping[str, Any]

SEQ_LENGTH = 128  # of a model whose task.json names none


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
    """Records as tokens."""

    records: Sequence[Any]  # one a prediction
    rows: TokenizedExamples  # input of a model; a long record may have several
    places: Any = None  # where the parts of a record are among the rows, for kinds that need it


class Prediction(NamedTuple):
    """Prediction for a record; questions on a context have an `AnswerPrediction`."""

    value: Any  # a label; a tuple of labels or tags; a number; the number of an option
    scores: np.ndarray  # probability of each label or option; of each tag; the number itself
    chosen: Any = None  # the value's place, or places, among the scores; None: the highest, or all of a tuple

    @property
    def score(self) -> np.ndarray:
        """Probability of the label or option; of each label or tag in a tuple."""
        if self.chosen is not None:
            return self.scores[self.chosen]
        return self.scores if isinstance(self.value, tuple) else self.scores.max()

    @property
    def order(self) -> np.ndarray:
        """Places of labels among the scores: what is decided first, and the likelier before the others."""
        is_other = ~np.isin(np.arange(len(self.scores)), self.chosen)
        return np.lexsort((-self.scores, is_other))


class Task(abc.ABC):
    """A kind of task, with the settings of one model."""

    name: ClassVar[str]  # as `pipeline` takes it
    model: ClassVar[str]  # in task.json
    signature: ClassVar[str]  # that a pipeline asks
    inputs: ClassVar[tuple[str, ...]]  # of that, which are fields of a record
    example: Mapping[str, Any]  # of these inputs
    has_exits: ClassVar[bool] = False  # True if texts may leave early

    def __init__(self, config: TaskConfig):
        self.seq_length: int = config.get("seq_length", SEQ_LENGTH)
        self.labels: Sequence[str] = config.get("labels") or ()

    # The outputs for texts by the names of inputs, as tensors: `answer(served, text=…)`.
    answer: Callable[..., Tensors]

    def signatures(self, served: Served) -> dict[str, Signature]:
        """`answer` as functions of a server by name, the default one first.

        A model with exits has `early_exit`, the same with `patience` int32 [B].
        """
        self.check_served(served)
        answer, requests = functools.partial(self.answer, served), {self.signature: self.example}
        if self.has_exits and served.has_exits:
            requests[EARLY_EXIT] = {**self.example, **EXAMPLE_PATIENCE}
        return {name: sign(answer, example) for name, example in requests.items()}

    def check_served(self, served: Served) -> None:  # noqa: B027  few kinds refuse any
        """Refuses a model that the task does not fit, before anything is computed."""

    @abc.abstractmethod
    def parse_input(self, value: Any, where: str) -> Any:
        """A record of one input of a pipeline; an InputError names the place of what is none."""

    def check(self, records: Records) -> None:  # noqa: B027  few kinds refuse any
        """Refuses records that cannot be answered together."""

    def to_model_inputs(self, records: Records) -> tuple[str, dict[str, Any]]:
        """Inputs of `answer` for some records, after the name of the signature that takes them."""
        return self.signature, self.texts_of(records, *self.inputs)

    @staticmethod
    def texts_of(records: Records, *names: str) -> dict[str, list[Any]]:
        """Fields of records as inputs of a signature."""
        return {name: [_encoded(getattr(record, name)) for record in records] for name in names}

    @classmethod
    def fields(cls, value: Any, names: Sequence[str], where: str) -> tuple[str, ...]:
        """Texts of a dict by their names; an InputError where it is no such dict, or has unknown keys."""
        if isinstance(value, Mapping):
            check_names(value, cls.inputs, where)
        if not isinstance(value, Mapping) or not value.keys() >= set(names):
            raise InputError(f"{where}={shorten(value)} is not a dict of {', '.join(names)}")
        return tuple(check_text(value[name], f"{where}[{name!r}]") for name in names)

    @abc.abstractmethod
    def format_output(self, record: Any, outputs: Arrays, top_k: int | None) -> Any:
        """Answer of a pipeline to a record: plain values, places in characters.

        `outputs` are those of `answer` for this record. `top_k` is the number of answers, where there may be
        several.
        """

    def collect(self, answers: list[Any]) -> Any:
        """What a pipeline returns for a list of inputs, given the answer of each."""
        return answers


def _encoded(texts: str | Sequence[str]) -> Any:
    return utf8(texts) if isinstance(texts, str) else [utf8(text) for text in texts]


def to_length(values: tf.Tensor, length: int, filler: float = 0) -> tf.Tensor:
    """Values of tokens, [B, …], at the length of the longest sequence, whatever that of the batch is."""
    padded = tf.pad(values, [[0, 0], [0, length - tf.shape(values)[1]]], constant_values=filler)
    return tf.ensure_shape(padded, [None, length])


class FinetuningTask(Task):
    """A kind of task that models are fine-tuned for."""

    is_pooled: ClassVar[bool] = False  # True if the head reads a state of a sequence that `pooling` chooses
    has_windows: ClassVar[bool] = False  # True if long texts are read in windows, as `QuestionSettings` say
    metric_names: ClassVar[tuple[str, ...]] = ("accuracy",)  # of which the first decides on the best step
    report_names: tuple[str, ...] = ("ece",)  # further figures of `report`
    losses: Mapping[str, LossSpec]  # terms of the loss by name, which add up
    has_evaluation_loss: bool = True  # True if the outputs that predictions are made of tell the loss

    @classmethod
    @abc.abstractmethod
    def model_config(cls, records: Records) -> dict[str, Any]:
        """Entries of task.json for a model that learns these records: its class, its size, its labels."""

    @classmethod
    def labels_of(cls, record: Any) -> tuple[str, ...]:
        """Labels of a record, by which data is held out evenly; none of kinds whose labels are no names."""
        return ()

    @abc.abstractmethod
    def encode(self, records: Records, tokenizer: TextTokenizer, is_labelled: bool) -> Examples:
        """Records as rows of tokens; an InputError names a record that does not fit the model."""

    @abc.abstractmethod
    def collect_outputs(self, outputs: Tensors, batch: Tensors) -> Tensors:
        """What `predictions` needs of a model's outputs: [B, …], with static shapes but for B."""

    @abc.abstractmethod
    def predictions(self, examples: Examples, outputs: Arrays) -> list[Any]:
        """A prediction of each record, of what `collect_outputs` has given for all rows, [N, …]."""

    def objective(self) -> LossFn:
        """Objective of fine-tuning."""
        losses = self.losses

        def terms(outputs: Tensors, batch: Tensors) -> dict[str, LossSum]:
            return {name: part.term(outputs, batch, part.weights(batch)) for name, part in losses.items()}

        def weights(batch: Tensors) -> dict[str, tf.Tensor]:
            return {name: tf.reduce_sum(part.weights(batch)) for name, part in losses.items()}

        return LossFn(tuple(losses), terms, weights)

    @abc.abstractmethod
    def metrics(self, records: Records, predictions: Sequence[Any]) -> dict[str, float]:
        """Metrics of predictions for labelled records."""

    @abc.abstractmethod
    def report(self, records: Records, predictions: Sequence[Any]) -> Report:
        """Further figures, tables and curves of predictions for labelled records."""
