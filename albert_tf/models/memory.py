"""Saves memory by recomputing activations, and checks the memory before an encoder is built."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.models.sharing import parameter_count

# Numbers that training holds for each parameter: itself, its gradient, and the optimizer's two moments.
TRAINING_COPIES = 4

_SIZES = (
    "vocab_size",
    "max_position_embeddings",
    "type_vocab_size",
    "embedding_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
)


def check_memory(config: AlbertConfig, copies: int = 1) -> None:
    """Checks that the parameters of a network fit into the memory of this machine.

    Args:
      config: architecture of the network.
      copies: numbers held for each parameter, such as TRAINING_COPIES.
    Raises:
      InputError: they do not fit. The message names the sizes.
    """
    number = parameter_count(config)["total"]
    needed, memory = 4 * number * copies, physical_memory()
    if needed > memory:
        sizes = ", ".join(f"{name}={getattr(config, name)}" for name in _SIZES)
        where = " in training" if copies > 1 else ""
        raise InputError(
            f"{number:,} parameters take {needed / 1e9:,.1f} GB{where}, this machine has {memory / 1e9:,.1f} "
            f"GB of memory: make the network smaller, which has {sizes}"
        )


def physical_memory() -> int:
    """The memory of this machine, in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


# A function from hidden states [B·S, H], seeds and parameters to hidden states [B·S, H].
LayerFunction = Callable[[tf.Tensor, tuple[tf.Tensor, ...], Any], tf.Tensor]


def recompute(
    layer: LayerFunction, x: tf.Tensor, seeds: tuple[tf.Tensor, ...], parameters: Any
) -> tuple[tf.Tensor, Any]:
    """Computes layer(x, seeds, parameters), and keeps only these arguments for the backward pass.

    The next layer that shares the parameters must use the returned ones. In the backward pass each layer then
    adds its gradient to the one that comes from the next layer. So memory holds one sum, not the gradients of
    all layers.

    Args:
      layer: function of these arguments. It uses no variables, and nothing else that has a gradient.
      x: hidden states, [B·S, H].
      seeds: int32 tensors. They alone decide which elements dropout drops.
      parameters: nested structure of tensors.
    Returns:
      The hidden states, and the parameters for the next layer.
    Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", with one segment per layer.
    Note: Only first derivatives exist. A second derivative raises LookupError.
    """

    def apply(x: tf.Tensor, seeds: tuple[tf.Tensor, ...], flat: list[tf.Tensor]) -> tf.Tensor:
        return layer(x, seeds, tf.nest.pack_sequence_as(parameters, flat))

    @tf.custom_gradient
    def forward(*arguments: tf.Tensor) -> tuple[list[tf.Tensor], Callable]:
        def backward(gradient: tf.Tensor, *sums: tf.Tensor) -> list[tf.Tensor]:
            x, *flat = (tf.raw_ops.PreventGradient(input=t, message=_NO_SECOND_DERIVATIVE) for t in arguments)
            x, *delayed_seeds = _delay_until((gradient, *sums), (x, *seeds))
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch([x, *flat])
                y = apply(x, tuple(delayed_seeds), flat)
            x_gradient, *flat_gradients = tape.gradient(
                y, [x, *flat], gradient, unconnected_gradients=tf.UnconnectedGradients.ZERO
            )
            return [x_gradient, *map(tf.add, sums, flat_gradients)]

        # Otherwise a tape that is open now would record the layer and keep its activations.
        x, *flat = map(tf.stop_gradient, arguments)
        return [apply(x, seeds, flat), *flat], backward

    y, *flat = forward(x, *tf.nest.flatten(parameters))
    return y, tf.nest.pack_sequence_as(parameters, flat)


_NO_SECOND_DERIVATIVE = (
    "recomputed layers have no second derivative; build the model with remat=False for one"
)


def _delay_until(done: tuple[tf.Tensor, ...], tensors: tuple[tf.Tensor, ...]) -> list[tf.Tensor]:
    """Returns the tensors, but makes them depend on `done`.

    Results of the returned tensors cannot be computed before `done`. Neither TensorFlow's graph optimizer nor
    XLA can merge them with the same results of the forward pass. Since each sum of gradients is read here,
    the optimizer cannot merge a chain of such sums into one sum that waits for all gradients.
    """
    total = tf.add_n([tf.reduce_sum(tf.cast(tf.reshape(t, [-1])[:1], tf.float32)) for t in done])
    never = tf.math.is_nan(total) & tf.math.is_inf(total)  # always False, but no compiler knows that
    return [tensor + tf.cast(never, tensor.dtype) for tensor in tensors]
