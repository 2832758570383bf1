"""What signatures answer to records, and whether it is what was predicted for them."""

import numpy as np
import tensorflow as tf

from albert_tf.tasks.examples import ChoiceRecord, QuestionRecord, TaggedRecord
from albert_tf.tasks.question_answering import AnswerPrediction
from albert_tf.tasks.task import Prediction
from hub_export.serving_signatures import ServingModel, serving_signatures


def served(model, tokenizer, entries):
    """The signatures of a model in memory, as those of a loaded export are."""
    signatures = serving_signatures(ServingModel(model, tokenizer, entries["seq_length"], entries))
    return {name: signature.function for name, signature in signatures.items()}


def assert_answered(signatures, records, predictions):
    """Fails unless the signatures answer to the records what was predicted."""
    for record, expected, found in zip(records, predictions, _answers(signatures, records), strict=True):
        _compare(record, expected, found)


def _answers(signatures, records):
    match records[0]:
        case TaggedRecord():
            width = max(len(record.words) for record in records)
            words = [[*record.words, *[""] * (width - len(record.words))] for record in records]
            name, inputs = "tag_words", {"words": words}
        case QuestionRecord():
            name, inputs = "answer", _columns(records, "question", "context")
        case ChoiceRecord():
            name, inputs = "choose", _columns(records, "context", "question", "options")
        case record if record.text_pair is not None:
            name, inputs = "pair", _columns(records, "text", "text_pair")
        case _:
            name, inputs = "serving_default", _columns(records, "text")
    found = signatures[name](**{key: tf.constant(values) for key, values in inputs.items()})
    arrays = {key: tensor.numpy() for key, tensor in found.items() if key != "labels" or name == "tag_words"}
    return [{key: array[row] for key, array in arrays.items()} for row in range(len(records))]


def _columns(records, *names):
    return {name: [getattr(record, name) for record in records] for name in names}


def _compare(record, expected, found):
    match expected:
        case Prediction(str() as label, scores):
            assert found["label"].decode() == label
            _close(found["scores"], scores)
            _close(found["score"], max(scores))
        case Prediction(int() | np.integer() as choice, scores):
            assert found["choice"] == choice
            _close(found["scores"], scores)
        case Prediction(tuple() as tags, scores) if isinstance(record, TaggedRecord):
            padding = len(found["labels"]) - len(record.words)
            assert [tag.decode() for tag in found["labels"]] == [*tags, *[""] * padding]
            _close(found["scores"], [*scores, *[0] * padding])
        case Prediction(tuple(), scores, chosen):
            _close(found["scores"], scores)
            assert np.flatnonzero(found["is_label"]).tolist() == list(chosen)
        case Prediction(number, _):
            _close(found["score"], number)
        case AnswerPrediction((best, *_), null_odds):
            answer = (found["answer"].decode(), found["start"], found["end"])
            assert answer == (best.text, best.start, best.end)
            assert record.context.encode()[best.start : best.end].decode() == best.text
            _close(found["score"], best.probability)
            count = min(len(expected.answers), len(found["answers"]))
            spans = [(x.text, x.start, x.end) for x in expected.answers[:count]]
            padded = [*spans, *[("", 0, 0)] * (len(found["answers"]) - count)]
            texts = [text.decode() for text in found["answers"]]
            assert list(zip(texts, found["starts"], found["ends"], strict=True)) == padded
            _close(found["scores"][:count], [x.probability for x in expected.answers[:count]])
            if null_odds is not None:
                _close(found["no_answer_score"], null_odds)
        case _:
            raise AssertionError(f"what is {expected}?")


def _close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
