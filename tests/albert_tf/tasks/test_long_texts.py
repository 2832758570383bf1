"""Head and tail, windows and their pooled logits, by hand."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.recipes import LongTexts
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.examples import TextRecord
from albert_tf.tasks.long_texts import head_and_tail, pool_windows, text_inputs, window_inputs
from albert_tf.tasks.losses import LABEL
from albert_tf.text.text_tokenizer import ALBERT_FORMAT, InputFormat
from tests.albert_tf.tasks.records import text_records

WINDOWS = LongTexts(long="windows", doc_stride=3)
ROBERTA = InputFormat((0,), (2, 2), (2,), padding=1, has_type_ids=False)
LENGTHS = [0, 1, 5, 6, 8, 9, 30]


def texts(lengths):
    """Tokens of texts: 100, 101, … of the first, 200, … of the second."""
    return [list(range(100 * n, 100 * n + length)) for n, length in enumerate(lengths, start=1)]


def windows_by_hand(tokens, budget, stride):
    found = [tokens[:budget]]
    while (len(found) - 1) * min(stride, budget) + budget < len(tokens):
        start = len(found) * min(stride, budget)
        found.append(tokens[start : start + budget])
    return found


def test_of_a_long_text_the_head_and_the_tail_stay():
    rows = texts([0, 7, 8, 9, 30])
    found = head_and_tail(tf.ragged.constant(rows, tf.int32), 8).to_list()
    assert found == [*rows[:3], rows[3][:2] + rows[3][-6:], rows[4][:2] + rows[4][-6:]]
    (long,) = head_and_tail(tf.ragged.constant([list(range(900))]), 510).to_list()
    assert long == [*range(128), *range(900 - 382, 900)]  # the paper's
    assert head_and_tail(tf.ragged.constant([[1, 2, 3]]), 1).to_list() == [[1]]


@pytest.mark.parametrize("input_format", [ALBERT_FORMAT, ROBERTA])
@pytest.mark.parametrize(("seq_length", "stride"), [(7, 3), (7, 5), (7, 99), (3, 1)])
def test_windows_by_hand(input_format, seq_length, stride):
    tokens, settings = texts(LENGTHS), LongTexts(long="windows", doc_stride=stride)
    inputs = text_inputs([tf.ragged.constant(tokens, tf.int32)], seq_length, input_format, settings)
    assert inputs["input_mask"].numpy().sum(axis=1).tolist() == [2 + length for length in LENGTHS]
    # In a graph that knows no shape.
    spec = {name: tf.TensorSpec([None, None], tf.int32) for name in inputs}
    graph = tf.function(
        lambda x: window_inputs(x, seq_length, input_format, settings), input_signature=[spec]
    )
    found, rows = graph(inputs)
    expected = [
        (n, part) for n, row in enumerate(tokens) for part in windows_by_hand(row, seq_length - 2, stride)
    ]
    assert rows.numpy().tolist() == [n for n, _ in expected]
    for ids, mask, (_, part) in zip(found["input_word_ids"], found["input_mask"], expected, strict=True):
        framed = [*input_format.start, *part, *input_format.end]
        missing = seq_length - len(framed)
        assert ids.numpy().tolist() == framed + [input_format.padding] * missing
        assert mask.numpy().tolist() == [1] * len(framed) + [0] * missing


def test_logits_are_pooled():
    logits, rows = tf.constant([[1.0, 4.0], [3.0, -4.0], [-1.0, -2.0]]), tf.constant([0, 0, 1])
    assert pool_windows(logits, rows, 2, WINDOWS).numpy().tolist() == [[2, 0], [-1, -2]]
    largest = LongTexts(long="windows", window_pooling="max")
    assert pool_windows(logits, rows, 2, largest).numpy().tolist() == [[3, 4], [-1, -2]]


def task(**settings):
    return Classification({"seq_length": 8, "labels": ["a", "b"], **settings})


def test_rows_of_windows_weigh_as_much_as_their_text(tiny_tokenizer):
    sentences = ["the sea", "the old clock and the sea " * 3, ""]
    records = text_records(sentences, "aba")
    tokens = tiny_tokenizer(tf.constant(sentences)).to_list()
    settings = {"long": "windows", "doc_stride": 4}
    examples = task(**settings).encode(records, tiny_tokenizer.tokenize, True)
    rows, parts = examples.rows, [windows_by_hand(row, 6, 4) for row in tokens]
    starts, lengths = rows.starts[:, 0], rows.lengths[:, 0]
    found = [rows.tokens[s : s + n].tolist() for s, n in zip(starts, lengths, strict=True)]
    assert found == [part for row in parts for part in row]
    counts = [len(row) for row in parts]
    assert counts[1] > 3 and counts[::2] == [1, 1]
    assert rows.records.tolist() == np.repeat([0, 1, 2], counts).tolist()
    assert rows.features["labels"].tolist() == np.repeat([0, 1, 0], counts).tolist()
    np.testing.assert_allclose(rows.features["weights"], np.repeat(1 / np.array(counts), counts))
    mask = np.array([[1]] * sum(counts) + [[0]])
    batch = {"labels": tf.constant([*rows.features["labels"], -1]), "input_mask": tf.constant(mask)}
    batch["weights"] = tf.constant([*rows.features["weights"], 0])
    assert tf.reduce_sum(LABEL["label"].weights(batch)).numpy() == pytest.approx(3)
    # A prediction a text, of the mean of its windows' logits.
    logits = np.random.default_rng(0).normal(size=[sum(counts), 2]).astype(np.float32)
    predictions = task(**settings).predictions(examples, {"logits": logits})
    for said, own in zip(predictions, np.split(logits, np.cumsum(counts)[:-1]), strict=True):
        shares = np.exp(own.mean(axis=0, dtype=np.float64))
        np.testing.assert_allclose(said.scores, shares / shares.sum(), rtol=1e-5)


def test_short_texts_are_as_truncated_ones(tiny_tokenizer):
    records = text_records(["the sea", "", "a"], "aaa")
    logits = np.random.default_rng(0).normal(size=[3, 2]).astype(np.float32)
    plain, *others = (
        (task(long=long), task(long=long).encode(records, tiny_tokenizer.tokenize, True))
        for long in ("truncate", "head_tail", "windows")
    )
    for other, examples in others:
        for name in ("tokens", "starts", "lengths"):
            assert getattr(examples.rows, name).tolist() == getattr(plain[1].rows, name).tolist()
        found, expected = (
            [x.scores for x in who.predictions(read, {"logits": logits})]
            for who, read in ((other, examples), plain)
        )
        np.testing.assert_array_equal(found, expected)


def test_pairs_and_rooms_without_a_token_are_refused(tiny_tokenizer):
    pair = TextRecord("f.csv", 2, "0", "the sea", "a cup", "a")
    with pytest.raises(InputError, match=r"f\.csv holds a pair"):
        task(long="head_tail").encode([pair], tiny_tokenizer.tokenize, False)
    with pytest.raises(InputError, match="seq_length=2"):
        task(long="windows", seq_length=2).encode(
            [pair._replace(text_pair=None)], tiny_tokenizer.tokenize, False
        )
