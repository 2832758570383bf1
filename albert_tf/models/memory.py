"""Memory: recomputation of activations, and a check before an encoder is built."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.models.sharing import parameter_count

# What training holds of each parameter: itself, its gradient, and the optimizer's two running means.
TRAINING = 4

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
    """Refuses a network whose parameters alone exceed the memory of this machine.

    Args:
      config: the network's shape.
      copies: numbers held of each parameter, such as TRAINING.
    Raises:
      InputError: they do; it names the sizes.
    """
    number = parameter_count(config)["total"]
    needed, memory = 4 * number * copies, physical_memory()
    if needed > memory:
        sizes = ", ".join(f"{name}={getattr(config, name)}" for name in _SIZES)
        copy = " in training" if copies > 1 else ""
        raise InputError(
            f"{number:,} parameters take {needed / 1e9:,.1f} GB{copy}, this machine has {memory / 1e9:,.1f} "
            f"GB of memory: make the network smaller, which has {sizes}"
        )


def physical_memory() -> int:
    """The memory of this machine, in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


# Hidden states [B·S, H], seeds and parameters to hidden states [B·S, H].
Computation = Callable[[tf.Tensor, tuple[tf.Tensor, ...], Any], tf.Tensor]


def recompute(
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
