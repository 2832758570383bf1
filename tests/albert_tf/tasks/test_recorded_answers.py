"""Answers over windows: recorded log-probabilities through the whole of it, and a tiny model by itself."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning.finetuned_model import create_predict_fn
from albert_tf.tasks.dataset_files import read_squad
from albert_tf.tasks.examples import QuestionRecord
from albert_tf.tasks.question_answering import QuestionAnswering
from tests.tiny import DOCUMENTS


class Recorded:
    """A model that says of the recorded windows what was recorded, and nothing of other input."""

    def __init__(self, expected, answerability):
        self.answerability = answerability
        length = expected["settings"]["seq_length"]
        ids = [window["input_word_ids"] for window in expected["windows"]]
        self._ids = np.array([row + [0] * (length - len(row)) for row in ids], np.int32)
        self._outputs = {
            key: np.array([output[key] for output in expected["outputs"]], np.float32)
            for key in expected["outputs"][0]
        }
        self._beams = expected["settings"]["start_n_top"], expected["settings"]["end_n_top"]

    def __call__(self, batch, training):
        ids = batch["input_word_ids"]
        length = tf.shape(ids)[1]
        same = tf.reduce_all(ids[:, tf.newaxis] == tf.constant(self._ids)[:, :length], axis=2)  # [B, W]
        number = tf.argmax(same, axis=1)
        outputs = {key: tf.gather(values, number) for key, values in self._outputs.items()}
        if not self.answerability:
            return {f"{end}_logits": outputs[f"{end}_log_probs"][:, :length] for end in ("start", "end")}
        beams = [-1, *self._beams]
        return {
            "start_top_log_probs": outputs["start_top_log_probs"],
            "start_top_index": tf.cast(outputs["start_top_index"], tf.int32),
            "end_top_log_probs": tf.reshape(outputs["end_top_log_probs"], beams),
            "end_top_index": tf.cast(tf.reshape(outputs["end_top_index"], beams), tf.int32),
            "no_answer_logits": outputs["cls_logits"],
        }


@pytest.mark.parametrize("kind", ["span", "answerability"])
def test_recorded_answers(shared, published_tokenizer, kind):
    folder = shared / "golden/squad_windows"
    recorded = json.loads((folder / "expected.json").read_text("utf-8"))
    settings = recorded["settings"]
    records = read_squad(folder / "dataset.json", has_impossible=True, needs_answers=True)
    config = {
        **{
            name: settings[name]
            for name in ("seq_length", "doc_stride", "max_query_length", "max_answer_length")
        },
        "n_best": settings["n_best_size"],
        "answerability": kind == "answerability",
    }
    answering = QuestionAnswering(config)
    examples = answering.encode(records, published_tokenizer, True)
    assert len(examples.rows) == len(recorded["windows"])
    model = Recorded(recorded, kind == "answerability")
    found = create_predict_fn(answering, model, 16)(examples).predictions
    expected = recorded[kind]
    compared = 0
    for record, prediction in zip(records, found, strict=True):
        if kind == "answerability":
            np.testing.assert_allclose(prediction.null_odds, expected["null_odds"][record.id], rtol=1e-6)
        else:
            assert prediction.null_odds is None
        best = expected["nbest"][record.id]
        if record.context.isascii():
            compared += 1
            assert prediction.text(settings["null_threshold"]) == expected["predictions"][record.id]
            assert [answer.text for answer in prediction.answers[:3]] == [answer["text"] for answer in best]
        else:  # The recorded characters are not exact, and answers of the same text are one.
            best = best[:1]
        for answer, entry in zip(prediction.answers, best, strict=False):
            for name in ("start_log_prob", "end_log_prob"):
                np.testing.assert_allclose(getattr(answer, name), entry[name], rtol=1e-6)
            # Among the recorded candidates of the simple head is padding, so that there are fewer answers.
            share = answer.probability / prediction.answers[0].probability
            np.testing.assert_allclose(share, entry["probability"] / best[0]["probability"], rtol=1e-5)
            if kind == "answerability" and record.context.isascii():
                np.testing.assert_allclose(answer.probability, entry["probability"], rtol=1e-5)
            assert record.context.encode()[answer.start : answer.end] == answer.text.encode()
    assert compared > 15


@pytest.mark.parametrize(
    ("answerability", "xla"),
    [(False, False), (True, False), pytest.param(True, True, marks=pytest.mark.slow)],
)
def test_answers_do_not_depend_on_the_batches(piece_tokenizer, tiny_model, answerability, xla):
    """Neither on which windows are in a batch nor on how much padding is."""
    records = [
        QuestionRecord(f"q{n}", f"q{n}", document[0], " ".join(document[: 1 + n]), (), False)
        for n, document in enumerate(DOCUMENTS[:5])
    ]
    entries = {
        **QuestionAnswering.model_config(records, answerability),
        "seq_length": 48,
        "doc_stride": 8,
        "max_query_length": 10,
        "max_answer_length": 5,
        "n_best": 4,
    }
    task = QuestionAnswering(entries)
    examples = task.encode(records, piece_tokenizer, False)
    model = tiny_model(entries)
    predict = create_predict_fn(task, model, 7, xla=xla)
    several = predict(examples).predictions
    assert len(examples.rows) > len(records)
    (alone,) = predict(task.encode(records[3:4], piece_tokenizer, False)).predictions
    assert [answer.text for answer in alone.answers] == [answer.text for answer in several[3].answers]
    probabilities = [[answer.probability for answer in found.answers] for found in (alone, several[3])]
    np.testing.assert_allclose(*probabilities, rtol=1e-3)
    for record, prediction in zip(records, several, strict=True):
        assert 1 <= len(prediction.answers) <= 4
        assert (prediction.null_odds is None) is not answerability
        for answer in prediction.answers:
            assert record.context[answer.start : answer.end] == answer.text
    assert len({prediction.answers[0].text for prediction in several}) > 2
