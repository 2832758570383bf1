"""What answers for a pipeline: a serving model that `hub_export` has written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import albert_tf.text  # noqa: F401  registers the ops of what is loaded
from albert_tf.applications.answerers import Answerer
from albert_tf.applications.answers import FillPrediction
from albert_tf.applications.inputs import TaggedText
from albert_tf.data.tasks.records import ChoiceRecord, QuestionRecord, TextRecord
from albert_tf.data.tasks.rows import utf8
from albert_tf.errors import InputError
from albert_tf.finetuning.predictions.records import (
    AnswerPrediction,
    ChoicePrediction,
    FoundAnswer,
    LabelPrediction,
    ScorePrediction,
    TagPrediction,
)

_DEFAULT, _PAIR = "serving_default", "pair"

Ask = Callable[..., dict[str, np.ndarray]]


def exported_answerer(folder: Path, batch_size: int) -> Answerer:
    """A serving model.

    Args:
      folder: with its saved_model.pb.
      batch_size: texts at a time.
    Raises:
      InputError: it is not a serving model, or none that answers.
    """
    try:
        loaded = tf.saved_model.load(str(folder))
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise InputError(f"{folder} is not a SavedModel, or damaged: {error}") from error
    signatures = loaded.signatures

    def ask(signature: str, **inputs: Any) -> dict[str, np.ndarray]:
        # `loaded` is held here, for signatures do not hold what they are of.
        outputs = loaded.signatures[signature](**{name: tf.constant(x) for name, x in inputs.items()})
        return {name: tensor.numpy() for name, tensor in outputs.items()}

    found = next((task for task, name in _SIGNATURES.items() if name in signatures), None)
    if found is None and _DEFAULT in signatures:
        outputs = signatures[_DEFAULT].structured_outputs.keys()
        found = {"labels": "classification", "score": "regression"}.get(
            next((name for name in ("labels", "score") if name in outputs), "")
        )
    if found is None:
        raise InputError(f"{folder} has no signature that answers: name the folder hub/serving of an export")
    predict = _PREDICTORS[found]

    def predictions(records: Sequence[Any], top_k: int) -> list[Any]:
        blocks = [records[n : n + batch_size] for n in range(0, len(records), batch_size)]
        return [prediction for block in blocks for prediction in predict(ask, block, top_k)]

    labels: Sequence[str] = ()
    takes_pairs = None
    if found in ("classification", "regression"):
        inputs = signatures[_DEFAULT].structured_input_signature[1]
        if _PAIR not in signatures or "text_pair" in inputs:
            takes_pairs = _PAIR in signatures
    if found == "classification":
        names = ask(_DEFAULT, **{name: [b""] for name in inputs})["labels"]
        labels = _strings(names.reshape(-1))  # [1, K]; in earlier exports [K]
    most = choices = None
    if found == "fill_mask":
        most = signatures["fill_mask"].structured_outputs["scores"].shape[-1]
    if found == "multiple_choice":
        choices = signatures["choose"].structured_outputs["scores"].shape[-1]
    return Answerer(found, predictions, labels, takes_pairs, most, choices)


_SIGNATURES = {
    "fill_mask": "fill_mask",
    "question_answering": "answer",
    "tagging": "tag",
    "multiple_choice": "choose",
}


def _strings(array: np.ndarray) -> Any:
    """Bytes as str, in lists of the array's shape."""
    return np.char.decode(array.astype(bytes), "utf-8").tolist() if array.size else array.tolist()


def _texts(values: Sequence[str]) -> list[bytes]:
    return [utf8(value) for value in values]


def _ask_texts(ask: Ask, records: Sequence[TextRecord]) -> dict[str, np.ndarray]:
    texts = _texts([record.text for record in records])
    if records[0].text_pair is None:
        return ask(_DEFAULT, text=texts)
    return ask(_PAIR, text=texts, text_pair=_texts([record.text_pair or "" for record in records]))


def _label(ask: Ask, records: Sequence[TextRecord], _: int) -> list[LabelPrediction]:
    found = _ask_texts(ask, records)
    return [LabelPrediction(*row) for row in zip(_strings(found["label"]), found["scores"], strict=True)]


def _score(ask: Ask, records: Sequence[TextRecord], _: int) -> list[ScorePrediction]:
    return [ScorePrediction(score) for score in _ask_texts(ask, records)["score"]]


def _fill(ask: Ask, records: Sequence[TextRecord], top_k: int) -> list[FillPrediction]:
    found = ask("fill_mask", text=_texts([record.text for record in records]))
    counts = np.count_nonzero(found["tokens"][..., 0] != b"", axis=1)  # of masks that are there
    return [
        FillPrediction(_strings(tokens[:count, :top_k]), scores[:count, :top_k])
        for tokens, scores, count in zip(found["tokens"], found["scores"], counts, strict=True)
    ]


def _answer(ask: Ask, records: Sequence[QuestionRecord], _: int) -> list[AnswerPrediction]:
    questions, contexts = zip(*((record.question, record.context) for record in records), strict=True)
    found = ask("answer", question=_texts(questions), context=_texts(contexts))
    odds = found.get("no_answer_score", [None] * len(records))
    rows = zip(_strings(found["answer"]), found["start"], found["end"], found["score"], odds, strict=True)
    return [
        AnswerPrediction((FoundAnswer(text, int(start), int(end), np.nan, np.nan, float(score)),), none)
        for text, start, end, score, none in rows
    ]


def _tag(ask: Ask, records: Sequence[TaggedText], _: int) -> list[TagPrediction]:
    found = ask("tag", text=_texts([record.text for record in records]))
    return [
        TagPrediction(tuple(_strings(tags[: len(record.starts)])), scores[: len(record.starts)])
        for record, tags, scores in zip(records, found["labels"], found["scores"], strict=True)
    ]


def _choose(ask: Ask, records: Sequence[ChoiceRecord], _: int) -> list[ChoicePrediction]:
    found = ask(
        "choose",
        context=_texts([record.context for record in records]),
        question=_texts([record.question for record in records]),
        options=[_texts(record.options) for record in records],
    )
    return [ChoicePrediction(int(n), row) for n, row in zip(found["choice"], found["scores"], strict=True)]


_PREDICTORS: dict[str, Callable[[Ask, Any, int], list[Any]]] = {
    "fill_mask": _fill,
    "classification": _label,
    "regression": _score,
    "question_answering": _answer,
    "tagging": _tag,
    "multiple_choice": _choose,
}
