"""Chains of elementwise operations, compiled to a loop each: an operation alone is a way through memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from albert_tf.model.layer import ACTIVATIONS, layer_norm

Function = Callable[..., tf.Tensor]


class Elementwise(NamedTuple):
    """What a layer computes between its matrix products."""

    activation: Function  # [R, I] to [R, I]
    layer_norm: Function  # [R, H], gamma [H] and beta [H] to [R, H]


@functools.cache
def elementwise(hidden_act: str, epsilon: float, *, is_fused: bool) -> Elementwise:
    """These functions of a network, the same ones for the same arguments, so that each is compiled once.

    Args:
      hidden_act: name of the activation.
      epsilon: of the LayerNorms.
      is_fused: for training: each is `fused`. Without it TensorFlow's graph optimizer joins the activation
        with the product before it, which is quicker where nothing has to be kept for a backward pass.
    """
    functions = Elementwise(ACTIVATIONS[hidden_act], functools.partial(layer_norm, epsilon=epsilon))
    return Elementwise(*map(fused, functions)) if is_fused else functions


def fused(function: Function) -> Function:
    """The function, compiled by XLA; so is its gradient, for which it keeps nothing but its arguments.

    Args:
      function: of a float tensor and others, to one in the type of the first; it uses no variables.
    Returns:
      The same function, but for rounding: it computes in float32. XLA compiles it once for each shape.
    """

    def wide(x: tf.Tensor, *others: tf.Tensor) -> tf.Tensor:
        return tf.cast(function(tf.cast(x, tf.float32), *others), x.dtype)

    def gradients(arguments: list[tf.Tensor], gradient: tf.Tensor) -> list[tf.Tensor | None]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([argument for argument in arguments if argument.dtype.is_floating])
            y = wide(*arguments)
        return tape.gradient(y, arguments, gradient)

    forward, backward = (
        tf.function(computation, jit_compile=True, autograph=False) for computation in (wide, gradients)
    )

    @tf.custom_gradient
    def apply(*arguments: tf.Tensor) -> tuple[tf.Tensor, Function]:
        return forward(*arguments), lambda gradient: backward(list(arguments), gradient)

    return apply
