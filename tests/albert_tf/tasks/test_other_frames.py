"""Byte-level BPE, with another frame than ALBERT's, through encoding, batches and predictions."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning.outputs import predictor
from albert_tf.tasks.examples.batches import task_batches
from albert_tf.tasks.examples.records import Answer, QuestionRecord, TaggedRecord
from albert_tf.tasks.question_answering import QuestionAnswering
from albert_tf.tasks.tagging import Tagging
from albert_tf.tokenizers.kinds import open_tokenizer
from tests.albert_tf.tokenizers.test_windows import by_hand, cut_by_hand

LENGTH = 16
CONTEXT = "the old clock stopped before the cold morning and ran again at noon in the hall of the house"


@pytest.fixture(scope="module")
def tokenizer(byte_pairs):
    return open_tokenizer(byte_pairs)


@pytest.fixture(scope="module")
def ids(tokenizer):
    return lambda text: tokenizer(tf.constant([text])).flat_values.numpy().tolist()


def framed(*segments):
    """`<s> a </s></s> b </s>`, without padding."""
    return [0, *segments[0], *(token for segment in segments[1:] for token in (2, 2, *segment)), 2]


def batch_of(rows):
    """All rows in one batch, in their order."""
    (batch,) = task_batches(rows, LENGTH, len(rows) + 1, [LENGTH], shuffle=False, repeat=False)
    assert not batch["input_type_ids"].numpy().any()
    order = np.argsort(batch["rows"][: len(rows)])
    assert (batch["input_word_ids"][-1].numpy() == 1).all()  # padding
    return {name: tensor.numpy()[: len(rows)][order] for name, tensor in batch.items()}


def rows_of(batch):
    """Token ids of each row without padding."""
    shape = [-1, batch["input_word_ids"].shape[-1]]
    words, masks = (batch[name].reshape(shape) for name in ("input_word_ids", "input_mask"))
    return [row[mask > 0].tolist() for row, mask in zip(words, masks, strict=True)]


def test_tags(tokenizer, ids):
    words = tuple(CONTEXT.split())
    tags = tuple(str(len(word) % 3) for word in words)
    config = {"model": "token_classifier", "num_labels": 3, "labels": ["0", "1", "2"], "seq_length": LENGTH}
    examples = Tagging(config).encode([TaggedRecord("f", 1, words, tags)], tokenizer, True)
    batch, tokens = batch_of(examples.rows), [ids(word) for word in words]
    text = [token for word in tokens for token in word]
    windows = cut_by_hand([len(word) for word in tokens], LENGTH - 2)
    assert rows_of(batch) == [framed(text[start : start + length]) for _, start, length in windows]
    assert len(windows) > 1
    assert "".join(str(label) for label in batch["labels"].ravel() if label >= 0) == "".join(tags)
    assert (batch["labels"][:, 0] == -1).all()


def test_questions(tokenizer, ids, tiny_model):
    answer = "noon"
    record = QuestionRecord("f", "q", "when so", CONTEXT, (Answer(answer, CONTEXT.index(answer)),), False)
    config = {"model": "span_labeler", "max_query_length": 4, "doc_stride": 5, "n_best": 3}
    config["seq_length"] = LENGTH
    kind = QuestionAnswering(config)
    examples = kind.encode([record], tokenizer, True)
    batch, context, question = batch_of(examples.rows), ids(CONTEXT), ids("when so")[:4]
    windows = by_hand(len(context), LENGTH - 4 - len(question), 5)
    expected = [framed(question, context[start : start + length]) for _, start, length in windows]
    assert rows_of(batch) == expected
    inside = batch["is_impossible"] == 0
    assert inside.any()
    for row, start, end in zip(
        batch["input_word_ids"][inside],
        batch["start_positions"][inside],
        batch["end_positions"][inside],
        strict=True,
    ):
        assert row[start : end + 1].tolist() == ids(f" {answer}")
    model = tiny_model(config, vocab_size=len(tokenizer.vocabulary))
    (found,) = predictor(kind, model, 4)(examples).predictions
    for span in found.answers:
        assert CONTEXT[span.start : span.end] == span.text
