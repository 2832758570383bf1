"""Every task learns sixty-four real examples by heart, and what it learnt is served as it is predicted."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import RunDirectory
from albert_tf.config import AlbertConfig
from albert_tf.finetuning.data import read_sets
from albert_tf.finetuning.reports import best_figures
from albert_tf.finetuning.run import finetune
from albert_tf.finetuning.settings import Finetuning
from albert_tf.finetuning.task_table import TASKS
from albert_tf.finetuning.trained import evaluate_trained, read_trained
from albert_tf.tasks.examples.records import ChoiceRecord, QuestionRecord, TaggedRecord
from albert_tf.tasks.kind import Prediction
from albert_tf.tasks.question_answering import AnswerPrediction
from hub_export.check.modules import check
from hub_export.export import export
from tests.albert_tf.finetuning.samples import COUNT, sample

pytestmark = pytest.mark.slow

# Small, and of larger weights than usual: a hundred updates are enough.
SMALL = AlbertConfig(
    embedding_size=32,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    max_position_embeddings=128,
    initializer_range=0.05,
)
RECIPE = {
    "learning_rate": 5e-4,
    "batch_size": 16,
    "seq_length": 64,
    "steps": 150,
    "dropout": 0.0,
    "classifier_dropout": 0.0,
}
WINDOWS = {"doc_stride": 64, "max_query_length": 32}
LONGER = {"seq_length": 128}

# One of each kind, and of each form of input.
LEARNT = ["sts-b", "squad-v2.0", "race", "classification", "multi_label", "tagging"]


@pytest.mark.parametrize("name", LEARNT)
def test_learnt_by_heart_and_served_as_predicted(name, shared, tmp_path):
    task, run = TASKS[name], tmp_path / "run"
    (tmp_path / "data").mkdir()
    has_windows = task.kind.has_windows
    given = sample(name, shared / "data", tmp_path / "data")
    settings = Finetuning(
        output=run,
        task=name,
        config=SMALL,
        vocabulary=shared / "data/vocabulary/30k-clean.model",
        recipe=RECIPE | (LONGER if has_windows else {}),
        questions=WINDOWS if has_windows else {},
        loop={"eval_every": 75, "checkpoint_every": 75},
        **given,
    )
    finetune(settings, report=print)
    sets = read_sets(task, settings.data, settings.train, settings.eval, settings.columns)
    labels = collections.Counter(getattr(record, "label", None) for record in sets.train)
    assert None in labels or max(labels.values()) <= COUNT // 2  # no single answer is right
    found = evaluate_trained(run, given.get("data"), given.get("eval"))
    assert found["examples"] == COUNT
    assert found[task.best_metric] >= (95 if has_windows else 0.95)
    logged = best_figures(RunDirectory(run))
    assert logged["step"] == found["step"]
    assert logged[task.best_metric] == pytest.approx(found[task.best_metric], abs=1e-5)

    *_, served = export(run, tmp_path / "hub", check=False)
    check(served)
    records, predictions = sets.train, read_trained(run).predictions(sets.train)
    answers = asked(tf.saved_model.load(str(served)).signatures, records)
    for record, expected, found in zip(records, predictions, answers, strict=True):
        compare(record, expected, found)


def asked(signatures, records):
    """What the serving model answers to each record."""
    match records[0]:
        case TaggedRecord():
            name, inputs = "tag", {"text": [" ".join(record.words) for record in records]}
        case QuestionRecord():
            name, inputs = "answer", columns(records, "question", "context")
        case ChoiceRecord():
            name, inputs = "choose", columns(records, "context", "question", "options")
        case record if record.text_pair is not None:
            name, inputs = "pair", columns(records, "text", "text_pair")
        case _:
            name, inputs = "serving_default", columns(records, "text")
    found = signatures[name](**{key: tf.constant(values) for key, values in inputs.items()})
    arrays = {key: tensor.numpy() for key, tensor in found.items() if key != "labels" or name == "tag"}
    return [{key: array[row] for key, array in arrays.items()} for row in range(len(records))]


def columns(records, *names):
    return {name: [getattr(record, name) for record in records] for name in names}


def compare(record, expected, found):
    """The fields of a prediction and of an answer that say the same."""
    match expected:
        case Prediction(str() as label, scores):
            assert found["label"].decode() == label
            close(found["scores"], scores)
        case Prediction(int() as choice, scores):
            assert found["choice"] == choice
            close(found["scores"], scores)
        case Prediction(tuple() as tags, scores) if isinstance(record, TaggedRecord):
            count = len(record.words)
            assert tuple(tag.decode() for tag in found["labels"][:count]) == tags
            close(found["scores"][:count], scores)
        case Prediction(tuple(), scores):
            close(found["scores"][found["is_label"]], scores)
        case Prediction(number, _):
            close(found["score"], number)
        case AnswerPrediction((best, *_), null_odds):
            assert (found["answer"].decode(), found["start"], found["end"]) == (
                best.text,
                best.start,
                best.end,
            )
            close(found["score"], best.probability)
            if null_odds is not None:
                close(found["no_answer_score"], null_odds)
        case _:
            raise AssertionError(f"what is {expected}?")


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
