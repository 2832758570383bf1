"""The functions that a layer of the network computes, and Keras layers that hold a pair of variables."""

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

    `tf.nn.gelu` computes it by `Erfc`, which ONNX has no operation for.
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
# Of dropout: int32 [2], which alone decides what is dropped; None drops nothing.
Seed: TypeAlias = tf.Tensor | None

# By XLA, once for each shape.
compile_with_xla = functools.partial(tf.function, jit_compile=True, autograph=False)


def dense(x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Rows [R, I] times kernel [I, O] plus bias [O], in the type of x."""
    return tf.nn.bias_add(tf.matmul(x, tf.cast(kernel, x.dtype)), tf.cast(bias, x.dtype))


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Rows [..., W] of mean 0 and variance 1, times gamma [W] plus beta [W], computed in float32.

    Source: Ba et al. 2016, eq. 4.
    """
    wide, gamma, beta = (tf.cast(tensor, tf.float32) for tensor in (x, gamma, beta))
    centred = wide - tf.reduce_mean(wide, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)  # [..., 1]
    return tf.cast(centred * tf.math.rsqrt(variance + epsilon) * gamma + beta, x.dtype)


def dropout(x: tf.Tensor, rate: float, seed: Seed) -> tf.Tensor:
    """Sets a share `rate` of the elements to 0 and scales the others by 1 / (1 - rate).

    Args:
      x: any shape.
      rate: probability of an element to be dropped.
      seed: int32 [2], which alone decides the elements; None drops nothing. XLA draws other numbers from it
        than TensorFlow's kernels do.
    """
    if seed is None or rate == 0:
        return x
    # In float32, since bfloat16 has too few numbers below 1 to meet the rate; and from a generator that is
    # named, since compiled code that has to find one out takes a hundred times as long.
    keep = tf.random.stateless_uniform(tf.shape(x), seed, alg="philox") >= rate
    return tf.where(keep, x / (1 - rate), tf.zeros([], x.dtype))


def draw_seed(seed: Seed) -> tf.Tensor:
    """The seed itself, int32 [2], or a random one for None."""
    return tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32) if seed is None else seed


def attention_bias(mask: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """The bias [B, 1, 1, S] of the attention's scores, by a mask [B, S] of 1 for tokens and 0 for padding."""
    return ((1 - tf.cast(mask, dtype)) * MASKED_SCORE)[:, tf.newaxis, tf.newaxis, :]


def biased_softmax(scores: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """The attention's probabilities of scores [B, N, S, S] and bias [B, 1, 1, S], computed in float32."""
    return tf.cast(tf.nn.softmax(tf.cast(scores + bias, tf.float32)), scores.dtype)


def attention_probabilities(
    query: tf.Tensor, key: tf.Tensor, bias: tf.Tensor, softmax: TensorFunction = biased_softmax
) -> tf.Tensor:
    """softmax(Q · Kᵀ / √D + bias), [B, N, S, S]: of each token the weights of all tokens, which sum to 1.

    Query and key are [B, N, S, D], the bias is that of `attention_bias`.
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

    Query, key, value and result are [B, N, S, D], the bias is that of `attention_bias`, the seed that of
    `dropout`.

    Source: Vaswani et al. 2017, eq. 1.
    """
    probabilities = attention_probabilities(query, key, bias, softmax)  # [B, N, S, S]
    return tf.matmul(dropout(probabilities, dropout_rate, seed), value)  # [B, N, S, D]


class LayerOps(NamedTuple):
    """The functions of a layer between its matrix products."""

    activation: TensorFunction  # [R, I] to [R, I]
    layer_norm: TensorFunction  # [R, H], gamma [H] and beta [H] to [R, H]
    softmax: TensorFunction  # scores [B, N, S, S] and bias [B, 1, 1, S] to probabilities [B, N, S, S]


@functools.cache
def layer_ops(hidden_act: str, epsilon: float, *, is_fused: bool) -> LayerOps:
    """The elementwise functions of a network; kept, so that each is compiled once.

    With `is_fused`, for training, each is compiled by XLA. Without, TensorFlow's graph optimizer joins the
    activation with the product before it, which is quicker in inference.
    """
    activation, norm = ACTIVATIONS[hidden_act], functools.partial(layer_norm, epsilon=epsilon)
    if is_fused:
        return LayerOps(fuse(activation), fuse(norm), fused_softmax)
    return LayerOps(activation, norm, biased_softmax)


def fuse(function: TensorFunction) -> TensorFunction:
    """The function, compiled by XLA, in float32; so is its gradient, for which it keeps only its arguments.

    One loop through memory then takes the place of one for each operation, which is what costs time on CPUs.

    Args:
      function: of a float tensor and others, to one in the type of the first; it uses no variables.
    """

    def wide(x: tf.Tensor, *others: tf.Tensor) -> tf.Tensor:
        return tf.cast(function(tf.cast(x, tf.float32), *others), x.dtype)

    def gradients(arguments: list[tf.Tensor], gradient: tf.Tensor) -> list[tf.Tensor | None]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([argument for argument in arguments if argument.dtype.is_floating])
            y = wide(*arguments)
        return tape.gradient(y, arguments, gradient)

    forward, backward = compile_with_xla(wide), compile_with_xla(gradients)

    @tf.custom_gradient
    def apply(*arguments: tf.Tensor) -> tuple[tf.Tensor, TensorFunction]:
        return forward(*arguments), lambda gradient: backward(list(arguments), gradient)

    return apply


_forward_softmax = compile_with_xla(biased_softmax)


@compile_with_xla
def _backward_softmax(probabilities: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
    p, g = (tf.cast(tensor, tf.float32) for tensor in (probabilities, gradient))
    return tf.cast(p * (g - tf.reduce_sum(p * g, axis=-1, keepdims=True)), gradient.dtype)


@tf.custom_gradient
def fused_softmax(scores: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """`biased_softmax`, compiled by XLA; so is its gradient, for which it keeps what it returns.

    The product behind it keeps that, too. The bias has no gradient.
    """
    probabilities = _forward_softmax(scores, bias)
    return probabilities, lambda gradient: (_backward_softmax(probabilities, gradient), None)


class Layer(keras.layers.Layer):
    """Base class of layers, whose variables exist after construction, in float32 under every policy.

    The functions above cast what they read: a graph traced from them needs nothing of Keras.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        self.built = True  # counting and summary need no first call

    def add_weight(self, name: str, shape: Sequence[int], initializer: Any) -> tf.Variable:
        """A float32 variable."""
        return super().add_weight(name, shape, tf.float32, initializer, experimental_autocast=False)

    def parameters(self) -> Any:
        """The variables as tensors, to be read once for all layers that share them."""
        return tuple(tf.convert_to_tensor(variable) for variable in self.weights)


class DenseLayer(Layer):
    """Rows [R, I] to rows [R, O], by variables `<scope>/kernel` [I, O] and `<scope>/bias` [O]."""

    def __init__(self, scope: str, inputs: int, outputs: int, config: AlbertConfig, **kwargs: Any):
        super().__init__(name=scope.rpartition("/")[2], **kwargs)
        self.kernel = self.add_weight(f"{scope}/kernel", [inputs, outputs], kernel_initializer(config))
        self.bias = self.add_weight(f"{scope}/bias", [outputs], "zeros")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """`dense`."""
        return dense(x, self.kernel, self.bias)


class LayerNorm(Layer):
    """LayerNorm of [..., W], by variables `<scope>/gamma` [W] and `<scope>/beta` [W]."""

    def __init__(self, scope: str, width: int, config: AlbertConfig, **kwargs: Any):
        super().__init__(name=scope.rpartition("/")[2], **kwargs)
        self.epsilon = config.layer_norm_eps
        self.gamma = self.add_weight(f"{scope}/gamma", [width], "ones")
        self.beta = self.add_weight(f"{scope}/beta", [width], "zeros")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """`layer_norm`."""
        return layer_norm(x, self.gamma, self.beta, self.epsilon)


def kernel_initializer(config: AlbertConfig) -> keras.initializers.Initializer:
    """A new initializer of kernels and embeddings: one each, since an unseeded one repeats itself."""
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)
