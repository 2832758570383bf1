"""The models of fine-tuning against NumPy by hand; test_huggingface.py has the recorded outputs."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf import AlbertClassifier, AlbertMultipleChoice, AlbertSpanLabeler, AlbertTokenClassifier
from albert_tf.models.task_models import head_seeds
from tests.tiny import TINY

SMALL = TINY.replace(num_hidden_layers=1)
B, C, S = 2, 3, 6
MODELS = {
    "classifier": (lambda config: AlbertClassifier(config, num_labels=C), [B, S]),
    "regression": (lambda config: AlbertClassifier(config, num_labels=1), [B, S]),
    "token_classifier": (lambda config: AlbertTokenClassifier(config, num_labels=C), [B, S]),
    "span_labeler": (AlbertSpanLabeler, [B, S]),
    "multiple_choice": (lambda config: AlbertMultipleChoice(config, num_choices=C), [B, C, S]),
}
HEADS = {
    "classifier": ("classifier", [C, 32]),
    "regression": ("classifier", [1, 32]),
    "token_classifier": ("classifier", [C, 32]),
    "span_labeler": ("cls/squad", [2, 32]),
    "multiple_choice": ("classifier", [1, 32]),
}


def inputs(shape):
    rng = np.random.default_rng(0)
    mask = np.ones(shape, np.int32)
    mask[0, ..., -2:] = 0
    return {
        "input_word_ids": rng.integers(5, SMALL.vocab_size, shape, dtype=np.int32),
        "input_mask": mask,
        "input_type_ids": rng.integers(0, 2, shape, dtype=np.int32),
    }


@pytest.fixture(scope="module", params=MODELS)
def case(request):
    """Kind, model with a bias that shows, inputs."""
    make, shape = MODELS[request.param]
    model = make(SMALL)
    model.variables[-1].assign(np.linspace(1, 2, model.variables[-1].shape[0]))
    return request.param, model, inputs(shape)


def test_logits(case):
    kind, model, batch = case
    outputs = model(batch)
    weights, bias = (variable.numpy() for variable in model.variables[-2:])
    if kind == "span_labeler":
        logits = model.encoder(batch)["sequence_output"].numpy() @ weights.T + bias  # [B, S, 2]
        np.testing.assert_allclose(outputs["start_logits"], logits[..., 0], atol=1e-5)
        np.testing.assert_allclose(outputs["end_logits"], logits[..., 1], atol=1e-5)
        assert outputs.keys() == {"start_logits", "end_logits"}
        return
    if kind == "multiple_choice":
        rows = [model.encoder({k: v[:, c] for k, v in batch.items()})["pooled_output"] for c in range(C)]
        expected = np.stack([row.numpy() @ weights[0] + bias[0] for row in rows], axis=1)  # [B, C]
    else:
        states = "sequence_output" if kind == "token_classifier" else "pooled_output"
        expected = model.encoder(batch)[states].numpy() @ weights.T + bias
    assert outputs.keys() == {"logits"}
    np.testing.assert_allclose(outputs["logits"], expected, atol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_logits_of_the_mean_of_the_tokens_states(precision):
    """Of a classifier, and of multiple choice; the first example is padded."""
    settings = {"pooling": "mean", "dtype": precision}
    classifier = AlbertClassifier(SMALL, num_labels=C, **settings)
    choices = AlbertMultipleChoice(SMALL, num_choices=C, **settings)
    for model, shape in ((classifier, [B, S]), (choices, [B, C, S])):
        weights, bias = (variable.numpy() for variable in model.variables[-2:])
        batch = inputs(shape)
        flat = {name: value.reshape(-1, S) for name, value in batch.items()}
        states = model.encoder(flat)["sequence_output"].numpy().astype(np.float32)
        means = np.stack(
            [row[:count].mean(axis=0) for row, count in zip(states, flat["input_mask"].sum(1), strict=True)]
        )
        expected = (means @ weights.T + bias).reshape(B, C)
        tolerance = 1e-5 if precision == "float32" else 0.01
        np.testing.assert_allclose(model(batch)["logits"], expected, atol=tolerance)
        assert np.abs(model(batch)["logits"] - first_of(model)(batch)["logits"]).max() > 5 * tolerance
        without = {name: value for name, value in batch.items() if name != "input_mask"}
        of_all = states[-1].mean(axis=0) @ weights[-1] + bias[-1]  # an example without padding
        np.testing.assert_allclose(model(without)["logits"][-1, -1], of_all, atol=tolerance)


def first_of(model):
    """The same weights, read by the pooled output."""
    other = type(model).from_config({**model.get_config(), "pooling": "first"})
    other.set_weights(model.get_weights())
    return other


def test_names_and_shapes_of_the_head(case):
    kind, model, _ = case
    scope, shape = HEADS[kind]
    head = {v.name: v.shape.as_list() for v in model.variables if v.name not in names(model.encoder)}
    assert head == {f"{scope}/output_weights:0": shape, f"{scope}/output_bias:0": shape[:1]}


def names(model):
    return {variable.name for variable in model.variables}


def test_unknown_batch_and_length_in_a_graph(case):
    _, model, batch = case
    ranks = {name: [None, C, None] if value.ndim == 3 else [None, None] for name, value in batch.items()}
    spec = {name: tf.TensorSpec(shape, tf.int32) for name, shape in ranks.items()}
    compiled = tf.function(lambda x: model(x), input_signature=[spec])
    eager, traced = model(batch), compiled(batch)
    assert eager.keys() == traced.keys()
    for name in eager:
        np.testing.assert_allclose(traced[name], eager[name], atol=1e-5)


def test_from_config_makes_the_same_model(case):
    _, model, _ = case
    other = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(model))
    assert type(other) is type(model)
    assert other.get_config() == model.get_config()
    assert [(v.name, v.shape) for v in other.variables] == [(v.name, v.shape) for v in model.variables]


@pytest.mark.parametrize("kind", [AlbertClassifier, AlbertTokenClassifier])
def test_dropout_before_the_logits_in_training_only(kind):
    model = kind(SMALL.replace(classifier_dropout_prob=0.5), num_labels=1)
    model.classifier.output_weights.assign(np.ones([1, 32]))
    batch, seed = {"input_word_ids": np.full([200, 1], 7, np.int32)}, tf.constant([1, 2])

    def logits(**kwargs):
        return model(batch, **kwargs)["logits"].numpy()

    plain = logits()
    np.testing.assert_array_equal(logits(training=False, seed=seed), plain)
    dropped = logits(training=True, seed=seed)
    np.testing.assert_array_equal(logits(training=True, seed=seed), dropped)
    assert np.ptp(dropped) > 0.1  # rows are alike but for what is dropped
    assert np.abs(logits(training=True) - logits(training=True)).max() > 0.1
    # The sum of h_i / (1 - p) over those kept has mean Σh and variance Σh² · p / (1 - p).
    states = model.encoder(batch)["pooled_output" if kind is AlbertClassifier else "sequence_output"]
    variance = np.square(states.numpy()[0]).sum()
    np.testing.assert_allclose(dropped.mean(), plain.mean(), atol=4 * np.sqrt(variance / 200))
    np.testing.assert_allclose(dropped.std(), np.sqrt(variance), rtol=0.2)
    without = kind(SMALL.replace(classifier_dropout_prob=0.0), num_labels=1)
    np.testing.assert_array_equal(
        without(batch, training=True, seed=seed)["logits"], without(batch)["logits"]
    )


def test_the_head_drops_by_a_seed_that_the_encoder_does_not_have():
    pairs = [head_seeds(True, tf.constant([number, 0])) for number in range(10)]
    seeds = [(number, 0) for number in range(10)] + [tuple(x.numpy()) for pair in pairs for x in pair]
    assert len(set(seeds)) == 30


def test_bad_input():
    with pytest.raises(ValueError, match="num_labels=0 must be a whole number"):
        AlbertClassifier(SMALL, num_labels=0)
    with pytest.raises(ValueError, match=r"num_labels=2\.5 must be a whole number"):
        AlbertTokenClassifier(SMALL, num_labels=2.5)
    with pytest.raises(ValueError, match="answerability='yes' must be True or False"):
        AlbertSpanLabeler(SMALL, answerability="yes")
    for name in ("start_n_top", "end_n_top"):
        with pytest.raises(ValueError, match=f"{name}=0 must be a whole number"):
            AlbertSpanLabeler(SMALL, answerability=True, **{name: 0})
    for make in (AlbertClassifier, AlbertMultipleChoice):
        with pytest.raises(ValueError, match="pooling='max' is none of first, mean"):
            make(SMALL, 2, pooling="max")
    with pytest.raises(ValueError, match="num_choices=-1 must be a whole number"):
        AlbertMultipleChoice(SMALL, num_choices=-1)
    model = AlbertMultipleChoice(SMALL, num_choices=C)
    for shape in ([B, S], [B, C + 1, S]):
        with pytest.raises(ValueError, match=r"input_word_ids has shape .* it must be \[batch, 3, length\]"):
            model({"input_word_ids": np.zeros(shape, np.int32)})
    with pytest.raises(ValueError, match="input_word_ids is missing"):
        model({})
    model = AlbertSpanLabeler(SMALL, answerability=True)
    with pytest.raises(ValueError, match=r"input_type_ids is missing .* where the context is"):
        model({"input_word_ids": np.zeros([B, S], np.int32)})
    with pytest.raises(ValueError, match=r"sequences of 4 tokens are shorter than .* end_n_top=5: pad them"):
        model(inputs([B, 4]))
