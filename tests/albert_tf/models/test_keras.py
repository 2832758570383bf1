"""The models as Keras models: compile, fit, evaluate, predict, summary, save and load."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import albert_tf
from albert_tf.errors import InputError
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


def cross_entropy():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class Case(NamedTuple):
    """A model, its inputs, its labels, and a loss a label; how `fit` gets them, and which file is saved."""

    make: Any
    inputs: dict
    labels: dict
    loss: dict
    form: str = "by name"
    file: str = "model.keras"
    dtype: str = "float32"
    is_compiled: bool = False  # by XLA


STARTS = {name: RNG.integers(3, S - 1, [B], dtype=np.int32) for name in ("start_logits", "end_logits")}
SPAN = dict.fromkeys(STARTS, cross_entropy())
LOGITS = {"logits": cross_entropy()}
CASES = {
    "classifier": Case(
        lambda **kwargs: albert_tf.AlbertClassifier(SMALL, num_labels=C, **kwargs),
        tokens(B, S),
        {"logits": RNG.integers(0, C, [B], dtype=np.int32)},
        LOGITS,
        form="plain",
        file="saved_model",
    ),
    "token_classifier": Case(
        lambda **kwargs: albert_tf.AlbertTokenClassifier(SMALL, num_labels=C, **kwargs),
        tokens(B, S),
        {"logits": RNG.integers(0, C, [B, S], dtype=np.int32)},
        LOGITS,
        dtype="mixed_bfloat16",
    ),
    "multiple_choice": Case(
        lambda **kwargs: albert_tf.AlbertMultipleChoice(SMALL, num_choices=C, **kwargs),
        tokens(B, C, S),
        {"logits": RNG.integers(0, C, [B], dtype=np.int32)},
        LOGITS,
    ),
    "span_labeler": Case(
        lambda **kwargs: albert_tf.AlbertSpanLabeler(SMALL, **kwargs),
        tokens(B, S),
        STARTS,
        SPAN,
        form="plain loss",
    ),
    "answerability": Case(
        lambda **kwargs: albert_tf.AlbertSpanLabeler(SMALL, answerability=True, **kwargs),
        {**tokens(B, S), "start_positions": STARTS["start_logits"]},
        {**STARTS, "no_answer_logits": np.array([0, 1, 0, 1], np.float32)},
        {**SPAN, "no_answer_logits": keras.losses.BinaryCrossentropy(from_logits=True)},
        form="dataset",
    ),
    "pretrainer": Case(
        lambda **kwargs: albert_tf.AlbertPretrainer(SMALL, **kwargs),
        {**tokens(B, S), "masked_lm_positions": RNG.integers(0, S, [B, 2], dtype=np.int32)},
        {
            "mlm_logits": RNG.integers(0, SMALL.vocab_size, [B, 2], dtype=np.int32),
            "sop_logits": RNG.integers(0, 2, [B], dtype=np.int32),
        },
        {"mlm_logits": cross_entropy(), "sop_logits": cross_entropy()},
    ),
}


def single(values):
    return next(iter(values.values()))


def fitted(case, **kwargs):
    """The model after some epochs, their losses, and what `evaluate` says then."""
    loss = case.loss if case.form in ("by name", "dataset") else single(case.loss)
    labels = single(case.labels) if case.form == "plain" else case.labels
    model = case.make(**kwargs)
    metrics = ["accuracy"] if case.form == "plain" else None
    model.compile(keras.optimizers.Adam(3e-3), loss, metrics, jit_compile=case.is_compiled)
    data = (case.inputs, labels)
    if case.form == "dataset":
        data = (tf.data.Dataset.from_tensor_slices(data).batch(2),)
    batch = {} if case.form == "dataset" else {"batch_size": 2}
    history = model.fit(*data, **batch, epochs=3, shuffle=False, verbose=0)
    return model, history.history["loss"], model.evaluate(*data, **batch, return_dict=True, verbose=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_fit_evaluate_predict_save_and_load(name, tmp_path):
    case = CASES[name]
    tolerance = 1e-5 if case.dtype == "float32" else 0.02
    model, losses, results = fitted(case, dtype=case.dtype)
    assert losses[-1] < losses[0] and np.isfinite(losses).all()
    outputs = model(case.inputs)
    outputs = {key: outputs[key] for key in case.labels}
    expected = sum(np.mean(case.loss[key](label, outputs[key])) for key, label in case.labels.items())
    np.testing.assert_allclose(results["loss"], expected, rtol=tolerance)
    if case.form == "plain":
        hits = np.argmax(outputs["logits"], axis=-1) == case.labels["logits"]
        np.testing.assert_allclose(results["accuracy"], np.mean(hits))
    predicted = model.predict(case.inputs, batch_size=2, verbose=0)
    model.save(tmp_path / case.file)
    again = keras.models.load_model(tmp_path / case.file)
    assert type(again) is type(model) and again.get_config() == model.get_config()
    found = again(case.inputs)
    for key, value in outputs.items():
        np.testing.assert_allclose(predicted[key], value, atol=tolerance)
        np.testing.assert_allclose(found[key], value, atol=tolerance)


@pytest.mark.slow
def test_fit_and_predict_on_a_list_of_inputs():
    case = next(iter(CASES.values()))
    names = case.make().inputs_in_order
    assert list(case.inputs) == list(names[: len(case.inputs)])
    inputs = list(case.inputs.values())
    model, losses, _ = fitted(case._replace(inputs=inputs))
    assert losses[-1] < losses[0]
    found, expected = model.predict(inputs, verbose=0), model(case.inputs)
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_compiled_by_xla_it_learns_and_predicts(name):
    case = CASES[name]._replace(form="by name", is_compiled=True)
    model, losses, _ = fitted(case)
    assert losses[-1] < losses[0]
    predicted, expected = model.predict(case.inputs, batch_size=2, verbose=0), model(case.inputs)
    for key, value in expected.items():
        np.testing.assert_allclose(predicted[key], value, atol=1e-5)


@pytest.mark.slow
def test_fit_on_two_replicas(two_replicas):
    with two_replicas.scope():
        _, losses, results = fitted(CASES["answerability"]._replace(form="by name"))
    assert losses[-1] < losses[0] and np.isfinite([*losses, results["loss"]]).all()


@keras.saving.register_keras_serializable("tests")
class OwnModel(keras.Model):
    """A user's model with an encoder inside."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.encoder, self.logits = albert_tf.AlbertEncoder(SMALL), keras.layers.Dense(C)

    def call(self, inputs, training=None):
        return self.logits(self.encoder(inputs, training=training)["pooled_output"])


def functional_model():
    """A functional model of one list of inputs, with a frozen part and functions compiled by XLA."""
    ids = keras.Input([S], dtype=tf.int32)
    encoder = albert_tf.AlbertEncoder(SMALL, fused=True)
    encoder.embeddings.trainable = False
    return keras.Model(ids, keras.layers.Dense(C)(encoder([ids])["pooled_output"]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "file"),
    [(OwnModel, "model.keras"), *((functional_model, file) for file in ("model.keras", "model.h5", "saved"))],
)
def test_models_around_an_encoder_load_and_go_on(make, file, tmp_path):
    inputs, labels = tokens(B, S), RNG.integers(0, C, [B])
    inputs = inputs["input_word_ids"] if make is functional_model else inputs
    model = make()
    schedule = albert_tf.optimization.WarmupPolynomialDecay(1e-3, num_train_steps=8)
    model.compile(albert_tf.optimization.AdamW(schedule), cross_entropy())
    model.fit(inputs, labels, verbose=0)
    model.save(tmp_path / file)
    again = keras.models.load_model(tmp_path / file)
    np.testing.assert_allclose(again.predict(inputs, verbose=0), model.predict(inputs, verbose=0), atol=1e-6)
    if file != "saved":  # Keras' SavedModels forget what is frozen in a subclassed model
        assert len(again.trainable_weights) == len(model.trainable_weights)
    assert again.optimizer.get_config() == model.optimizer.get_config()
    assert np.isfinite(again.fit(inputs, labels, verbose=0).history["loss"]).all()


def test_targets_are_those_that_the_model_was_compiled_for():
    """Keras would give one output's loss, weight and metric to another."""
    both, ids = ("mlm_logits", "sop_logits"), np.full([4, 8], 7, np.int32)
    x = {"input_word_ids": ids, "masked_lm_positions": np.ones([4, 2], np.int32)}
    y = {"mlm_logits": ids[:, :2], "sop_logits": np.array([0, 1, 0, 1])}
    alone = {"sop_logits": y["sop_logits"]}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model = albert_tf.AlbertPretrainer(TINY)
    for options in (
        {"loss": dict.fromkeys(both, loss)},
        {"loss": loss, "metrics": dict.fromkeys(both, "accuracy")},
        {"loss": loss, "loss_weights": {"mlm_logits": 1.0, "sop_logits": 0.0}},
    ):
        model.compile("sgd", **options, run_eagerly=True)
        with pytest.raises(InputError, match="mlm_logits"):
            model.fit(x, alone, verbose=0)
    model.compile("sgd", loss, run_eagerly=True)
    model.fit(x, alone, verbose=0)
    with pytest.raises(InputError, match="mlm_logits"):
        model.evaluate(x, y, verbose=0)
    model.compile("sgd", loss, run_eagerly=True)
    model.fit(x, y, verbose=0)


def test_plain_targets_are_of_a_single_output():
    """Keras would pair others with the outputs in the order of their names."""
    x, y = {"input_word_ids": np.full([4, 8], 7, np.int32)}, np.array([1, 0, 1, 0])
    single = albert_tf.AlbertClassifier(SMALL, 2)
    span, exits = albert_tf.AlbertSpanLabeler(SMALL), albert_tf.AlbertClassifier(TINY, 2, early_exit=True)
    for model in (single, span, exits):
        model.compile("sgd", cross_entropy(), run_eagerly=True)
    expected = cross_entropy()(y, single(x)["logits"])
    np.testing.assert_allclose(single.evaluate(x, y, verbose=0), expected, rtol=1e-6)
    for model, targets, named in (
        (span, [y, y + 1], "end_logits, start_logits"),
        (exits, y, "exit_logits, logits"),
    ):
        for call in (model.fit, model.evaluate):
            with pytest.raises(InputError, match=named):
                call(x, targets, verbose=0)


def test_weights_by_name_are_of_targets():
    """Keras would leave out others, or give one output's weights to another."""
    both, ids = ("mlm_logits", "sop_logits"), np.full([4, 8], 7, np.int32)
    x = {"input_word_ids": ids, "masked_lm_positions": np.ones([4, 2], np.int32)}
    y = {"mlm_logits": ids[:, :2], "sop_logits": np.array([0, 1, 0, 1])}
    model = albert_tf.AlbertPretrainer(SMALL)
    model.compile("sgd", dict.fromkeys(both, cross_entropy()), run_eagerly=True)
    weights = {"sop_logits": np.array([2.0, 0.0, 0.0, 0.0])}
    losses = model.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True)
    first = -tf.nn.log_softmax(model(x)["sop_logits"])[0, 0]
    np.testing.assert_allclose(losses["sop_logits_loss"], 2 * first / 4, rtol=1e-5)
    np.testing.assert_allclose(
        losses["mlm_logits_loss"], cross_entropy()(y["mlm_logits"], model(x)["mlm_logits"]), rtol=1e-5
    )
    classifier = albert_tf.AlbertClassifier(SMALL, 2)
    classifier.compile("sgd", cross_entropy(), run_eagerly=True)
    for targets in ({"logits": y["sop_logits"]}, y["sop_logits"]):
        for call in (classifier.fit, classifier.evaluate):
            with pytest.raises(InputError, match="sop_logits"):
                call({"input_word_ids": ids}, targets, sample_weight=weights, verbose=0)


def test_shapes_of_outputs():
    encoder = albert_tf.AlbertEncoder(TINY)
    shapes = encoder.compute_output_shape({"input_word_ids": (None, 8)})
    assert shapes["pooled_output"] == (None, TINY.hidden_size)
    ids = keras.Input([None], dtype=tf.int32)
    model = keras.Model(ids, keras.layers.Dense(2)(encoder([ids])["pooled_output"]))
    assert model.compute_output_shape((None, 8)) == (None, 2)
    with pytest.raises(Exception, match="float32"):  # an error of autograph, with our message in it
        encoder([keras.Input([8])])
    albert_tf.AlbertPretrainer(TINY).build({"input_word_ids": (None, 8), "masked_lm_positions": (None, 2)})


@pytest.mark.parametrize("dtype", [np.uint16, np.int8, np.uint32])
def test_ids_of_other_whole_numbers(dtype):
    encoder, ids = albert_tf.AlbertEncoder(TINY), np.array([[2, 7, 9, 3]])
    expected = encoder(ids.astype(np.int32))["pooled_output"]
    np.testing.assert_array_equal(encoder(ids.astype(dtype))["pooled_output"], expected)


def test_ids_whose_rank_is_unknown():
    """As tf.py_function gives them."""
    rows = tf.data.Dataset.from_tensor_slices((np.full([4, 8], 7, np.int32), [0, 1, 0, 1])).batch(2)
    model = albert_tf.AlbertClassifier(TINY, np.int64(2))
    assert type(model.num_labels) is int
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(rows.map(lambda x, y: (tf.py_function(lambda x: x, [x], tf.int32), y)), verbose=0)
