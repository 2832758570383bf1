import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.tasks.dataset_files import read_squad
from albert_tf.tasks.examples import Answer, QuestionRecord
from albert_tf.tasks.question_answering import AnswerPrediction, FoundAnswer, QuestionAnswering
from albert_tf.tasks.squad_metrics import normalized_answer
from albert_tf.text.tokenizer import open_tokenizer

POSITIONS = ("start_positions", "end_positions", "is_impossible")


def asked(context, answer=None, start=0, question="Which colour?"):
    answers = () if answer is None else (Answer(answer, start),)
    return QuestionRecord("f.json: question q1", "q1", question, context, answers, not answers)


def question_rows(records, tokenizer, seq_length, is_labelled=True, **settings):
    return QuestionAnswering({"seq_length": seq_length, **settings}).encode(records, tokenizer, is_labelled)


class Windows:
    """Windows as NumPy reads them: question, first token, and the bytes of the context's tokens."""

    def __init__(self, found):
        questions = found.layout
        self.rows, self.first = questions.windows.rows.numpy(), questions.windows.starts.numpy()
        self.lengths, self.context_of = found.rows.lengths, questions.context_of.numpy()
        self.texts = questions.contexts.text.numpy()
        self.starts, self.ends = (
            np.split(of.values.numpy(), of.row_splits.numpy()[1:-1]) for of in questions.contexts[2:]
        )

    def offsets(self, window):
        """Of the window's tokens, the first byte of each and the byte after its last."""
        context, (_, length) = self.context_of[self.rows[window]], self.lengths[window]
        inside = slice(self.first[window], self.first[window] + length)
        return self.starts[context][inside], self.ends[context][inside]

    def text(self, window, start, end):
        """The context's text at positions of a window, without spaces around it."""
        starts, ends = self.offsets(window)
        first, last = (place - self.lengths[window, 0] - 2 for place in (start, end))
        text = self.texts[self.context_of[self.rows[window]]]
        return text[starts[first] : ends[last]].decode().strip()


def packed(rows, number):
    spans = zip(rows.starts[number], rows.lengths[number], strict=True)
    question, context = (rows.tokens[start : start + length].tolist() for start, length in spans)
    return [2, *question, 3, *context, 3]


def test_recorded_windows(shared, published_tokenizer):
    folder = shared / "golden/squad_windows"
    recorded = json.loads((folder / "expected.json").read_text())
    settings = {name: recorded["settings"][name] for name in ("seq_length", "doc_stride", "max_query_length")}
    records = read_squad(folder / "dataset.json", has_impossible=True, needs_answers=True)
    found = question_rows(records, published_tokenizer, **settings)
    windows, numbers = Windows(found), {}
    for number, window in enumerate(recorded["windows"]):
        assert records[windows.rows[number]].id == window["question_id"]
        assert numbers.setdefault(window["question_id"], 0) == window["window"]
        numbers[window["question_id"]] += 1
        assert packed(found.rows, number) == window["input_word_ids"]
        question = found.rows.lengths[number, 0]
        assert window["input_type_ids"] == [0] * (question + 2) + [1] * (found.rows.lengths[number, 1] + 1)
        positions = [int(found.rows.features[name][number]) for name in POSITIONS]
        assert positions == [window["train_start"], window["train_end"], window["train_is_impossible"]]
        context = records[windows.rows[number]].context
        if context.isascii():  # elsewhere the recorded characters are not exact
            starts, ends = windows.offsets(number)
            assert np.stack([starts, ends - 1], axis=1).tolist() == window["characters"]
    assert len(found.rows) == len(recorded["windows"])


def test_answers_come_back(shared, published_tokenizer):
    """All but 30, which are annotated from or up to the middle of a word."""
    records = read_squad(shared / "data/squad/dev-v1.1.json", has_impossible=False, needs_answers=True)
    found = question_rows(records, published_tokenizer, 384)
    starts, ends, impossible = (found.rows.features[field] for field in POSITIONS)
    windows, with_answer = Windows(found), np.flatnonzero(impossible == 0)
    texts = {windows.rows[n]: windows.text(n, starts[n], ends[n]) for n in with_answer}
    answered = {n: record.answers[0].text for n, record in enumerate(records) if record.answers}
    assert texts.keys() == answered.keys()
    assert len(answered) == 10570
    wrong = {n for n, text in answered.items() if normalized_answer(texts[n]) != normalized_answer(text)}
    assert len(wrong) == 30


@pytest.mark.parametrize(
    ("context", "answer"),
    [
        ("Ｔｈｅ ﬁrst café — naïve ﬂow", "ﬁrst"),
        ("日本語 と 中文 の sea", "中文"),
        ("e\u0301t\u00e9 \u200band\u200b winter", "e\u0301t\u00e9"),
        ("the \U0001f600 smile", "smile"),
        ("a \ud800 b sea", "sea"),
        ("It is 2½ miles", " is "),
    ],
)
def test_offsets_in_text_that_is_not_ascii(published_tokenizer, context, answer):
    found = question_rows([asked(context, answer, context.index(answer))], published_tokenizer, 384)
    start, end = (int(found.rows.features[name][0]) for name in POSITIONS[:2])
    assert Windows(found).text(0, start, end).strip("\u200b") == answer.strip()


def test_a_window_without_the_whole_answer_has_none(published_tokenizer):
    words = "one two three four five six seven eight nine ten eleven twelve"
    found = question_rows(
        [asked(words, "six seven", words.index("six"))],
        published_tokenizer,
        12,
        doc_stride=3,
        max_query_length=3,
    )
    lengths = found.rows.lengths[:, 1].tolist()
    assert len({tuple(packed(found.rows, n)[1:4]) for n in range(3)}) == 1
    assert found.layout.windows.starts.numpy().tolist() == [0, 3, 6]
    assert lengths == [6, 6, 6]
    starts, ends, impossible = (found.rows.features[name].tolist() for name in POSITIONS)
    assert (starts, ends, impossible) == ([0, 7, 0], [0, 8, 0], [1, 0, 1])
    assert Windows(found).text(1, 7, 8) == "six seven"
    # Where the answer ends with the window it is inside, and a token further on it is not.
    ten = question_rows(
        [asked(words, "ten", words.index("ten"))], published_tokenizer, 12, doc_stride=3, max_query_length=3
    )
    assert ten.rows.features["is_impossible"].tolist() == [1, 1, 0]


def test_empty_contexts_and_questions_without_answers(published_tokenizer):
    found = question_rows([asked(""), asked("The sea.")], published_tokenizer, 64, max_query_length=16)
    assert found.layout.windows.rows.numpy().tolist() == [0, 1]
    assert found.rows.features["is_impossible"].tolist() == [1, 1]
    assert found.rows.lengths[0, 1] == 0
    unlabelled = question_rows(
        [asked("The sea.")], published_tokenizer, 64, is_labelled=False, max_query_length=16
    )
    assert unlabelled.rows.features == {}


def test_impossible_settings(published_tokenizer):
    with pytest.raises(InputError, match=r"seq_length=64 .* 68"):
        question_rows([asked("The sea.")], published_tokenizer, 64)
    with pytest.raises(InputError, match="doc_stride=0"):
        question_rows([asked("The sea.")], published_tokenizer, 384, doc_stride=0)
    with pytest.raises(InputError, match="question q1"):
        question_rows([asked("\u200b", "\u200b", 0)], published_tokenizer, 384)


def test_two_files_may_use_the_same_ids():
    task = QuestionAnswering({"seq_length": 64})
    records = [asked("It is red.", "red", 6), asked("It is blue.", "blue", 6)]
    predictions = [
        AnswerPrediction((FoundAnswer(text, 0, 4, 0.0, 0.0, 1.0),), None) for text in ("red", "blue")
    ]
    assert task.metrics(records, predictions) == {"exact_match": 100.0, "f1": 100.0}


def test_answers_of_byte_level_bpe_are_whole_characters(byte_pairs):
    """Its tokens may be parts of a character, and the likeliest span may begin or end with one."""
    context = "the sea \U0001f30a\U0001f30a is 海 warm"
    tokenizer = open_tokenizer(byte_pairs)
    _, starts, ends = (of[0] for of in tokenizer.tokenize_with_offsets(tf.constant([context])))
    assert any(end - start < 3 for start, end in zip(starts, ends, strict=True) if start in range(8, 16))
    task = QuestionAnswering({"seq_length": 64, "max_query_length": 8, "n_best": 400, "max_answer_length": 3})
    found = task.encode([asked(context)], tokenizer, False)
    places = found.rows.lengths[0, 0] + 3 + np.arange(len(starts))  # of the context, after `<s> … </s></s>`
    logits = np.full([1, 64], -1e4, np.float32)
    logits[0, places] = np.linspace(1, 0, len(places))
    outputs = {name: tf.constant(logits) for name in ("start_logits", "end_logits")}
    mask = tf.ones([1, 64], tf.int32)
    (prediction,) = task.predictions(found, {k: x.numpy() for k, x in task.decide(outputs, mask).items()})
    texts = [answer.text for answer in prediction.answers]
    assert "\U0001f30a" in texts and "海" in texts and all(text in context for text in texts)
    for answer in prediction.answers:
        assert context.encode()[answer.start : answer.end].decode() == answer.text


def test_the_best_threshold_may_be_above_zero():
    records = [asked("A red house.", "red", 2), asked("A cat.")]
    found = [AnswerPrediction((FoundAnswer(*span, 0.0, 0.0, 1.0),), odds) for span, odds in
             ((("red", 2, 5), 0.5), (("cat", 2, 5), 2.0))]  # fmt: skip
    metrics = QuestionAnswering({"answerability": True}).metrics(records, found)
    assert (metrics["f1"], metrics["best_f1"], metrics["best_f1_thresh"]) == (50, 100, 0.5)
