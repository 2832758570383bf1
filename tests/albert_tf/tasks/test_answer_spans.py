"""Answers from windows by hand."""

import resource

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.models.span_labeler import context_tokens
from albert_tf.tasks import answer_spans


def span_candidates(starts, ends, n_best):
    outputs = {"start_logits": starts, "end_logits": ends}
    return answer_spans.candidate_spans(outputs, tf.ones_like(starts), n_best)


def test_best_context_by_hand():
    """Tokens 0 … 8 in windows of four, a stride of two; the last is shorter."""
    in_context = [[0, 1, 1, 1, 1, 0], [0, 1, 1, 1, 1, 0], [0, 1, 1, 1, 1, 0], [0, 1, 1, 1, 0, 0]]
    found = answer_spans.has_most_context(np.array(in_context) > 0, [0, 2, 4, 6]).numpy()
    # 2 has one token beside it in the first window and none in the second; 3 none and one; and so on.
    tokens = [(np.array([0, 2, 4, 6])[:, None] + np.arange(-1, 5))[row][found[row]] for row in range(4)]
    assert [row.tolist() for row in tokens] == [[0, 1, 2], [3, 4], [5, 6], [7, 8]]


def test_best_context_of_no_tokens():
    assert not answer_spans.has_most_context(np.zeros([2, 4], bool), [0, 0]).numpy().any()


def test_padding_speaks_for_no_answer():
    logits = np.array([[3, 1, 2, 9, 8], [1, 2, 3, 4, 5]], np.float32)
    outputs = {"start_logits": logits, "end_logits": logits[:, ::-1]}
    found = answer_spans.candidate_spans(outputs, np.array([[1, 1, 1, 0, 0], [1] * 5]), 2)
    assert found.start.numpy().tolist() == [[0, 0, 2, 2], [4, 4, 3, 3]]
    assert found.end.numpy().tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]


def test_context_tokens():
    mask = np.array([[1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0]])
    types = np.array([[0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0, 0]])
    expected = [[0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1, 0], [0] * 7]
    np.testing.assert_array_equal(context_tokens(types, mask, types), np.array(expected) > 0)


def test_context_tokens_without_type_ids():
    """As RoBERTa has it: `<s> a </s></s> b b </s>`, padding, and a question without a context."""
    ids = np.array([[0, 5, 2, 2, 6, 7, 2, 1], [0, 5, 5, 5, 2, 2, 6, 2], [0, 5, 2, 2, 2, 1, 1, 1]])
    expected = [[0, 0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0, 1, 0], [0] * 8]
    np.testing.assert_array_equal(context_tokens(ids, ids != 1, 0 * ids), np.array(expected) > 0)


@pytest.fixture
def words():
    """One window, `[CLS] q [SEP] ein  Äpfelchen \u00a0 am Ast [SEP]`; the space belongs to what follows."""
    tokens = ["", "", "", "ein", "  Äpfelchen", " \u00a0 am", " Ast", ""]
    ends = np.cumsum([len(token.encode()) for token in tokens])
    starts = np.concatenate([[0], ends[:-1]])
    in_context = np.array([[0, 0, 0, 1, 1, 1, 1, 0]]) > 0
    return "".join(tokens), in_context, starts[np.newaxis], ends[np.newaxis]


def ask(words, starts, ends, n_best=20, max_answer_length=30):
    context, in_context, token_starts, token_ends = words
    found = span_candidates(np.array([starts], np.float32), np.array([ends], np.float32), n_best)
    is_possible = answer_spans.possible_candidates(found, in_context, in_context, max_answer_length)
    return answer_spans.best_answers(found, is_possible, token_starts, token_ends, context, n_best)


def test_offsets_are_those_of_the_text_without_space(words):
    best = ask(words, [9, 9, 9, 0, 5, 1, 0, 9], [9, 9, 9, 0, 2, 4, 3, 9])
    assert [text.decode() for text in best.text.numpy()[:4]] == [
        "Äpfelchen \u00a0 am",
        "Äpfelchen \u00a0 am Ast",
        "Äpfelchen",
        "am",
    ]
    raw = words[0].encode()
    for text, start, end in zip(best.text.numpy(), best.start.numpy(), best.end.numpy(), strict=True):
        assert raw[start:end] == text
    scores = (best.start_log_prob + best.end_log_prob).numpy()
    assert scores[:4].tolist() == [9, 8, 7, 5]
    np.testing.assert_allclose(best.probability, np.exp(scores) / np.exp(scores).sum())


def test_length_limit_and_number(words):
    starts, ends = [9, 9, 9, 0, 5, 1, 0, 9], [9, 9, 9, 0, 2, 4, 3, 9]
    best = ask(words, starts, ends, max_answer_length=1)
    assert best.text.numpy()[0].decode() == "Äpfelchen" and len(best.text) == 4
    # The two likeliest starts and ends are not in the context.
    assert ask(words, starts, ends, n_best=2).text.numpy().tolist() == [b""]


def test_one_text_counts_once():
    words = "no no", np.array([[True, True]]), np.array([[0, 3]]), np.array([[2, 5]])
    best = ask(words, [0, 1], [0, 1], max_answer_length=1)
    assert best.text.numpy().tolist() == [b"no"]
    assert (best.start.numpy().tolist(), best.probability.numpy().tolist()) == ([3], [1.0])


def test_where_nothing_counts_the_answer_is_empty(words):
    best = ask(words, [0.0] * 8, [0.0] * 8, max_answer_length=0)
    assert [column.numpy().tolist() for column in best] == [[b""], [0], [0], [-1e6], [-1e6], [1.0]]


def test_many_answers_of_a_long_context_take_no_copies_of_it():
    """Spans at, before and behind the ends of what the context is cut into, as Python cuts them.

    A span that begins or ends inside of é has all of it.
    """
    context = "aé. " * 60_000  # 300 kB: with one for each of 10,000 spans 3 GB
    raw, rng = context.encode(), np.random.default_rng(0)
    starts = rng.integers(0, len(raw), 10_000)
    ends = np.minimum(starts + rng.integers(1, 600, 10_000), len(raw))
    starts[:4], ends[:4] = (0, 255, 256, 511), (256, 257, 512, 1025)
    spans = answer_spans.Candidates(*np.zeros([4, 1, 10_000], np.int32))
    spans = spans._replace(
        start=np.arange(10_000, dtype=np.int32)[np.newaxis],
        end=np.arange(10_000, dtype=np.int32)[np.newaxis],
        start_log_prob=-np.arange(10_000.0)[np.newaxis],
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kB
    best = answer_spans.best_answers(
        spans, spans.start >= 0, starts[np.newaxis], ends[np.newaxis], context, 10_000
    )
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000
    starts, ends = starts - (starts % 5 == 2), ends + (ends % 5 == 2)
    expected = dict.fromkeys(raw[start:end].strip() for start, end in zip(starts, ends, strict=True))
    assert best.text.numpy().tolist() == [*expected]
    for text, start, end in zip(best.text.numpy(), best.start.numpy(), best.end.numpy(), strict=True):
        assert raw[start:end] == text
