"""Another tokenizer with another frame through encoding, batches and predictions of each kind of task."""

import numpy as np
import tensorflow as tf

from albert_tf.finetuning.finetuned_model import create_predict_fn
from albert_tf.tasks.batches import task_batches
from albert_tf.tasks.examples import Answer, QuestionRecord, TaggedRecord
from albert_tf.tasks.question_answering import QuestionAnswering
from albert_tf.tasks.tagging import Tagging
from albert_tf.text.tokenizer import Tokenizer
from tests.other_tokenizer import SIZE, WordTokenizer

TOKENIZER = WordTokenizer()
LENGTH = 16
CONTEXT = "the old clock stopped before the cold morning and ran again at noon in the hall of the house"


def ids(text):
    return TOKENIZER(tf.constant([text])).flat_values.numpy().tolist()


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


def test_tags():
    words = tuple(CONTEXT.split())
    tags = tuple(str(len(word) % 3) for word in words)
    config = {"model": "token_classifier", "num_labels": 3, "labels": ["0", "1", "2"], "seq_length": LENGTH}
    task = Tagging(config)
    examples = task.encode([TaggedRecord("f", 1, words, tags)], TOKENIZER, True)
    batch = batch_of(examples.rows)
    assert rows_of(batch) == [framed(ids(CONTEXT)[:14]), framed(ids(CONTEXT)[14:])]
    assert "".join(str(label) for label in batch["labels"].ravel() if label >= 0) == "".join(tags)
    assert batch["labels"][0, 0] == batch["labels"][0, 15] == -1


def test_words_of_byte_level_bpe_have_the_space_before_them(byte_pairs):
    """As transformers reads words with `add_prefix_space=True`."""
    tokenizer = Tokenizer(byte_pairs).tokenize
    record = TaggedRecord("f", 1, tuple(CONTEXT.split()), ("0",) * 19)
    rows = Tagging({"labels": ["0"], "seq_length": 256}).encode([record], tokenizer, True).rows
    assert rows.tokens.tolist() == tokenizer(tf.constant([f" {CONTEXT}"])).values.numpy().tolist()


def test_questions_that_may_have_no_answer_in_a_frame_without_type_ids(tiny_model):
    """The head looks for answers in the context, though no type id says where it is."""
    config = {"model": "span_labeler", "answerability": True, "max_query_length": 4, "doc_stride": 5}
    task = QuestionAnswering({**config, "n_best": 3, "seq_length": LENGTH})
    record = QuestionRecord("f", "q", "when so", CONTEXT, (), True)
    model = tiny_model(config, vocab_size=SIZE)
    (found,) = create_predict_fn(task, model, 4)(task.encode([record], TOKENIZER, False)).predictions
    assert len(found.answers) == 3 and all(answer.text for answer in found.answers)
    assert all(CONTEXT[answer.start : answer.end] == answer.text for answer in found.answers)


def test_questions(tiny_model):
    answer = "ran again"
    record = QuestionRecord("f", "q", "when so", CONTEXT, (Answer(answer, CONTEXT.index(answer)),), False)
    config = {"model": "span_labeler", "max_query_length": 4, "doc_stride": 5, "n_best": 3}
    config["seq_length"] = LENGTH
    task = QuestionAnswering(config)
    examples = task.encode([record], TOKENIZER, True)
    batch = batch_of(examples.rows)
    context = ids(CONTEXT)
    expected = [
        framed(ids("when so"), context[start : start + 10]) for start in range(0, len(context) - 5, 5)
    ]
    assert rows_of(batch) == expected
    inside = batch["is_impossible"] == 0
    assert inside.any()
    for row, start, end in zip(
        batch["input_word_ids"][inside],
        batch["start_positions"][inside],
        batch["end_positions"][inside],
        strict=True,
    ):
        assert row[start : end + 1].tolist() == ids(answer)
    (found,) = create_predict_fn(task, tiny_model(config, vocab_size=SIZE), 4)(examples).predictions
    for span in found.answers:
        assert CONTEXT[span.start : span.end] == span.text
