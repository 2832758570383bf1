"""The models as Keras models: compile, fit, evaluate, predict, save and load."""

import io
import re
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import albert_tf
from tests.tiny import TINY

SMALL = TINY.replace(num_hidden_layers=1)
B, C, S = 4, 3, 8
RNG = np.random.default_rng(0)


def tokens(*shape):
    types = np.zeros(shape, np.int32)
    types[..., 3:] = 1
    return {
        "input_word_ids": RNG.integers(5, SMALL.vocab_size, shape, dtype=np.int32),
        "input_mask": np.ones(shape, np.int32),
        "input_type_ids": types,
    }


class Case(NamedTuple):
    """A model, its inputs, its labels, and a loss a label."""

    make: Any
    inputs: dict
    labels: dict
    loss: dict


def cross_entropy():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


STARTS = {name: RNG.integers(3, S - 1, [B], dtype=np.int32) for name in ("start_logits", "end_logits")}
SPAN = dict.fromkeys(STARTS, cross_entropy())
CASES = {
    "classifier": Case(
        lambda **kwargs: albert_tf.AlbertClassifier(SMALL, num_labels=C, **kwargs),
        tokens(B, S),
        {"logits": RNG.integers(0, C, [B], dtype=np.int32)},
        {"logits": cross_entropy()},
    ),
    "regression": Case(
        lambda **kwargs: albert_tf.AlbertClassifier(SMALL, num_labels=1, **kwargs),
        tokens(B, S),
        {"logits": RNG.normal(size=[B, 1]).astype(np.float32)},
        {"logits": keras.losses.MeanSquaredError()},
    ),
    "token_classifier": Case(
        lambda **kwargs: albert_tf.AlbertTokenClassifier(SMALL, num_labels=C, **kwargs),
        tokens(B, S),
        {"logits": RNG.integers(0, C, [B, S], dtype=np.int32)},
        {"logits": cross_entropy()},
    ),
    "multiple_choice": Case(
        lambda **kwargs: albert_tf.AlbertMultipleChoice(SMALL, num_choices=C, **kwargs),
        tokens(B, C, S),
        {"logits": RNG.integers(0, C, [B], dtype=np.int32)},
        {"logits": cross_entropy()},
    ),
    "span_labeler": Case(
        lambda **kwargs: albert_tf.AlbertSpanLabeler(SMALL, **kwargs), tokens(B, S), STARTS, SPAN
    ),
    "answerability": Case(
        lambda **kwargs: albert_tf.AlbertSpanLabeler(SMALL, answerability=True, **kwargs),
        {**tokens(B, S), "start_positions": STARTS["start_logits"]},
        {**STARTS, "no_answer_logits": np.array([0, 1, 0, 1], np.float32)},
        {**SPAN, "no_answer_logits": keras.losses.BinaryCrossentropy(from_logits=True)},
    ),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def single(values):
    return next(iter(values.values()))


FORMS = {
    "by name": lambda case: (case.loss, case.labels),
    "plain loss": lambda case: (single(case.loss), case.labels),
    "plain": lambda case: (single(case.loss), single(case.labels)),
}


SOME = [
    ("classifier", "plain"),
    pytest.param("answerability", "by name", marks=pytest.mark.slow),
    pytest.param("multiple_choice", "plain loss", marks=pytest.mark.slow),
]


def fitted(case, form, **kwargs):
    """The model after some epochs, its history, and what `evaluate` says then."""
    loss, labels = FORMS[form](case)
    model = case.make(**kwargs)
    model.compile(keras.optimizers.Adam(3e-3), loss)
    history = model.fit(case.inputs, labels, batch_size=2, epochs=3, shuffle=False, verbose=0)
    return model, history.history["loss"], model.evaluate(case.inputs, labels, return_dict=True, verbose=0)


def check_fit_and_evaluate(case, form):
    model, losses, figures = fitted(case, form)
    assert losses[-1] < losses[0] and np.isfinite(losses).all()
    outputs = model(case.inputs)
    assert outputs.keys() == case.labels.keys()
    expected = sum(np.mean(case.loss[key](label, outputs[key])) for key, label in case.labels.items())
    np.testing.assert_allclose(figures["loss"], expected, rtol=1e-5)


def test_fit_and_evaluate_by_name(case):
    check_fit_and_evaluate(case, "by name")


@pytest.mark.parametrize(("name", "form"), [*SOME[:1], ("span_labeler", "plain loss")])
def test_fit_and_evaluate(name, form):
    check_fit_and_evaluate(CASES[name], form)


@pytest.mark.parametrize(("name", "form"), SOME)
def test_fit_in_mixed_precision(name, form):
    _, losses, figures = fitted(CASES[name], form, dtype="mixed_bfloat16")
    assert losses[-1] < losses[0] and np.isfinite([*losses, figures["loss"]]).all()


@pytest.mark.parametrize(("name", "form"), SOME)
def test_fit_on_two_replicas(name, form, two_replicas):
    with two_replicas.scope():
        _, losses, figures = fitted(CASES[name], form)
    assert losses[-1] < losses[0] and np.isfinite([*losses, figures["loss"]]).all()


def test_accuracy_is_of_the_logits():
    case = CASES["classifier"]
    for metrics in (["accuracy"], {"logits": "accuracy"}):
        model = case.make()
        model.compile("adam", cross_entropy(), metrics=metrics)
        figures = model.evaluate(case.inputs, case.labels["logits"], return_dict=True, verbose=0)
        guesses = np.argmax(model(case.inputs)["logits"], axis=-1)
        (accuracy,) = [value for name, value in figures.items() if name.endswith("accuracy")]
        np.testing.assert_allclose(accuracy, np.mean(guesses == case.labels["logits"]))


def test_predict_save_and_load(case, tmp_path):
    model = case.make()
    predicted = model.predict(case.inputs, batch_size=2, verbose=0)
    for key, value in model(case.inputs).items():
        np.testing.assert_allclose(predicted[key], value, atol=1e-5)
    name = "saved_model" if type(model) is albert_tf.AlbertClassifier else "model.keras"
    model.save(tmp_path / name)
    again = keras.models.load_model(tmp_path / name)
    assert type(again) is type(model)
    for key, value in again(case.inputs).items():
        np.testing.assert_allclose(value, predicted[key], atol=1e-5)


def test_a_data_set():
    case = CASES["answerability"]
    model = case.make()
    model.compile("adam", case.loss)
    batches = tf.data.Dataset.from_tensor_slices((case.inputs, case.labels)).batch(2)
    assert np.isfinite(model.fit(batches, epochs=1, verbose=0).history["loss"]).all()


def test_summary(case):
    model = case.make()
    text = io.StringIO()
    model.summary(print_fn=lambda line: text.write(line + "\n"))
    found = {
        name: int(number.replace(",", ""))
        for name, number in re.findall(r"^(.*) params: ([\d,]+)", text.getvalue(), re.MULTILINE)
    }
    parameters = sum(np.prod(variable.shape) for variable in model.variables)
    assert found == {"Total": parameters, "Trainable": parameters, "Non-trainable": 0}
    rows = re.findall(r"\((\w+)\) +(\S+) +([\d,]+)", text.getvalue())
    assert sum(int(number.replace(",", "")) for _, _, number in rows) == parameters
    assert rows[0][0] == "AlbertEncoder"
