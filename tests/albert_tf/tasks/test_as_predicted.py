"""What a server answers is what `predict` says, of every kind of task."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.models import build_model
from albert_tf.finetuning.entries import task_entries
from albert_tf.finetuning.tasks import TASKS
from albert_tf.finetuning.trained import Trained
from albert_tf.recipes import QuestionSettings
from albert_tf.tasks.datasets.columns import Columns
from albert_tf.tasks.examples.records import ChoiceRecord, QuestionRecord, TaggedRecord, TextRecord
from albert_tf.tokenizers import PieceTokenizer, Vocabulary
from hub_export.serving import Served, serving_signatures
from tests.hub_export.conftest import CONFIG
from tests.tiny import DOCUMENTS

LENGTH = 32
TEXTS = DOCUMENTS[0] + DOCUMENTS[1]
OPTIONS = ("a boat", "the keeper", "a cow full of sheep")


def text_records(pair):
    return [
        TextRecord("own.csv", n + 2, str(n), text, TEXTS[n - 1] if pair else None, "xyz"[n % 3])
        for n, text in enumerate(TEXTS)
    ]


@pytest.fixture
def both(tiny_vocabulary):
    """What a model of a task predicts for records, and what its signatures answer to a request."""
    tokenizer = PieceTokenizer(Vocabulary.from_file(tiny_vocabulary))

    def ask(task, records, signature, columns=None, **request):
        questions = QuestionSettings(doc_stride=8, max_query_length=6, max_answer_length=9, n_best=4)
        entries = task_entries(task, records, LENGTH, columns, questions)
        model = build_model(CONFIG.replace(num_hidden_layers=1, initializer_range=0.5), entries)
        found = Trained(TASKS[task], model, tokenizer, entries, 0).predictions(records, batch_size=7)
        signatures = serving_signatures(Served(model, tokenizer, LENGTH, entries))
        asked = {name: tf.constant(values) for name, values in request.items()}
        answers = signatures[signature].function(**asked)
        return found, {name: tensor.numpy() for name, tensor in answers.items()}

    return ask


def assert_near(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("pair", [False, True])
def test_labels(both, pair):
    columns = Columns("text", "title" if pair else None, "kind")
    request = {"text": TEXTS, **({"text_pair": [TEXTS[n - 1] for n in range(len(TEXTS))]} if pair else {})}
    name = "pair" if pair else "serving_default"
    predicted, answered = both("classification", text_records(pair), name, columns, **request)
    assert [label.decode() for label in answered["label"]] == [found.label for found in predicted]
    assert_near(answered["scores"], np.stack([found.scores for found in predicted]))
    assert_near(answered["score"], [found.score for found in predicted])
    assert len(set(answered["label"])) > 1


def test_several_labels(both):
    records = [
        record._replace(label="|".join("xyz"[: n % 4])) for n, record in enumerate(text_records(False))
    ]
    columns = Columns("text", None, "kind")
    predicted, answered = both("multi_label", records, "serving_default", columns, text=TEXTS)
    for labels, scores, is_label, found in zip(
        answered["labels"], answered["scores"], answered["is_label"], predicted, strict=True
    ):
        assert tuple(label.decode() for label in labels[is_label]) == found.labels
        assert_near(scores[is_label], found.scores)
    assert len({found.labels for found in predicted}) > 1


def test_scores(both):
    predicted, answered = both(
        "regression", text_records(False), "serving_default", Columns("text", None, "kind"), text=TEXTS
    )
    assert_near(answered["score"], [found.score for found in predicted])


def test_tags(both):
    """Of sentences, some of which are longer than the model reads at once."""
    sentences = [tuple(text.split()) for text in (*TEXTS, " ".join(TEXTS[:3]))]
    records = [
        TaggedRecord("own.conll", n + 1, words, tuple("OXY"[len(word) % 3] for word in words))
        for n, words in enumerate(sentences)
    ]
    predicted, answered = both("tagging", records, "tag", text=[" ".join(words) for words in sentences])
    for row, found in enumerate(predicted):
        count = len(found.tags)
        assert [label.decode() for label in answered["labels"][row, :count]] == list(found.tags)
        assert_near(answered["scores"][row, :count], found.scores)


def test_choices(both):
    records = [ChoiceRecord("f", str(n), "", text, "Who?", OPTIONS, None) for n, text in enumerate(TEXTS)]
    request = {"context": TEXTS, "question": ["Who?"] * len(TEXTS), "options": [OPTIONS] * len(TEXTS)}
    predicted, answered = both("multiple_choice", records, "choose", **request)
    assert answered["choice"].tolist() == [found.choice for found in predicted]
    assert_near(answered["scores"], np.stack([found.scores for found in predicted]))


@pytest.mark.parametrize("task", ["squad-v1.1", "squad-v2.0"])
def test_answers(both, task):
    contexts = [" ".join(TEXTS[n : n + 4]) for n in range(8)]  # several windows each
    records = [QuestionRecord("f", str(n), "Who saw it?", text, (), False) for n, text in enumerate(contexts)]
    request = {"question": ["Who saw it?"] * len(contexts), "context": contexts}
    predicted, answered = both(task, records, "answer", **request)
    for row, found in enumerate(predicted):
        best = found.answers[0]
        assert answered["answer"][row].decode() == best.text
        assert (answered["start"][row], answered["end"][row]) == (best.start, best.end)
        assert_near(answered["score"][row], best.probability)
        if found.null_odds is not None:
            assert_near(answered["no_answer_score"][row], found.null_odds)
    assert ("no_answer_score" in answered) == (task == "squad-v2.0")
