"""The mathematics of a layer in NumPy, written out by hand, values to try it with, and recorded gradients."""

import math

import numpy as np
import tensorflow as tf

from tests.tiny import TINY


def numpy_layer_norm(x, gamma, beta, epsilon):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * gamma + beta


def numpy_gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def numpy_softmax(x):
    """Over the last axis."""
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def numpy_attention(query, key, value, mask):
    """[B, N, S, D] each and mask [B, S]: padding is left out of the softmax altogether."""
    context = np.zeros(query.shape)
    for b in range(query.shape[0]):
        tokens = mask[b].astype(bool)
        for n in range(query.shape[1]):
            scores = query[b, n] @ key[b, n][tokens].T / math.sqrt(query.shape[-1])
            context[b, n] = numpy_softmax(scores) @ value[b, n][tokens]
    return context


def float32(*arrays):
    return [tf.constant(array, tf.float32) for array in arrays]


def randomize(module, rng):
    """Gives every variable a value, no bias of zero and no gain of one; returns them by name, float64."""
    values = {}
    for variable in module.variables:
        variable.assign(rng.normal(0.3, 0.4, variable.shape))
        values[variable.name.removesuffix(":0").removeprefix("scope/")] = variable.numpy().astype(float)
    return values


def perturbed(model, scale=0.1):
    """The model itself, once it uses every variable: no bias is zero and no gain one."""
    rng = np.random.default_rng(3)
    for variable in model.variables:
        variable.assign_add(rng.normal(0, scale, variable.shape))
    return model


def checkpoint_name(variable):
    """The name in google-research/albert's checkpoints."""
    name = variable.name.removesuffix(":0")
    heads = ("cls/", "start_logits/", "end_logits/", "answer_class/")
    return name if name.startswith(heads) else f"bert/{name}"


def check_gradients(names, gradients, recorded):
    """Each is the recorded one; of a variable that has none, none is recorded.

    Args:
      names: the names of the variables in google-research's checkpoints.
      gradients: of these variables, None where there is none.
      recorded: arrays, among them `grad:` and a name.
    """
    found = {f"grad:{name}": g for name, g in zip(names, gradients, strict=True) if g is not None}
    assert found.keys() == {name for name in recorded if name.startswith("grad:")}
    for name, gradient in found.items():
        dense = tf.convert_to_tensor(gradient)
        np.testing.assert_allclose(dense, recorded[name], rtol=0, atol=1e-4, err_msg=name)


NAMES = ("input_word_ids", "input_mask", "input_type_ids")


def inputs_of(mask):
    """Random inputs of a network with that mask."""
    rng = np.random.default_rng(4)
    ids, types = (
        rng.integers(low, high, mask.shape, np.int32) for low, high in ((5, TINY.vocab_size), (0, 2))
    )
    return dict(zip(NAMES, map(tf.constant, (ids, mask, types)), strict=True))
