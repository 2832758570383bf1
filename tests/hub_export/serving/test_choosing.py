import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.tasks.examples.records import ChoiceRecord
from albert_tf.tasks.multiple_choice import MultipleChoice
from albert_tf.utils.errors import InputError
from hub_export.serving import Served, serving_signatures
from tests.hub_export.conftest import CONFIG
from tests.hub_export.serving.fine_tuned import exported, outputs_of, softmax
from tests.tiny import DOCUMENTS

LENGTH = 40
QUESTIONS = [
    (" ".join(DOCUMENTS[0]), "The keeper lost his _ .", ("hat", "boat", "a very long rope")),
    (DOCUMENTS[1][0], "What does bread need?", ("flour and water", "", "Four things: " * 20)),
    ("", "", ("one", "two", "three")),
    (DOCUMENTS[3][1], "Blanks _ and _", ("12 hives", "é", "no")),
]


@pytest.fixture(scope="module")
def served(tiny_vocabulary, tmp_path_factory):
    model = albert_tf.AlbertMultipleChoice(CONFIG, num_choices=3)
    folder = tmp_path_factory.mktemp("choices")
    return exported(model, tiny_vocabulary, folder, {"seq_length": LENGTH})


def asked(questions):
    context, question, options = zip(*questions, strict=True)
    return {"context": context, "question": question, "options": options}


def test_choices_are_those_of_the_reader_and_the_model(served):
    records = [ChoiceRecord("f", str(n), "", *q, None) for n, q in enumerate(QUESTIONS)]
    kind = MultipleChoice({"seq_length": LENGTH, "num_choices": 3})
    rows = kind.encode(records, served.tokenizer, False).rows
    _, outputs = outputs_of(served.model, rows, LENGTH)
    expected = softmax(outputs["logits"])
    found = served.ask("choose", **asked(QUESTIONS))
    np.testing.assert_allclose(found["scores"], expected, rtol=0, atol=1e-5)
    assert found["choice"].tolist() == expected.argmax(axis=1).tolist()
    assert found["choice"].dtype == np.int32
    alone = served.ask("serving_default", **asked(QUESTIONS[3:]))
    np.testing.assert_allclose(alone["scores"], expected[3:], rtol=0, atol=1e-5)


def test_requests_that_do_not_fit(served):
    inputs = asked(QUESTIONS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Shapes of all inputs must match"):
        served.ask("choose", **{**inputs, "question": inputs["question"][:1]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not compatible"):
        served.ask("choose", **{**inputs, "options": [options[:2] for options in inputs["options"]]})


def test_no_question_is_no_answer(served):
    none = {"context": tf.zeros([0], tf.string), "question": tf.zeros([0], tf.string)}
    found = served.ask("choose", **none, options=tf.zeros([0, 3], tf.string))
    assert (found["choice"].shape, found["scores"].shape) == ((0,), (0, 3))


def test_an_input_that_is_too_short_for_the_task(served):
    with pytest.raises(InputError, match=r"seq_length=4 .* 5 tokens"):
        serving_signatures(Served(served.model, served.tokenizer, 4, {}))
