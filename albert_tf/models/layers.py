"""The functions that a layer of the network computes, and the Keras layers that hold their variables."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf
import tf_keras as keras

from albert_tf.config import AlbertConfig


def gelu_erf(x: tf.Tensor) -> tf.Tensor:
    """GELU, x · Φ(x) with the normal distribution Φ.

    Unlike `tf.nn.gelu` it does not use `Erfc`, which ONNX does not have.
    Source: Hendrycks and Gimpel 2016, §2.
    """
    return 0.5 * x * (1.0 + tf.math.erf(x * math.sqrt(0.5)))


ACTIVATIONS = {
    "gelu": functools.partial(tf.nn.gelu, approximate=True),
    "gelu_erf": gelu_erf,
    "relu": tf.nn.relu,
    "tanh": tf.tanh,
    "linear": tf.identity,
}

# Added to the scores of padding: exp(-10000) is 0 in every float type, and float16 holds it.
MASKED_SCORE = -10000.0

# Kernel [I, O] and bias [O] of a dense layer, or gamma [W] and beta [W] of a LayerNorm.
DenseWeights = tuple[tf.Tensor, tf.Tensor]
TensorFunction = Callable[..., tf.Tensor]
# The seed of dropout, int32 [2]. It alone decides which elements are dropped. None: no dropout.
Seed: TypeAlias = tf.Tensor | None

# XLA compiles once for each shape.
compile_with_xla = functools.partial(tf.function, jit_compile=True, autograph=False)

# For functions with a gradient of their own: where a SavedModel is written, AutoGraph would unwrap them.
do_not_convert = tf.autograph.experimental.do_not_convert


def dense(x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Rows [R, I] times kernel [I, O] plus bias [O], in the type of x."""
    return tf.nn.bias_add(tf.matmul(x, tf.cast(kernel, x.dtype)), tf.cast(bias, x.dtype))


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Normalizes rows [..., W] to mean 0 and variance 1, times gamma [W] plus beta [W], in float32.

    Source: Ba et al. 2016, eq. 4.
    """
    wide, gamma, beta = (tf.cast(tensor, tf.float32) for tensor in (x, gamma, beta))
    centred = wide - tf.reduce_mean(wide, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)  # [..., 1]
    return tf.cast(centred * tf.math.rsqrt(variance + epsilon) * gamma + beta, x.dtype)


def dropout(x: tf.Tensor, rate: float, seed: Seed) -> tf.Tensor:
    """Sets a share `rate` of the elements to 0 and scales the others by 1 / (1 - rate).

    Args:
      x: tensor of any shape.
      rate: probability that an element is dropped.
      seed: int32 [2]. It alone decides which elements are dropped. With XLA it drops other ones than without.
        None: no dropout.
    """
    if seed is None or rate == 0:
        return x
    # In float32, since bfloat16 has too few numbers below 1 to meet the rate. With a named generator, since
    # compiled code that has to choose one takes a hundred times as long.
    keep = tf.random.stateless_uniform(tf.shape(x), seed, alg="philox") >= rate
    return tf.where(keep, x / (1 - rate), tf.zeros([], x.dtype))


def draw_seed(seed: Seed) -> tf.Tensor:
    """Returns the seed itself, int32 [2]. None: a random seed."""
    return tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32) if seed is None else seed


def attention_bias(mask: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """The bias of attention scores, [B, 1, 1, S], from a mask [B, S], 1 for tokens and 0 for padding."""
    return ((1 - tf.cast(mask, dtype)) * MASKED_SCORE)[:, tf.newaxis, tf.newaxis, :]


def biased_softmax(scores: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Attention probabilities from scores [B, N, S, S] and bias [B, 1, 1, S], computed in float32."""
    return tf.cast(tf.nn.softmax(tf.cast(scores + bias, tf.float32)), scores.dtype)


def attention_probabilities(
    query: tf.Tensor, key: tf.Tensor, bias: tf.Tensor, softmax: TensorFunction = biased_softmax
) -> tf.Tensor:
    """softmax(Q · Kᵀ / √D + bias), [B, N, S, S]: each token's weights of all tokens, which sum to 1.

    Args:
      query: [B, N, S, D].
      key: [B, N, S, D].
      bias: [B, 1, 1, S], from `attention_bias`.
      softmax: function from scores and bias to probabilities.
    """
    scores = tf.matmul(query * (1 / math.sqrt(query.shape[-1])), key, transpose_b=True)  # [B, N, S, S]
    return softmax(scores, bias)


def attention(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    bias: tf.Tensor,
    dropout_rate: float = 0.0,
    seed: Seed = None,
    softmax: TensorFunction = biased_softmax,
) -> tf.Tensor:
    """softmax(Q · Kᵀ / √D + bias) · V, with dropout of the probabilities.

    Query, key, value and result are [B, N, S, D]. `dropout_rate` and `seed` go to `dropout`, the other
    arguments to `attention_probabilities`.

    Source: Vaswani et al. 2017, eq. 1.
    """
    probabilities = attention_probabilities(query, key, bias, softmax)  # [B, N, S, S]
    return tf.matmul(dropout(probabilities, dropout_rate, seed), value)  # [B, N, S, D]


class LayerOps(NamedTuple):
    """The functions that a layer applies between its matrix products."""

    activation: TensorFunction  # [R, I] to [R, I]
    layer_norm: TensorFunction  # [R, H], gamma [H] and beta [H] to [R, H]
    softmax: TensorFunction  # scores [B, N, S, S] and bias [B, 1, 1, S] to probabilities [B, N, S, S]


@functools.cache
def layer_ops(hidden_act: str, epsilon: float, *, is_fused: bool) -> LayerOps:
    """The elementwise functions of a network. They are cached, so that each is compiled once.

    With `is_fused` XLA compiles each of them, for training. Without it, TensorFlow's graph optimizer fuses
    the activation with the matrix product before it, which is faster in inference.
    """
    activation, norm = ACTIVATIONS[hidden_act], functools.partial(layer_norm, epsilon=epsilon)
    if is_fused:
        return LayerOps(fuse(activation), fuse(norm), fused_softmax)
    return LayerOps(activation, norm, biased_softmax)


def fuse(function: TensorFunction) -> TensorFunction:
    """Compiles a function and its gradient with XLA, in float32. The gradient needs only the arguments.

    The compiled code loops through memory once, not once per operation, which is faster on CPUs.

    Args:
      function: function from a float tensor, and others, to a tensor of the first one's type. It must not use
        variables.
    """

    def compute_in_float32(x: tf.Tensor, *others: tf.Tensor) -> tf.Tensor:
        return tf.cast(function(tf.cast(x, tf.float32), *others), x.dtype)

    def gradients(arguments: list[tf.Tensor], gradient: tf.Tensor) -> list[tf.Tensor | None]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([argument for argument in arguments if argument.dtype.is_floating])
            y = compute_in_float32(*arguments)
        return tape.gradient(y, arguments, gradient)

    forward, backward = compile_with_xla(compute_in_float32), compile_with_xla(gradients)

    @do_not_convert
    @tf.custom_gradient
    def apply(*arguments: tf.Tensor) -> tuple[tf.Tensor, TensorFunction]:
        return forward(*arguments), lambda gradient: backward(list(arguments), gradient)

    return apply


_forward_softmax = compile_with_xla(biased_softmax)


@compile_with_xla
def _backward_softmax(probabilities: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
    p, g = (tf.cast(tensor, tf.float32) for tensor in (probabilities, gradient))
    return tf.cast(p * (g - tf.reduce_sum(p * g, axis=-1, keepdims=True)), gradient.dtype)


@do_not_convert
@tf.custom_gradient
def fused_softmax(scores: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """`biased_softmax`, compiled by XLA together with its gradient. The bias has no gradient.

    The gradient needs only the probabilities, which the matrix product after the softmax keeps anyway.
    """
    probabilities = _forward_softmax(scores, bias)
    return probabilities, lambda gradient: (_backward_softmax(probabilities, gradient), None)


def sizes(x: tf.Tensor) -> list[Any]:
    """The sizes of a tensor's axes: numbers where they are known, else int32 [] of the graph."""
    dynamic = tf.shape(x)
    return [size or dynamic[axis] for axis, size in enumerate(x.shape)]


class Layer(keras.layers.Layer):
    """Base class of layers. Variables exist after construction and are float32 under every dtype policy.

    The functions above cast variables to the compute type, so that a graph does not depend on Keras.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        self.built = True  # count_params and summary then work before the first call

    def add_weight(self, name: str, shape: Sequence[int], initializer: Any) -> tf.Variable:
        """Adds a float32 variable."""
        return super().add_weight(name, shape, tf.float32, initializer, experimental_autocast=False)

    def parameters(self) -> Any:
        """The variables as tensors, so that layers that share them read them once."""
        return tuple(tf.convert_to_tensor(variable) for variable in self.weights)


class DenseLayer(Layer):
    """A dense layer, [R, I] to [R, O], with variables `<scope>/kernel` [I, O] and `<scope>/bias` [O]."""

    def __init__(self, scope: str, inputs: int, outputs: int, config: AlbertConfig, **kwargs: Any):
        super().__init__(name=scope.rpartition("/")[2], **kwargs)
        self.kernel = self.add_weight(f"{scope}/kernel", [inputs, outputs], kernel_initializer(config))
        self.bias = self.add_weight(f"{scope}/bias", [outputs], "zeros")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Computes `dense`."""
        return dense(x, self.kernel, self.bias)


class LayerNorm(Layer):
    """LayerNorm of [..., W], with variables `<scope>/gamma` [W] and `<scope>/beta` [W]."""

    def __init__(self, scope: str, width: int, config: AlbertConfig, **kwargs: Any):
        super().__init__(name=scope.rpartition("/")[2], **kwargs)
        self.epsilon = config.layer_norm_eps
        self.gamma = self.add_weight(f"{scope}/gamma", [width], "ones")
        self.beta = self.add_weight(f"{scope}/beta", [width], "zeros")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Computes `layer_norm`."""
        return layer_norm(x, self.gamma, self.beta, self.epsilon)


def kernel_initializer(config: AlbertConfig) -> keras.initializers.Initializer:
    """A new initializer for a kernel or an embedding. Not shared: an unseeded one repeats its numbers."""
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)
