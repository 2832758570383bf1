import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.tasks.examples.records import QuestionRecord
from albert_tf.tasks.question_answering import QuestionAnswering
from albert_tf.utils.errors import InputError
from hub_export.serving import Served, serving_signatures
from tests.hub_export.conftest import CONFIG
from tests.hub_export.serving.fine_tuned import outputs_of, served, softmax
from tests.tiny import DOCUMENTS

SETTINGS = {"doc_stride": 7, "max_query_length": 6}
LONGEST_ANSWER, N_BEST = 9, 4
TASK = {**SETTINGS, "seq_length": 30, "max_answer_length": LONGEST_ANSWER, "n_best": N_BEST}
ASKED = [
    ("Who kept the bees?", DOCUMENTS[3][0]),
    ("Wo — in Zürich?", "  Ada Löwe lebte\u00a0… in  ﬁnsteren Gäßchen\u3000(Zürich) "),
    ("What did the man who could not read make out of pear wood?", " ".join(DOCUMENTS[4])),  # many windows
    ("", DOCUMENTS[1][1]),
    ("Why?", "Bread"),
]
KINDS = {"span": {}, "answerability": {"answerability": True, "start_n_top": 4, "end_n_top": 3}}


@pytest.fixture(scope="module", params=KINDS)
def labeler(request, piece_tokenizer):
    return served(albert_tf.AlbertSpanLabeler(CONFIG, **KINDS[request.param]), piece_tokenizer, TASK)


def asked(pairs):
    questions, contexts = zip(*pairs, strict=True)
    return {"question": questions, "context": contexts}


def pairs_of(outputs, row, tokens):
    """Start, end and score of each span that the outputs of a window speak for."""
    if "start_logits" in outputs:
        starts, ends = (outputs[name][row, :tokens] for name in ("start_logits", "end_logits"))
        best = [np.argsort(-logits, kind="stable")[:N_BEST] for logits in (starts, ends)]
        return [(start, end, starts[start] + ends[end]) for start in best[0] for end in best[1]]
    return [
        (start, end, outputs["start_top_log_probs"][row, i] + outputs["end_top_log_probs"][row, i, j])
        for i, start in enumerate(outputs["start_top_index"][row])
        for j, end in enumerate(outputs["end_top_index"][row, i])
    ]


def best_windows(windows):
    """For each token of a document the window that shows most around it, of (number, start, length)."""
    best = {}
    for number, start, length in windows:
        for place in range(length):
            context = min(place, length - 1 - place) + 0.01 * length
            if context > best.get(start + place, (0, -1))[1]:
                best[start + place] = number, context
    return {token: number for token, (number, _) in best.items()}


def by_hand(labeler, pairs):
    """The best answer to each question, its score, its bytes, and the least that speaks for none."""
    records = [QuestionRecord("f", str(n), *pair, (), False) for n, pair in enumerate(pairs)]
    found = QuestionAnswering(TASK).encode(records, labeler.tokenizer, False)
    rows, firsts = (values.numpy() for values in (found.places.windows.rows, found.places.windows.starts))
    inputs, outputs = outputs_of(labeler.model, found.rows, TASK["seq_length"])
    answers = []
    for question, record in enumerate(records):
        numbers = np.flatnonzero(rows == question)
        lengths = found.rows.lengths
        best = best_windows([(n, firsts[n], lengths[n, 1]) for n in numbers])
        starts, ends = (offsets[question].numpy() for offsets in found.places.contexts[2:])
        spans = []
        for n in numbers:
            first, told = lengths[n, 0] + 2, lengths[n, 1]
            for start, end, score in pairs_of(outputs, n, int(inputs["input_mask"][n].numpy().sum())):
                inside = first <= start <= end < first + told and end - start < LONGEST_ANSWER
                if inside and best[firsts[n] + start - first] == n:
                    before = firsts[n] - first
                    spans.append((score, starts[before + start], ends[before + end]))
        context, different = record.context.encode(), {}
        for score, start, end in sorted(spans, key=lambda span: -span[0]):
            text = context[start:end].decode()
            start += len(text[: len(text) - len(text.lstrip())].encode())
            different.setdefault(text.strip(), (score, start, start + len(text.strip().encode())))
        different = dict(list(different.items())[:N_BEST]) or {"": (0.0, 0, 0)}
        (text, (_, start, end)), *_ = different.items()
        share = softmax(np.array([score for score, _, _ in different.values()], np.float64))[0]
        least = outputs["no_answer_logits"][numbers].min() if "no_answer_logits" in outputs else None
        answers.append((text, share, start, end, least))
    return answers, len(found.rows)


def test_answers_are_those_of_the_reader_and_the_model(labeler):
    expected, windows = by_hand(labeler, ASKED)
    assert windows > 3 * len(ASKED)
    found = labeler.ask("answer", **asked(ASKED))
    names = {"answer", "score", "start", "end"}
    assert found.keys() == (names | {"no_answer_score"} if labeler.model.answerability else names)
    for row, (text, score, start, end, least) in enumerate(expected):
        assert found["answer"][row].decode() == text
        assert (found["start"][row], found["end"][row]) == (start, end)
        assert ASKED[row][1].encode()[start:end].decode() == text
        np.testing.assert_allclose(found["score"][row], score, rtol=0, atol=1e-5)
        if least is not None:
            np.testing.assert_allclose(found["no_answer_score"][row], least, rtol=0, atol=1e-5)
    assert sum(map(bool, found["answer"])) >= 4


def test_more_windows_than_are_read_at_once(labeler):
    sentences = [sentence for document in DOCUMENTS for sentence in document]
    long = [("Why?", " ".join(sentences[:40])), *ASKED[:2]]
    expected, windows = by_hand(labeler, long)
    assert windows > 64
    found = labeler.ask("answer", **asked(long))
    assert [text.decode() for text in found["answer"]] == [text for text, *_ in expected]
    assert found["start"].tolist() == [start for _, _, start, *_ in expected]


def test_nothing_to_read(labeler):
    found = labeler.ask("answer", question=["Why?", ""], context=["", " "])
    assert found["answer"].tolist() == [b"", b""]
    assert (found["start"].tolist(), found["end"].tolist()) == ([0, 0], [0, 0])
    none = labeler.ask("answer", question=tf.zeros([0], tf.string), context=tf.zeros([0], tf.string))
    assert all(array.shape == (0,) for array in none.values())


def test_settings_that_are_impossible(labeler):
    def signatures(seq_length, **task):
        return serving_signatures(Served(labeler.model, labeler.tokenizer, seq_length, task))

    with pytest.raises(InputError, match=r"seq_length=64 .* 68 tokens"):
        signatures(64)
    with pytest.raises(InputError, match="doc_stride=0"):
        signatures(64, doc_stride=0)
