"""Gradient checkpointing: a layer's activations are computed again in the backward pass, not kept for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

# Hidden states [B·S, H], seeds and parameters to hidden states [B·S, H].
Computation = Callable[[tf.Tensor, tuple[tf.Tensor, ...], Any], tf.Tensor]


def recomputed(
    layer: Computation, x: tf.Tensor, seeds: tuple[tf.Tensor, ...], parameters: Any
) -> tuple[tf.Tensor, Any]:
    """layer(x, seeds, parameters), of which only the arguments are kept for the backward pass.

    The parameters are returned, too, for the next layer that uses them. On the way back their gradient then
    comes from that layer, and this one adds its own to it: one sum lives, where L layers that shared a tensor
    would leave L gradients to be added up at the end.

    Args:
      layer: a function of these arguments that uses no variables, and nothing else that has a gradient.
      x: [B·S, H].
      seeds: int32 tensors, which alone decide what is dropped.
      parameters: any nested structure of tensors.
    Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", with a segment a layer.
    Note: It has a first derivative only; to ask for a second raises LookupError.
    """

    def apply(x: tf.Tensor, seeds: tuple[tf.Tensor, ...], flat: list[tf.Tensor]) -> tf.Tensor:
        return layer(x, seeds, tf.nest.pack_sequence_as(parameters, flat))

    @tf.custom_gradient
    def forward(*arguments: tf.Tensor) -> tuple[list[tf.Tensor], Callable]:
        def backward(gradient: tf.Tensor, *sums: tf.Tensor) -> list[tf.Tensor]:
            x, *flat = (tf.raw_ops.PreventGradient(input=t, message=FIRST_ONLY) for t in arguments)
            x, *seeds_again = _after((gradient, *sums), (x, *seeds))
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch([x, *flat])
                y = apply(x, tuple(seeds_again), flat)
            of_x, *of_flat = tape.gradient(
                y, [x, *flat], gradient, unconnected_gradients=tf.UnconnectedGradients.ZERO
            )
            return [of_x, *map(tf.add, sums, of_flat)]

        # No tape that is open now shall record the layer: it would keep the activations.
        x, *flat = map(tf.stop_gradient, arguments)
        return [apply(x, seeds, flat), *flat], backward

    y, *handed_on = forward(x, *tf.nest.flatten(parameters))
    return y, tf.nest.pack_sequence_as(parameters, handed_on)


FIRST_ONLY = "recomputed layers have no second derivative; build the model with remat=False for one"


def _after(done: tuple[tf.Tensor, ...], tensors: tuple[tf.Tensor, ...]) -> list[tf.Tensor]:
    """The tensors, but as results that depend on `done`.

    What is computed from them cannot be computed earlier, nor be taken for what the forward pass computed
    from the tensors themselves: neither TensorFlow's graph optimizer nor XLA merges the two. Nor does the
    optimizer turn a chain of additions, each of which is looked at here, into one that waits for all.
    """
    look = tf.add_n([tf.reduce_sum(tf.cast(tf.reshape(t, [-1])[:1], tf.float32)) for t in done])
    never = tf.math.is_nan(look) & tf.math.is_inf(look)  # never true, which no compiler finds out
    return [tensor + tf.cast(never, tensor.dtype) for tensor in tensors]
