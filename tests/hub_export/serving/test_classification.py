import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.errors import InputError
from albert_tf.finetuning.finetuned_model import create_predict_fn
from albert_tf.tasks import create_task
from albert_tf.tasks.examples import QuestionRecord
from albert_tf.tasks.question_answering import QuestionAnswering
from hub_export.serving_signatures import ServingModel, serving_signatures
from tests.albert_tf.tasks.answers import assert_answered
from tests.hub_export.conftest import CONFIG
from tests.hub_export.serving.fine_tuned import served
from tests.tiny import DOCUMENTS

LABELS = ["schlecht", "so là là", "gut"]
LENGTH = 20


@pytest.fixture(scope="module")
def classifier(piece_tokenizer):
    task = {"labels": LABELS, "seq_length": LENGTH}  # of texts and of pairs, as it does not say
    return served(albert_tf.AlbertClassifier(CONFIG, num_labels=3), piece_tokenizer, task)


def test_regression_is_one_number_a_row(piece_tokenizer):
    task = {"seq_length": LENGTH, "columns": {"text": "review", "text_pair": None, "label": "stars"}}
    regression = served(albert_tf.AlbertClassifier(CONFIG, num_labels=1), piece_tokenizer, task)
    assert sorted(regression.signatures) == [
        "embed",
        "head",
        "serving_default",
        "tokens",
    ]  # those of its columns
    found = regression.ask("serving_default", text=["", "a boat"])
    assert found.keys() == {"score"} and found["score"].shape == (2,)


def test_signatures_are_those_of_what_was_learned(classifier):
    found = classifier.ask("serving_default", text=["a boat"])
    assert found.keys() == {"label", "score", "labels", "scores"}
    assert [name.decode() for name in found["labels"][0]] == LABELS
    assert sorted(classifier.signatures) == ["embed", "head", "pair", "serving_default", "tokens"]
    task = {"columns": {"text": "a", "text_pair": "b", "label": "c"}}
    signatures = serving_signatures(ServingModel(classifier.model, classifier.tokenizer, LENGTH, task))
    assert sorted(signatures) == ["embed", "head", "pair", "serving_default", "tokens"]
    assert signatures["serving_default"] is signatures["pair"]
    assert signatures["pair"].example.keys() == {"text", "text_pair"}


def test_names_are_numbers_without_labels_and_must_be_as_many(classifier):
    def label_names(task):
        return ServingModel(classifier.model, classifier.tokenizer, 16, task).label_names()

    assert label_names({}) == ["0", "1", "2"]
    assert label_names({"labels": [True, 1.5, 2]}) == ["True", "1.5", "2"]
    with pytest.raises(InputError, match=r"2 labels.*num_labels=3"):
        label_names({"labels": ["a", "b"]})


#

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


@pytest.mark.slow
def test_answers_are_what_is_predicted(labeler):
    """Of more windows than are read at once; places are of bytes."""
    long = ("Why?", " ".join(sentence for document in DOCUMENTS for sentence in document))
    records = [QuestionRecord("f", str(n), *pair, (), False) for n, pair in enumerate([long, *ASKED])]
    task = QuestionAnswering({**TASK, "answerability": labeler.model.answerability})
    examples = task.encode(records, labeler.tokenizer, False)
    assert len(examples.rows) > 64 + 3 * len(ASKED)
    predictions = create_predict_fn(task, labeler.model, 32)(examples).predictions
    signatures = {name: signature.function for name, signature in labeler.signatures.items()}
    names = {"answer", "score", "start", "end", "answers", "scores", "starts", "ends"}
    found = labeler.ask("answer", question=["Why?"], context=["Bread"])
    assert found.keys() == (names | {"no_answer_score"} if labeler.model.answerability else names)
    assert_answered(signatures, records, predictions)
    assert sum(bool(prediction.answers[0].text) for prediction in predictions) >= 4


def test_nothing_to_read(labeler):
    found = labeler.ask("answer", question=["Why?", ""], context=["", " "])
    assert found["answer"].tolist() == [b"", b""]
    assert (found["start"].tolist(), found["end"].tolist()) == ([0, 0], [0, 0])
    none = labeler.ask("answer", question=tf.zeros([0], tf.string), context=tf.zeros([0], tf.string))
    assert all(array.shape == ((0, N_BEST) if name.endswith("s") else (0,)) for name, array in none.items())


def test_settings_that_are_impossible(labeler):
    def signatures(seq_length, **task):
        return serving_signatures(ServingModel(labeler.model, labeler.tokenizer, seq_length, task))

    with pytest.raises(InputError, match=r"seq_length=64 .* 68"):
        signatures(64)
    with pytest.raises(InputError, match="doc_stride=0"):
        signatures(64, doc_stride=0)


#


def test_requests_that_do_not_fit(piece_tokenizer):
    model = albert_tf.AlbertMultipleChoice(CONFIG, num_choices=3)
    chooser = served(model, piece_tokenizer, {"seq_length": 40})
    asked = {"context": ["", ""], "question": ["", ""], "options": [["one", "two", ""]] * 2}
    assert chooser.ask("serving_default", **asked)["choice"].dtype == "int32"
    task = {"model": "multiple_choice", "num_choices": 3, "seq_length": 40}
    columns = {name: tf.constant(value) for name, value in {**asked, "question": [[""], [""]]}.items()}
    answers = create_task(task).answer(ServingModel(chooser.model, piece_tokenizer, 40, task), **columns)
    np.testing.assert_allclose(answers["scores"], chooser.ask("choose", **asked)["scores"], atol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError):
        chooser.ask("choose", **{**asked, "question": [""]})
