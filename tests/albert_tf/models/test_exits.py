"""Early exit, against a loop over the logits of all layers by hand."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import AlbertClassifier, AlbertMultipleChoice
from albert_tf.errors import InputError
from albert_tf.models.early_exit import call_with_early_exit, check_patience
from tests.albert_tf.models.oracles import inputs_of, perturbed
from tests.tiny import TINY

L = 5
CONFIG = TINY.replace(num_hidden_layers=L, num_hidden_groups=1, initializer_range=0.5)
MASK = np.array([[1] * n + [0] * (7 - n) for n in (7, 3, 5, 1, 6, 4, 7, 2)], np.int32)
MODELS = {
    "labels": (lambda: AlbertClassifier(CONFIG, 3, early_exit=True), MASK),
    "mean, unshared": (
        lambda: AlbertClassifier(CONFIG.replace(sharing="none"), 3, "mean", early_exit=True),
        MASK,
    ),
    "number, groups": (
        lambda: AlbertClassifier(
            CONFIG.replace(num_hidden_groups=2, inner_group_num=2), 1, early_exit=True, exit_threshold=0.5
        ),
        MASK,
    ),
    "options": (lambda: AlbertMultipleChoice(CONFIG, 2, early_exit=True), MASK.reshape(4, 2, 7)),
}


@pytest.fixture(scope="module", params=MODELS)
def case(request):
    """A model with exits, its inputs, and the logits [B, L, K] of all layers."""
    make, mask = MODELS[request.param]
    model, inputs = perturbed(make()), inputs_of(mask)
    return model, inputs, model(inputs)["exit_logits"].numpy()


def by_hand(logits, patience, threshold):
    """The layer from 1 at which a row [L, K] of logits leaves, as Zhou et al. 2020 write it."""
    agreed = 0
    for layer in range(1, len(logits)):
        if logits.shape[1] == 1:
            is_same = abs(logits[layer, 0] - logits[layer - 1, 0]) < threshold
        else:
            is_same = logits[layer].argmax() == logits[layer - 1].argmax()
        agreed = agreed + 1 if is_same else 0
        if agreed >= patience:
            return layer + 1
    return len(logits)


def test_logits_of_each_layer(case):
    model, inputs, logits = case
    if isinstance(model, AlbertMultipleChoice):
        inputs = {name: tf.reshape(x, [-1, x.shape[-1]]) for name, x in inputs.items()}
        logits = logits.transpose(0, 2, 1).reshape(-1, L, 1)
    inner = model.config.inner_group_num
    for layer, states in enumerate(model.encoder(inputs)["encoder_outputs"][inner - 1 :: inner]):
        if model.pooling == "mean":
            mask = inputs["input_mask"].numpy()[..., np.newaxis]
            state = (states.numpy() * mask).sum(1) / mask.sum(1)
        else:
            kernel, bias = model.encoder.pooler.weights
            state = np.tanh(states.numpy()[:, 0] @ kernel.numpy() + bias.numpy())
        weights, bias = (x[layer] for x in model.exits.weights) if layer < L - 1 else model.classifier.weights
        expected = state @ weights.numpy().T + bias.numpy()
        np.testing.assert_allclose(logits[:, layer], expected, atol=1e-5)


def test_examples_leave_where_they_do_by_hand(case):
    model, inputs, logits = case
    unknown = {name: tf.TensorSpec([None] * x.shape.rank, x.dtype) for name, x in inputs.items()}
    call = tf.function(functools.partial(call_with_early_exit, model), [unknown, tf.TensorSpec([], tf.int32)])
    seen = set()
    for patience in range(1, L + 1):
        expected = [by_hand(rows, patience, model.exit_threshold) for rows in logits]
        found = call(inputs, tf.constant(patience))
        np.testing.assert_array_equal(found["layers"], expected)
        rows = logits[np.arange(len(logits)), np.array(expected) - 1]
        np.testing.assert_allclose(found["logits"], rows, atol=5e-5)
        seen |= set(expected)
    assert len(seen) > 2
    np.testing.assert_allclose(found["logits"], model(inputs)["logits"], atol=5e-5)  # patience L
    # One patience for each, in one batch; less than 1 is as 1; a row alone answers the same.
    several = np.arange(len(logits)) % (L + 1)
    found = call_with_early_exit(model, inputs, several)
    expected = [
        by_hand(rows, max(p, 1), model.exit_threshold) for rows, p in zip(logits, several, strict=True)
    ]
    np.testing.assert_array_equal(found["layers"], expected)
    alone = call_with_early_exit(model, {name: x[1:2] for name, x in inputs.items()}, several[1:2])
    np.testing.assert_allclose(alone["logits"], found["logits"][1:2], atol=1e-5)
    nothing = call_with_early_exit(model, {name: x[:0] for name, x in inputs.items()}, 1)
    assert nothing["logits"].shape == (0, logits.shape[2])


def test_no_state_is_computed_of_who_has_left(dense_rows):
    make, _ = MODELS["labels"]
    layers = call_with_early_exit(perturbed(make()), inputs_of(MASK), 1)["layers"].numpy()
    lengths = MASK.sum(axis=1)
    expected = [lengths[layers > layer].sum() for layer in range(layers.max())]
    assert dense_rows == [n for n in expected for _ in range(4)] and expected[-1] < expected[0]


def test_refusals():
    model = AlbertClassifier(CONFIG, 2, early_exit=True)
    assert AlbertClassifier.from_config(model.get_config()).early_exit
    check_patience(3, has_exits=True)
    for patience, has_exits, xla, message in (
        (0, True, None, "patience=0 must be at least 1"),
        (1.5, True, None, "patience=1.5 must be a whole number"),
        (2, False, None, "patience=2: the model has no exits"),
        (2, True, True, "patience=2: XLA"),
    ):
        with pytest.raises(InputError, match=message):
            check_patience(patience, has_exits, xla)
    with pytest.raises(InputError, match="num_hidden_layers=1"):
        AlbertClassifier(CONFIG.replace(num_hidden_layers=1), 2, early_exit=True)


def test_exits_are_of_all_layers(case):
    model, inputs, _ = case
    if model.config.sharing == "all":
        with pytest.raises(InputError, match=f"num_hidden_layers=2: exits are of {L} layers"):
            model(inputs, num_hidden_layers=2)
