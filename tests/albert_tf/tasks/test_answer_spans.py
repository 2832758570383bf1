"""Answers from windows: against what google-research/albert made of 45 questions, and by hand."""

import json
import resource
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.models.span_labeler import context_tokens
from albert_tf.tasks import answer_spans


class Question(NamedTuple):
    """The windows of one question as arrays [W, S], and what was recorded of it."""

    context: str
    in_context: np.ndarray
    first_tokens: np.ndarray
    is_best: np.ndarray
    token_starts: np.ndarray
    token_ends: np.ndarray
    outputs: dict


class Recorded(NamedTuple):
    """All of the recorded questions by name."""

    settings: dict
    questions: dict[str, Question]
    expected: dict[str, Any]


@pytest.fixture(scope="module")
def recorded(shared):
    folder = shared / "golden" / "squad_windows"
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    dataset = json.loads((folder / "dataset.json").read_text("utf-8"))
    contexts = {
        entry["id"]: paragraph["context"]
        for article in dataset["data"]
        for paragraph in article["paragraphs"]
        for entry in paragraph["qas"]
    }
    settings, windows = expected["settings"], {}
    for window, output in zip(expected["windows"], expected["outputs"], strict=True):
        windows.setdefault(window["question_id"], []).append((window, output))
    questions = {key: question(contexts[key], found, settings) for key, found in windows.items()}
    assert sum(len(found) > 1 for found in windows.values()) > 20
    return Recorded(settings, questions, expected)


def question(context, windows, settings):
    shape = len(windows), settings["seq_length"]
    mask, types, starts, ends = np.zeros([4, *shape], np.int32)
    is_best = np.zeros(shape, bool)
    for row, (window, _) in enumerate(windows):
        length = len(window["input_word_ids"])
        mask[row, :length] = 1
        types[row, :length] = window["input_type_ids"]
        offset = window["input_type_ids"].index(1)
        for place, (first, last) in enumerate(window["characters"], offset):
            starts[row, place] = len(context[:first].encode())
            ends[row, place] = len(context[: last + 1].encode())
        is_best[row, window["max_context"]] = True
    in_context = context_tokens(mask, types).numpy()
    assert in_context.sum(axis=1).tolist() == [len(window["characters"]) for window, _ in windows]
    outputs = {key: np.array([output[key] for _, output in windows]) for key in windows[0][1]}
    first_tokens = np.array([window["window"] for window, _ in windows]) * settings["doc_stride"]
    return Question(context, in_context, first_tokens, is_best, starts, ends, outputs)


def candidates(kind, question, settings):
    outputs = question.outputs
    if kind == "span":
        return span_candidates(outputs["start_log_probs"], outputs["end_log_probs"], settings["n_best_size"])
    beams = [len(outputs["cls_logits"]), settings["start_n_top"], settings["end_n_top"]]
    shapes = {"start_top_log_probs": beams[:2], "end_top_log_probs": beams}
    shapes |= {"start_top_index": beams[:2], "end_top_index": beams}
    tops = {name: outputs[name].reshape(shape) for name, shape in shapes.items()}
    tops |= {name: value.astype(np.int32) for name, value in tops.items() if name.endswith("index")}
    return answer_spans.candidate_spans(tops, np.ones([beams[0], 1]), 0)


def span_candidates(starts, ends, n_best):
    outputs = {"start_logits": starts, "end_logits": ends}
    return answer_spans.candidate_spans(outputs, tf.ones_like(starts), n_best)


def answers(kind, question, settings):
    found = candidates(kind, question, settings)
    is_possible = answer_spans.possible_candidates(
        found, question.in_context, question.is_best, settings["max_answer_length"]
    )
    places = question.token_starts, question.token_ends, question.context
    return answer_spans.best_answers(found, is_possible, *places, settings["n_best_size"])


@pytest.mark.parametrize("kind", ["span", "answerability"])
def test_recorded_answers(recorded, kind):
    settings, expected = recorded.settings, recorded.expected[kind]
    for key, found in recorded.questions.items():
        best = answer_spans.BestAnswers(*(column.numpy() for column in answers(kind, found, settings)))
        texts = [text.decode() for text in best.text]
        nbest = expected["nbest"][key]
        assert texts[:3] == [entry["text"] for entry in nbest]
        for name in ("probability", "start_log_prob", "end_log_prob"):
            values = [entry[name] for entry in nbest]
            np.testing.assert_allclose(getattr(best, name)[:3], values, rtol=0, atol=1e-12)
        np.testing.assert_allclose(best.probability.sum(), 1)
        for text, start, end in zip(best.text, best.start, best.end, strict=True):
            assert found.context.encode()[start:end] == text
        answer = texts[0]
        if kind == "answerability":
            odds = found.outputs["cls_logits"].min()
            assert odds == expected["null_odds"][key]
            answer = "" if odds > settings["null_threshold"] else answer
        assert answer == expected["predictions"][key]


def test_recorded_contexts_of_all_questions_at_once(recorded):
    questions = recorded.questions.values()
    columns = [np.concatenate(column) for column in list(zip(*questions, strict=True))[1:4]]
    numbers = np.repeat(np.arange(len(questions)), [len(found.first_tokens) for found in questions])
    for order in (np.arange(len(numbers)), np.argsort(-numbers, kind="stable")):
        in_context, first_tokens, is_best = (column[order] for column in columns)
        found = answer_spans.has_most_context(in_context, first_tokens, numbers[order])
        np.testing.assert_array_equal(found, is_best)


def test_best_context_by_hand():
    """Tokens 0 … 8 in windows of four, a stride of two; the last is shorter."""
    in_context = [[0, 1, 1, 1, 1, 0], [0, 1, 1, 1, 1, 0], [0, 1, 1, 1, 1, 0], [0, 1, 1, 1, 0, 0]]
    found = answer_spans.has_most_context(np.array(in_context) > 0, [0, 2, 4, 6], [0, 0, 0, 0]).numpy()
    # 2 has one token beside it in the first window and none in the second; 3 none and one; and so on.
    tokens = [(np.array([0, 2, 4, 6])[:, None] + np.arange(-1, 5))[row][found[row]] for row in range(4)]
    assert [row.tolist() for row in tokens] == [[0, 1, 2], [3, 4], [5, 6], [7, 8]]


def test_best_context_of_no_tokens_and_of_no_windows():
    assert not answer_spans.has_most_context(np.zeros([2, 4], bool), [0, 0], [0, 1]).numpy().any()
    assert answer_spans.has_most_context(
        np.zeros([0, 4], bool), tf.zeros([0], tf.int32), tf.zeros([0], tf.int32)
    ).shape == [0, 4]


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
    np.testing.assert_array_equal(context_tokens(mask, types), np.array(expected) > 0)


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
    """Spans at, before and behind the ends of what the context is cut into, as Python cuts them."""
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
    expected = dict.fromkeys(raw[start:end].strip() for start, end in zip(starts, ends, strict=True))
    assert best.text.numpy().tolist() == [*expected]
    for text, start, end in zip(best.text.numpy(), best.start.numpy(), best.end.numpy(), strict=True):
        assert raw[start:end] == text
