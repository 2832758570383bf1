"""The figures of each kind of task, of records and what was predicted for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from albert_tf.data.tasks.records import (
    ChoiceRecord,
    QuestionRecord,
    TaggedRecord,
    TextRecord,
    label_of,
    same_label,
    scores,
    tags_of,
)
from albert_tf.errors import InputError
from albert_tf.finetuning.predictions.records import (
    AnswerPrediction,
    ChoicePrediction,
    LabelPrediction,
    ScorePrediction,
    TagPrediction,
)
from albert_tf.training.metrics.labels import accuracy, entity_scores, pearson, spearman
from albert_tf.training.metrics.squad import squad_scores

Figures = dict[str, float]


def label_figures(
    **functions: Callable[[Sequence[str], Sequence[str]], float],
) -> Callable[[Sequence[TextRecord], Sequence[LabelPrediction]], Figures]:
    """A function from records and predictions to named figures of their labels."""

    def figures(records: Sequence[TextRecord], predictions: Sequence[LabelPrediction]) -> Figures:
        right = [label_of(record) for record in records]
        predicted = [same_label(found.label) for found in predictions]
        return {name: function(right, predicted) for name, function in functions.items()}

    return figures


def score_figures(records: Sequence[TextRecord], predictions: Sequence[ScorePrediction]) -> Figures:
    """`pearson` and `spearman`."""
    right, predicted = scores(records), [float(found.score) for found in predictions]
    return {"pearson": pearson(right, predicted), "spearman": spearman(right, predicted)}


def tag_figures(records: Sequence[TaggedRecord], predictions: Sequence[TagPrediction]) -> Figures:
    """`f1`, `precision` and `recall` of entities, and the `accuracy` of words' tags."""
    right, predicted = [tags_of(record) for record in records], [found.tags for found in predictions]
    of_words = ([tag for tags in sentences for tag in tags] for sentences in (right, predicted))
    return {**entity_scores(right, predicted), "accuracy": accuracy(*of_words)}


def choice_figures(
    records: Sequence[ChoiceRecord], predictions: Sequence[ChoicePrediction], groups: Sequence[str] = ()
) -> Figures:
    """`accuracy`, and `accuracy_<group>` of the groups that there are."""
    figures = {}
    for name, wanted in {"accuracy": None, **{f"accuracy_{group}": group for group in groups}}.items():
        pairs = [
            (_right_option(record), found.choice)
            for record, found in zip(records, predictions, strict=True)
            if wanted in (None, record.group)
        ]
        if pairs:
            figures[name] = accuracy(*zip(*pairs, strict=True))
    return figures


def _right_option(record: ChoiceRecord) -> int:
    if record.label is None:
        raise InputError(f"{record.where}: the question has no answer to compare with")
    return record.label


def answer_figures(records: Sequence[QuestionRecord], predictions: Sequence[AnswerPrediction]) -> Figures:
    """Those of SQuAD's scripts, in per cent; with null odds also the best of all thresholds."""
    answers = {record.id: found.text() for record, found in zip(records, predictions, strict=True)}
    odds = {
        record.id: found.null_odds
        for record, found in zip(records, predictions, strict=True)
        if found.null_odds is not None
    }
    questions = [_question(record, is_second=bool(odds)) for record in records]
    return squad_scores({"data": [{"paragraphs": [{"qas": questions}]}]}, answers, odds or None)


def _question(record: QuestionRecord, is_second: bool) -> dict[str, object]:
    flag = {"is_impossible": record.is_impossible} if is_second else {}
    return {"id": record.id, "answers": [{"text": answer.text} for answer in record.answers], **flag}
