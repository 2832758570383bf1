"""Predictions and served answers of every kind of task, compiled or not, against outputs one by one."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.finetuned_model import create_predict_fn
from albert_tf.tasks.classification import Classification, takes_pairs
from albert_tf.tasks.examples import ChoiceRecord, TaggedRecord
from albert_tf.tasks.multi_label import MultiLabel
from albert_tf.tasks.multiple_choice import MultipleChoice
from albert_tf.tasks.regression import Regression
from albert_tf.tasks.tagging import Tagging
from albert_tf.tasks.task import Examples
from tests.albert_tf.tasks.answers import assert_answered, served
from tests.albert_tf.tasks.records import text_records
from tests.tiny import DOCUMENTS

SENTENCES = [*(sentence for document in DOCUMENTS[:3] for sentence in document), "", "É ¼ – Gäßchen 🐝"]
LENGTH = 48


def inputs(*segments, length=None):
    """Segments of ids as the packed input of one example, perhaps padded."""
    ids, types = [2], [0]
    for number, segment in enumerate(segments):
        ids += [*segment, 3]
        types += [number] * (len(segment) + 1)
    names = ("input_word_ids", "input_mask", "input_type_ids")
    rows = (row + [0] * ((length or len(row)) - len(row)) for row in (ids, [1] * len(ids), types))
    return {name: tf.constant([row]) for name, row in zip(names, rows, strict=True)}


@pytest.fixture
def ids(piece_tokenizer):
    return lambda text: piece_tokenizer(tf.constant([text])).to_list()[0]


@pytest.mark.parametrize(
    ("label", "problem"),
    [
        *((label, "is not a finite number") for label in ("x", "", "nan", "-inf", "1_000", "1,5", None)),
        *((label, r"is beyond 1e\+18: divide all labels by a number") for label in ("1e39", "-2e18")),
    ],
)
def test_what_a_regression_cannot_learn(label, problem):
    records = text_records(["a boat"] * 2, ["1e18", label])
    with pytest.raises(InputError, match=rf"^f\.csv:3: label .*{problem}"):
        Regression({}).targets(records)


@pytest.mark.parametrize("xla", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_labels(piece_tokenizer, tiny_model, ids, xla):
    labels = ["yes" if n % 3 else "no" for n in range(len(SENTENCES))]
    records = text_records(SENTENCES, labels, ["a boat"] * len(labels))
    assert Classification.model_config(records)["labels"] == ["no", "yes"]
    names = ["yes", "no"]
    entries = {**Classification.model_config(records, names), "seq_length": LENGTH}
    assert entries == {"model": "classifier", "num_labels": 2, "labels": names, "seq_length": LENGTH}
    task, model = Classification(entries), tiny_model(entries)
    found = create_predict_fn(task, model, 3, xla=xla)(
        task.encode(records, piece_tokenizer, True)
    ).predictions
    for record, prediction in zip(records, found, strict=True):
        first, second = ids(record.text), ids(record.text_pair)
        if len(first) + len(second) + 3 > LENGTH:
            continue  # trimmed
        scores = tf.nn.softmax(model(inputs(first, second))["logits"])[0].numpy()
        np.testing.assert_allclose(prediction.scores, scores, atol=1e-4 if xla else 1e-5)
        assert prediction.value == names[scores.argmax()]
    if not xla:
        assert_answered(served(model, piece_tokenizer, entries), records, found)
    assert {prediction.value for prediction in found} == {"yes", "no"}


def test_scores_and_sets_of_labels():
    logits = np.array([[2.0, -1.0, -0.5], [-3.0, -3.0, -3.0]], np.float32)
    rows = SimpleNamespace(records=None)  # no windows
    task = MultiLabel({"labels": ["a", "b", "c"], "threshold": 0.37})
    kept = {
        name: value.numpy()
        for name, value in task.collect_outputs({"logits": tf.constant(logits)}, {}).items()
    }
    first, second = task.predictions(Examples([], rows), kept)
    assert (first.value, second.value) == (("a", "c"), ())
    served = task.decide(task.scores(tf.constant(logits)))
    assert served["is_label"].numpy().tolist() == [[True, False, True], [False] * 3]
    np.testing.assert_allclose(first.scores, 1 / (1 + np.exp(-logits[0])), rtol=1e-6)
    np.testing.assert_array_equal(first.score, first.scores[[0, 2]])
    task = Regression({})
    kept = {
        name: value.numpy()
        for name, value in task.collect_outputs({"logits": tf.constant(logits[:, :1])}, {}).items()
    }
    assert [found.value for found in task.predictions(Examples([], rows), kept)] == [2, -3]


@pytest.mark.parametrize("xla", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_choices(piece_tokenizer, tiny_model, ids, xla):
    """A question that has fewer is answered, and learned, as if there were no others."""
    options = ("a boat", "the keeper", "a cow")
    records = [
        ChoiceRecord(f"f:{n}", str(n), "", s, "Who?", options[: 2 + n % 2], n % 2)
        for n, s in enumerate(SENTENCES)
    ]
    entries = {**MultipleChoice.model_config(records), "seq_length": 64}
    assert entries == {"model": "multiple_choice", "num_choices": 3, "seq_length": 64}
    task, model = MultipleChoice(entries), tiny_model(entries)
    predict = create_predict_fn(task, model, 5, has_loss=True, xla=xla)
    found, losses = predict(task.encode(records, piece_tokenizer, True)), []
    for record, prediction in zip(records, found.predictions, strict=True):
        rows = [inputs(ids(record.context), ids(f"Who? {option}"), length=64) for option in record.options]
        losses.append(-np.log(prediction.scores[record.label]))
        if max(row["input_mask"].shape[1] for row in rows) > 64:
            continue
        packed = {name: tf.concat([row[name] for row in rows], axis=0) for name in rows[0]}
        logits = model.classifier(model.encoder(packed)["pooled_output"])[:, 0]
        scores = [*tf.nn.softmax(logits).numpy(), 0][:3]
        np.testing.assert_allclose(prediction.scores, scores, atol=1e-4 if xla else 1e-5)
        assert prediction.value == np.argmax(logits)
    assert found.terms["label"].loss == pytest.approx(sum(losses), rel=1e-4)
    if not xla:
        padded = [record._replace(options=(*record.options, "")[:3]) for record in records]
        assert_answered(served(model, piece_tokenizer, entries), padded, found.predictions)
    with pytest.raises(InputError, match=r"f:1: 3 .* 2$"):
        MultipleChoice({**entries, "num_choices": 2}).encode(records, piece_tokenizer, False)


@pytest.mark.parametrize("xla", [False, True])
def test_tags(piece_tokenizer, tiny_model, ids, xla):
    """A sentence that is too long is cut before a word; each word has its first token's tag."""
    nothing = "\u200b \u0301 seen"  # words of which normalisation leaves nothing
    texts = (*SENTENCES, " ".join(SENTENCES[:4]), "one " + "verylongword" * 6, nothing)
    sentences = [tuple(text.split()) for text in texts if text]
    records = [
        TaggedRecord("f.conll", n, words, tuple("O" if len(w) < 4 else "B-X" for w in words))
        for n, words in enumerate(sentences)
    ]
    entries = {**Tagging.model_config(records), "seq_length": 32}
    assert entries["labels"] == ["O", "B-X"] and entries["model"] == "token_classifier"
    task, model = Tagging(entries), tiny_model(entries)
    examples = task.encode(records, piece_tokenizer, True)
    assert len(examples.rows) > len(records)
    found = create_predict_fn(task, model, 4, xla=xla)(examples).predictions
    for words, prediction in zip(sentences, found, strict=True):
        assert len(prediction.value) == len(words) and np.all(prediction.scores > 0)
        pieces = [ids(word) or [piece_tokenizer.vocabulary.special_ids.unknown] for word in words]
        if sum(map(len, pieces)) > 30:
            continue
        logits = model(inputs([token for piece in pieces for token in piece]))["logits"][0].numpy()
        firsts = np.cumsum([1, *map(len, pieces[:-1])])
        probabilities = tf.nn.softmax(logits).numpy()[firsts]
        np.testing.assert_allclose(prediction.scores, probabilities.max(axis=1), atol=1e-4 if xla else 1e-5)
        assert list(prediction.value) == [entries["labels"][n] for n in probabilities.argmax(axis=1)]
    if not xla:
        assert_answered(served(model, piece_tokenizer, entries), records, found)
    assert {tag for prediction in found for tag in prediction.value} == {"O", "B-X"}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"task": "cola"}, False),
        ({"task": "rte"}, True),
        ({"task": "classification"}, None),
        ({"columns": {"text": "a"}}, False),
        ({"columns": {"text": "a", "text_pair": "b"}}, True),
        ({"takes_pairs": True, "columns": {"text": "a"}}, True),
    ],
)
def test_runs_that_say_what_they_take(config, expected):
    assert takes_pairs(config) is expected
