import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.tasks.examples.records import ChoiceRecord
from albert_tf.tasks.multiple_choice import MultipleChoice
from tests.hub_export.conftest import CONFIG
from tests.hub_export.serving.fine_tuned import outputs_of, served, softmax
from tests.tiny import DOCUMENTS

LENGTH = 40
QUESTIONS = [
    (" ".join(DOCUMENTS[0]), "The keeper lost his _ .", ("hat", "boat", "a very long rope")),
    (DOCUMENTS[1][0], "What does bread need?", ("flour and water", "", "Four things: " * 20)),
    ("", "", ("one", "two", "three")),
    (DOCUMENTS[3][1], "Blanks _ and _", ("12 hives", "é", "no")),
]


@pytest.fixture(scope="module")
def chooser(piece_tokenizer):
    model = albert_tf.AlbertMultipleChoice(CONFIG, num_choices=3)
    return served(model, piece_tokenizer, {"seq_length": LENGTH})


def asked(questions):
    context, question, options = zip(*questions, strict=True)
    return {"context": context, "question": question, "options": options}


def test_choices_are_those_of_the_reader_and_the_model(chooser):
    records = [ChoiceRecord("f", str(n), "", *q, None) for n, q in enumerate(QUESTIONS)]
    kind = MultipleChoice({"seq_length": LENGTH, "num_choices": 3})
    rows = kind.encode(records, chooser.tokenizer, False).rows
    _, outputs = outputs_of(chooser.model, rows, LENGTH)
    expected = softmax(outputs["logits"])
    found = chooser.ask("choose", **asked(QUESTIONS))
    np.testing.assert_allclose(found["scores"], expected, rtol=0, atol=1e-5)
    assert found["choice"].tolist() == expected.argmax(axis=1).tolist()
    assert found["choice"].dtype == np.int32
    alone = chooser.ask("serving_default", **asked(QUESTIONS[3:]))
    np.testing.assert_allclose(alone["scores"], expected[3:], rtol=0, atol=1e-5)


def test_requests_that_do_not_fit(chooser):
    inputs = asked(QUESTIONS)
    with pytest.raises(tf.errors.InvalidArgumentError):
        chooser.ask("choose", **{**inputs, "question": inputs["question"][:1]})
