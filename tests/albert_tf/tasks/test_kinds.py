"""Predictions of every kind of task against the model's outputs for each example by itself."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning.outputs import predictor
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.examples.records import ChoiceRecord, TaggedRecord, TextRecord
from albert_tf.tasks.multi_label import MultiLabel
from albert_tf.tasks.multiple_choice import MultipleChoice
from albert_tf.tasks.question_answering import QuestionAnswering
from albert_tf.tasks.regression import Regression
from albert_tf.tasks.tagging import Tagging
from albert_tf.utils.errors import InputError
from tests.tiny import DOCUMENTS

SENTENCES = [sentence for document in DOCUMENTS[:3] for sentence in document]
LENGTH = 48


def inputs(*segments):
    """Segments of ids as the packed input of one example."""
    ids, types = [2], [0]
    for number, segment in enumerate(segments):
        ids += [*segment, 3]
        types += [number] * (len(segment) + 1)
    names = ("input_word_ids", "input_mask", "input_type_ids")
    return dict(zip(names, (tf.constant([row]) for row in (ids, [1] * len(ids), types)), strict=True))


def text_record(number, text, label, pair=None):
    return TextRecord("f.csv", number + 2, str(number), text, pair, label)


@pytest.fixture
def ids(piece_tokenizer):
    return lambda text: piece_tokenizer(tf.constant([text])).to_list()[0]


@pytest.mark.parametrize("labels", [None, ("yes", "no")])
def test_labels(piece_tokenizer, tiny_model, ids, labels):
    records = [text_record(n, s, "yes" if n % 3 else "no", "a boat") for n, s in enumerate(SENTENCES)]
    entries = {**Classification.model_config(records, labels), "seq_length": LENGTH}
    kind = Classification(entries)
    names = list(labels or ("no", "yes"))
    assert entries == {"model": "classifier", "num_labels": 2, "labels": names, "seq_length": LENGTH}
    examples = kind.encode(records, piece_tokenizer, True)
    assert examples.rows.features["labels"].tolist() == [names.index(record.label) for record in records]
    model = tiny_model(entries)
    for batch_size in (3, 100):
        found = predictor(kind, model, batch_size)(examples).predictions
        for record, prediction in zip(records, found, strict=True):
            first, second = ids(record.text), ids(record.text_pair)
            if len(first) + len(second) + 3 > LENGTH:
                continue  # trimmed
            scores = tf.nn.softmax(model(inputs(first, second))["logits"])[0].numpy()
            np.testing.assert_allclose(prediction.scores, scores, atol=1e-5)
            assert prediction.label == names[scores.argmax()]
    assert {prediction.label for prediction in found} == {"yes", "no"}


def test_scores(piece_tokenizer, tiny_model, ids):
    records = [text_record(n, s, str(n / 2)) for n, s in enumerate(SENTENCES)]
    entries = {**Regression.model_config(records), "seq_length": LENGTH}
    kind = Regression(entries)
    examples = kind.encode(records, piece_tokenizer, True)
    assert examples.rows.features["labels"].tolist() == [n / 2 for n in range(len(records))]
    model = tiny_model(entries)
    found = predictor(kind, model, 4)(examples).predictions
    for record, prediction in zip(records, found, strict=True):
        if len(tokens := ids(record.text)) + 2 <= LENGTH:
            expected = model(inputs(tokens))["logits"][0, 0].numpy()
            np.testing.assert_allclose(prediction.score, expected, atol=1e-5)


def test_several_labels(piece_tokenizer, tiny_model, ids):
    records = [text_record(n, s, "|".join("abc"[: n % 4])) for n, s in enumerate(SENTENCES)]
    entries = {**MultiLabel.model_config(records, threshold=0.4), "seq_length": LENGTH}
    kind, model = MultiLabel(entries), tiny_model(entries)
    found = predictor(kind, model, 4)(kind.encode(records, piece_tokenizer, True)).predictions
    for record, prediction in zip(records, found, strict=True):
        if len(tokens := ids(record.text)) + 2 <= LENGTH:
            scores = 1 / (1 + np.exp(-model(inputs(tokens))["logits"][0].numpy()))
            assert prediction.labels == tuple("abc"[n] for n in np.flatnonzero(scores >= 0.4))
            np.testing.assert_allclose(prediction.scores, scores[scores >= 0.4], atol=1e-5)
    assert len({prediction.labels for prediction in found}) > 1


def test_choices(piece_tokenizer, tiny_model, ids):
    records = [
        ChoiceRecord(f"f:{n}", str(n), "", s, "Who?", ("a boat", "the keeper", "a cow"), n % 3)
        for n, s in enumerate(SENTENCES)
    ]
    entries = {**MultipleChoice.model_config(records), "seq_length": 64}
    assert entries == {"model": "multiple_choice", "num_choices": 3, "seq_length": 64}
    kind = MultipleChoice(entries)
    examples = kind.encode(records, piece_tokenizer, True)
    model = tiny_model(entries)
    found = predictor(kind, model, 5)(examples).predictions
    single = tiny_model({"model": "multiple_choice", "num_choices": 1})
    single.set_weights(model.get_weights())
    for record, prediction in zip(records, found, strict=True):
        rows = [inputs(ids(record.context), ids(f"Who? {option}")) for option in record.options]
        if max(row["input_mask"].shape[1] for row in rows) > 64:
            continue
        logits = [single({name: row[name][:, tf.newaxis] for name in row})["logits"][0, 0] for row in rows]
        np.testing.assert_allclose(prediction.scores, tf.nn.softmax(logits), atol=1e-5)
        assert prediction.choice == np.argmax(logits)
        assert prediction.score == prediction.scores.max()
    with pytest.raises(InputError, match="f:0: 3 options where the model knows 4"):
        MultipleChoice({**entries, "num_choices": 4}).encode(records, piece_tokenizer, False)


def test_tags(piece_tokenizer, tiny_model, ids):
    """A sentence that is too long is cut before a word; each word has its first token's tag."""
    sentences = [tuple(sentence.split()) for sentence in (*SENTENCES, " ".join(SENTENCES[:4]))]
    records = [
        TaggedRecord("f.conll", n, words, tuple("O" if len(w) < 4 else "B-X" for w in words))
        for n, words in enumerate(sentences)
    ]
    entries = {**Tagging.model_config(records), "seq_length": 32}
    kind = Tagging(entries)
    assert entries["labels"] == ["O", "B-X"] and entries["model"] == "token_classifier"
    examples = kind.encode(records, piece_tokenizer, True)
    assert len(examples.rows) > len(records)
    model = tiny_model(entries)
    found = predictor(kind, model, 4)(examples).predictions
    assert [len(prediction.tags) for prediction in found] == [len(words) for words in sentences]
    for words, prediction in zip(sentences, found, strict=True):
        pieces = [ids(word) for word in words]
        if sum(map(len, pieces)) > 30:
            continue
        logits = model(inputs([token for piece in pieces for token in piece]))["logits"][0].numpy()
        firsts = np.cumsum([1, *map(len, pieces[:-1])])
        probabilities = tf.nn.softmax(logits).numpy()[firsts]
        np.testing.assert_allclose(prediction.scores, probabilities.max(axis=1), atol=1e-5)
        assert list(prediction.tags) == [entries["labels"][n] for n in probabilities.argmax(axis=1)]
    assert {tag for prediction in found for tag in prediction.tags} == {"O", "B-X"}
    for record, prediction in zip(records, found, strict=True):
        assert np.all(prediction.scores > 0), record.where


def test_labels_that_the_model_does_not_know(piece_tokenizer):
    records = [text_record(n, "a", str(n)) for n in range(2)]
    kind = Classification({**Classification.model_config(records), "seq_length": 16})
    with pytest.raises(InputError, match=r"f\.csv:7: label '2' is none of '0', '1'$"):
        kind.encode([*records, text_record(5, "a", "2")], piece_tokenizer, True)
    kind.encode([text_record(5, "a", None)], piece_tokenizer, False)
    tagged = [TaggedRecord("f.conll", 3, ("a",), ("B-Y",))]
    with pytest.raises(InputError, match=r"f\.conll:3: label 'B-Y' is none of 'O'$"):
        Tagging({"labels": ["O"], "seq_length": 16}).encode(tagged, piece_tokenizer, True)


def test_entries_of_span_labelers():
    assert QuestionAnswering.model_config([]) == {"model": "span_labeler"}
    expected = {"model": "span_labeler", "answerability": True}
    assert QuestionAnswering.model_config([], answerability=True) == expected
