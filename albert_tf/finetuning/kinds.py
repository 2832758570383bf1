"""The kinds of tasks: what task.json says of a model, records to examples, outputs to predictions."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.pairs import takes_pairs
from albert_tf.data.tasks.encoding import TaggedRows, choice_rows, tagged_rows, text_rows
from albert_tf.data.tasks.questions import QuestionRows, question_rows
from albert_tf.data.tasks.records import label_names, label_of, tag_names
from albert_tf.data.tasks.rows import TokenRows, splits_of
from albert_tf.errors import InputError
from albert_tf.finetuning.predictions.answers import question_answerer
from albert_tf.finetuning.predictions.outputs import Predicted, Progress, Tensors, padded, row_outputs, unseen
from albert_tf.finetuning.predictions.records import (
    ChoicePrediction,
    LabelPrediction,
    ScorePrediction,
    TagPrediction,
)
from albert_tf.text.tokenizer import PieceTokenizer
from albert_tf.training.losses import Objective

# What task.json says: `model` and its arguments, `labels`, `seq_length`, settings of questions.
Entries = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
    """Records as tokens.

    Args:
      records: one a prediction.
      rows: what batches are made of; some kinds have several for a long record.
      places: of these kinds, how rows and records belong together.
    """

    records: Sequence[Any]
    rows: TokenRows
    places: TaggedRows | QuestionRows | None = None


class Predictor(Protocol):
    """What a model answers."""

    def __call__(self, examples: Examples, progress: Progress = unseen) -> Predicted:
        """A prediction for each record of the examples, in their order."""


class Kind(NamedTuple):
    """What the tasks of a kind have in common.

    Attributes:
      entries: what task.json says of a model that learns these records: its class, its size, its labels. An
        InputError where a record has no label, or there is nothing to learn.
      encode: records to examples, given the tokenizer, what task.json says, and whether the labels are
        wanted. An InputError where a record does not fit the model, such as by a label that it does not know.
      predictor: from a model, what task.json says, the examples of a batch (B) and losses to sum up on the
        way, or None, to a function of examples that gives a prediction of each record, in their order; it may
        be called many times.
      is_pooled: whether the head reads one state of a whole sequence, which `pooling` may choose.
      label_of: the label of a record, where each has one; None of other kinds.
    """

    entries: Callable[[Sequence[Any]], dict[str, Any]]
    encode: Callable[[Sequence[Any], PieceTokenizer, Entries, bool], Examples]
    predictor: Callable[[Any, Entries, int, Objective | None], Predictor]
    is_pooled: bool = False
    label_of: Callable[[Any], str] | None = None


def classification(labels: Sequence[str] | None = None) -> Kind:
    """Texts, or pairs of texts, to labels.

    Args:
      labels: in the order of the logits; None takes those of the training data.
    """

    def entries(records: Sequence[Any]) -> dict[str, Any]:
        found = label_names(records) if labels is None else labels
        return {"model": "classifier", "num_labels": len(found), "labels": list(found)}

    return Kind(entries, _encode_labelled, _label_predictor, is_pooled=True, label_of=label_of)


def _encode_labelled(
    records: Sequence[Any], tokenizer: PieceTokenizer, entries: Entries, is_labelled: bool
) -> Examples:
    pairs = takes_pairs(entries)
    if records and pairs not in (None, records[0].text_pair is not None):
        learned, given = ("pairs", "single texts") if pairs else ("single texts", "pairs")
        raise InputError(f"{records[0].file}: the model learned {learned}, and these are {given}")
    return Examples(records, text_rows(records, tokenizer, entries.get("labels"), is_labelled))


def _label_predictor(model: Any, entries: Entries, batch_size: int, objective: Objective | None) -> Predictor:
    outputs = row_outputs(model, entries["seq_length"], batch_size, _probabilities, objective)
    labels = entries["labels"]

    def predict(examples: Examples, progress: Progress = unseen) -> Predicted:
        found, terms = outputs(examples.rows, progress)
        rows = found["probabilities"]  # [N, K]
        return Predicted([LabelPrediction(labels[scores.argmax()], scores) for scores in rows], terms)

    return predict


def _probabilities(outputs: Tensors, _: Tensors) -> Tensors:
    return {"probabilities": tf.nn.softmax(outputs["logits"])}


def _score_predictor(model: Any, entries: Entries, batch_size: int, objective: Objective | None) -> Predictor:
    def keep(outputs: Tensors, _: Tensors) -> Tensors:
        return {"scores": outputs["logits"][:, 0]}

    outputs = row_outputs(model, entries["seq_length"], batch_size, keep, objective)

    def predict(examples: Examples, progress: Progress = unseen) -> Predicted:
        found, terms = outputs(examples.rows, progress)
        return Predicted([ScorePrediction(score) for score in found["scores"]], terms)

    return predict


def _choice_entries(records: Sequence[Any]) -> dict[str, Any]:
    return {"model": "multiple_choice", "num_choices": len(records[0].options)}


def _encode_choices(
    records: Sequence[Any], tokenizer: PieceTokenizer, entries: Entries, is_labelled: bool
) -> Examples:
    options, choices = len(records[0].options), entries["num_choices"]
    if options != choices:
        raise InputError(f"{records[0].where}: {options} options where the model knows {choices}")
    return Examples(records, choice_rows(records, tokenizer, entries["seq_length"], is_labelled))


def _choice_predictor(
    model: Any, entries: Entries, batch_size: int, objective: Objective | None
) -> Predictor:
    outputs = row_outputs(model, entries["seq_length"], batch_size, _probabilities, objective)

    def predict(examples: Examples, progress: Progress = unseen) -> Predicted:
        found, terms = outputs(examples.rows, progress)
        rows = found["probabilities"]  # [N, C]
        return Predicted([ChoicePrediction(int(scores.argmax()), scores) for scores in rows], terms)

    return predict


def _tag_entries(records: Sequence[Any]) -> dict[str, Any]:
    labels = tag_names(records)
    return {"model": "token_classifier", "num_labels": len(labels), "labels": list(labels)}


def _encode_tagged(
    records: Sequence[Any], tokenizer: PieceTokenizer, entries: Entries, is_labelled: bool
) -> Examples:
    found = tagged_rows(records, tokenizer, entries["seq_length"], entries["labels"], is_labelled)
    return Examples(records, found.rows, found)


def _tag_predictor(model: Any, entries: Entries, batch_size: int, objective: Objective | None) -> Predictor:
    seq_length, labels = entries["seq_length"], entries["labels"]

    def keep(outputs: Tensors, _: Tensors) -> Tensors:
        probabilities = tf.nn.softmax(outputs["logits"])  # [B, S, K]
        likeliest = tf.argmax(probabilities, axis=-1, output_type=tf.int32)  # [B, S]
        scores = tf.reduce_max(probabilities, axis=-1)
        return {"tags": padded(likeliest, seq_length, 0), "scores": padded(scores, seq_length, 0)}

    outputs = row_outputs(model, seq_length, batch_size, keep, objective)

    def predict(examples: Examples, progress: Progress = unseen) -> Predicted:
        assert isinstance(examples.places, TaggedRows)
        found, terms = outputs(examples.rows, progress)
        tags, scores = (examples.places.of_words(found[name]) for name in ("tags", "scores"))  # [words]
        splits = splits_of(np.array([len(record.words) for record in examples.records]))
        predictions = [
            TagPrediction(tuple(labels[tag] for tag in tags[first:behind]), scores[first:behind])
            for first, behind in itertools.pairwise(splits)
        ]
        return Predicted(predictions, terms)

    return predict


def spans(answerability: bool) -> Kind:
    """Questions on contexts to spans of them.

    Args:
      answerability: whether questions may have no answer.
    """

    def entries(_: Sequence[Any]) -> dict[str, Any]:
        return {"model": "span_labeler", **({"answerability": True} if answerability else {})}

    return Kind(entries, _encode_questions, _answer_predictor)


def _encode_questions(
    records: Sequence[Any], tokenizer: PieceTokenizer, entries: Entries, is_labelled: bool
) -> Examples:
    settings = {name: entries[name] for name in ("seq_length", "doc_stride", "max_query_length")}
    found = question_rows(records, tokenizer, **settings, is_labelled=is_labelled)
    return Examples(records, found.rows, found)


def _answer_predictor(
    model: Any, entries: Entries, batch_size: int, objective: Objective | None
) -> Predictor:
    settings = {name: entries[name] for name in ("seq_length", "max_answer_length", "n_best")}
    answers = question_answerer(model, batch_size, **settings, objective=objective)

    def predict(examples: Examples, progress: Progress = unseen) -> Predicted:
        assert isinstance(examples.places, QuestionRows)
        return answers(examples.places, progress)

    return predict


REGRESSION = Kind(
    lambda _: {"model": "classifier", "num_labels": 1}, _encode_labelled, _score_predictor, is_pooled=True
)
MULTIPLE_CHOICE = Kind(_choice_entries, _encode_choices, _choice_predictor, is_pooled=True)
TAGGING = Kind(_tag_entries, _encode_tagged, _tag_predictor)
