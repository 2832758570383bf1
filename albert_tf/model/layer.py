"""One layer of the network: an attention block and a feed-forward block on hidden states [B·S, H].

Between blocks the hidden states are a matrix: MatMul, BiasAdd and the activation behind it are what
TensorFlow's graph optimizer fuses, and it does so for matrices only.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras as keras

from albert_tf.config import AlbertConfig

ACTIVATIONS = {
    "gelu": functools.partial(tf.nn.gelu, approximate=True),
    "gelu_erf": functools.partial(tf.nn.gelu, approximate=False),
    "relu": tf.nn.relu,
    "tanh": tf.tanh,
    "linear": tf.identity,
}

# Added to the scores of padding: exp(-10000) is 0 in every float type, and float16 holds it.
MASKED_SCORE = -10000.0

# Variables are float32 under every policy, and the functions below cast what they read: a graph traced
# from them needs nothing of Keras.
FLOAT32_VARIABLE = {"dtype": tf.float32, "experimental_autocast": False}


def dense(x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Rows [R, I] times kernel [I, O] plus bias [O], in the type of x."""
    return tf.nn.bias_add(tf.matmul(x, tf.cast(kernel, x.dtype)), tf.cast(bias, x.dtype))


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Rows of mean 0 and variance 1, times gamma plus beta, computed in float32.

    Args:
      x: [..., W] of any float type.
      gamma: [W] of any float type.
      beta: the same.
      epsilon: added to the variance.
    Returns:
      [..., W] in the type of x.
    Source: Ba et al. 2016, eq. 4.
    """
    wide, gamma, beta = (tf.cast(tensor, tf.float32) for tensor in (x, gamma, beta))
    mean, variance = tf.nn.moments(wide, axes=[-1], keepdims=True)  # [..., 1]
    return tf.cast(tf.nn.batch_normalization(wide, mean, variance, beta, gamma, epsilon), x.dtype)


def dropout(x: tf.Tensor, rate: float, seed: tf.Tensor | None) -> tf.Tensor:
    """Sets a share `rate` of the elements to 0 and scales the others by 1 / (1 - rate).

    Args:
      x: any shape.
      rate: probability of an element to be dropped.
      seed: int32 [2], which alone decides the elements; None drops nothing.
    Returns:
      A tensor like x. XLA compiles the generator to other numbers than TensorFlow's kernels draw.
    """
    if seed is None or rate == 0:
        return x
    # In float32, since bfloat16 has too few numbers below 1 to meet the rate; and from a generator that is
    # named, since compiled code that has to find one out takes a hundred times as long.
    keep = tf.random.stateless_uniform(tf.shape(x), seed, alg="philox") >= rate
    return tf.where(keep, x / (1 - rate), tf.zeros([], x.dtype))


def attention_bias(mask: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """What is added to the attention's scores: 0 for tokens, MASKED_SCORE for padding.

    Args:
      mask: [B, S], 1 for tokens and 0 for padding.
      dtype: float type of the scores.
    Returns:
      [B, 1, 1, S].
    """
    return ((1 - tf.cast(mask, dtype)) * MASKED_SCORE)[:, tf.newaxis, tf.newaxis, :]  # [B, 1, 1, S]


def attention(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    bias: tf.Tensor,
    dropout_rate: float = 0.0,
    seed: tf.Tensor | None = None,
) -> tf.Tensor:
    """softmax(Q · Kᵀ / √D + bias) · V, the softmax in float32.

    Args:
      query: [B, N, S, D].
      key: [B, N, S, D].
      value: [B, N, S, D].
      bias: [B, 1, 1, S], as `attention_bias` makes it.
      dropout_rate: of the probabilities.
      seed: int32 [2] of that dropout; None drops nothing.
    Returns:
      [B, N, S, D].
    Source: Vaswani et al. 2017, eq. 1.
    """
    scores = tf.matmul(query * (1 / math.sqrt(query.shape[-1])), key, transpose_b=True)  # [B, N, S, S]
    probabilities = tf.nn.softmax(tf.cast(scores + bias, tf.float32))
    probabilities = dropout(tf.cast(probabilities, value.dtype), dropout_rate, seed)
    return tf.matmul(probabilities, value)  # [B, N, S, D]


class Dense(keras.layers.Layer):
    """A dense layer whose variables are `<scope>/kernel` [I, O] and `<scope>/bias` [O]."""

    def __init__(self, scope: str, inputs: int, outputs: int, config: AlbertConfig, **kwargs: Any):
        super().__init__(name=scope.rpartition("/")[2], autocast=False, **kwargs)
        self.kernel = self.add_weight(
            f"{scope}/kernel", [inputs, outputs], initializer=kernel_initializer(config), **FLOAT32_VARIABLE
        )
        self.bias = self.add_weight(f"{scope}/bias", [outputs], initializer="zeros", **FLOAT32_VARIABLE)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Rows [R, I] to rows [R, O]."""
        return dense(x, self.kernel, self.bias)


class LayerNorm(keras.layers.Layer):
    """A LayerNorm whose variables are `<scope>/gamma` [W] and `<scope>/beta` [W]."""

    def __init__(self, scope: str, width: int, config: AlbertConfig, **kwargs: Any):
        super().__init__(name=scope.rpartition("/")[2], autocast=False, **kwargs)
        self.epsilon = config.layer_norm_eps
        self.gamma = self.add_weight(f"{scope}/gamma", [width], initializer="ones", **FLOAT32_VARIABLE)
        self.beta = self.add_weight(f"{scope}/beta", [width], initializer="zeros", **FLOAT32_VARIABLE)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """[..., W] to [..., W]."""
        return layer_norm(x, self.gamma, self.beta, self.epsilon)


def kernel_initializer(config: AlbertConfig) -> keras.initializers.Initializer:
    """A new initializer of kernels and embeddings: one each, since an unseeded one repeats itself."""
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


class QueryKeyValue(NamedTuple):
    """The projections to queries, keys and values as one: kernel [H, 3H] and bias [3H]."""

    kernel: tf.Tensor
    bias: tf.Tensor


class AttentionBlock(keras.layers.Layer):
    """Self-attention, a dense layer, dropout, and the LayerNorm that closes the block.

    Args:
      scope: variable scope, such as `encoder/transformer/group_0/inner_group_0`.
      config: the network's shape.
    """

    def __init__(self, scope: str, config: AlbertConfig, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        self.config = config
        width = config.hidden_size
        self.query = Dense(f"{scope}/attention_1/self/query", width, width, config)
        self.key = Dense(f"{scope}/attention_1/self/key", width, width, config)
        self.value = Dense(f"{scope}/attention_1/self/value", width, width, config)
        self.output_dense = Dense(f"{scope}/attention_1/output/dense", width, width, config)
        self.layer_norm = LayerNorm(f"{scope}/LayerNorm", width, config)

    def query_key_value(self, dtype: tf.DType) -> QueryKeyValue:
        """The three projections joined, once for all layers that share this block."""
        parts = (self.query, self.key, self.value)
        return QueryKeyValue(
            kernel=tf.concat([tf.cast(part.kernel, dtype) for part in parts], axis=1),  # [H, 3H]
            bias=tf.concat([tf.cast(part.bias, dtype) for part in parts], axis=0),  # [3H]
        )

    def call(
        self, x: tf.Tensor, query_key_value: QueryKeyValue, bias: tf.Tensor, seeds: tuple | None = None
    ) -> tf.Tensor:
        """Hidden states before the block to those behind it.

        Args:
          x: [B·S, H].
          query_key_value: what `query_key_value` returned in this call of the model.
          bias: [B, 1, 1, S], as `attention_bias` makes it.
          seeds: two int32 [2], of the probabilities' dropout and of the output's; None drops nothing.
        Returns:
          [B·S, H].
        """
        config = self.config
        probabilities_seed, output_seed = seeds or (None, None)
        batch, length = tf.shape(bias)[0], tf.shape(bias)[3]
        heads, head_size = config.num_attention_heads, config.hidden_size // config.num_attention_heads
        joined = dense(x, *query_key_value)  # [B·S, 3H]
        joined = tf.reshape(joined, [batch, length, 3, heads, head_size])  # [B, S, 3, N, D]
        query, key, value = tf.unstack(tf.transpose(joined, [2, 0, 3, 1, 4]))  # [B, N, S, D] each
        context = attention(query, key, value, bias, config.attention_probs_dropout_prob, probabilities_seed)
        context = tf.transpose(context, [0, 2, 1, 3])  # [B, S, N, D]
        context = tf.reshape(context, [-1, config.hidden_size])  # [B·S, H]
        output = dropout(self.output_dense(context), config.hidden_dropout_prob, output_seed)
        return self.layer_norm(output + x)


class FeedForwardBlock(keras.layers.Layer):
    """Two dense layers with an activation between them, dropout, and the LayerNorm that closes the block.

    Args:
      scope: variable scope, such as `encoder/transformer/group_0/inner_group_0`.
      config: the network's shape.
    """

    def __init__(self, scope: str, config: AlbertConfig, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        self.activation = ACTIVATIONS[config.hidden_act]
        self.dropout_rate = config.hidden_dropout_prob
        width, inner = config.hidden_size, config.intermediate_size
        self.intermediate = Dense(f"{scope}/ffn_1/intermediate/dense", width, inner, config)
        self.output_dense = Dense(f"{scope}/ffn_1/intermediate/output/dense", inner, width, config)
        self.layer_norm = LayerNorm(f"{scope}/LayerNorm_1", width, config)

    def call(self, x: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Hidden states [B·S, H] before the block to those behind it; `seed` int32 [2] turns dropout on."""
        inner = self.activation(self.intermediate(x))  # [B·S, I]
        output = dropout(self.output_dense(inner), self.dropout_rate, seed)  # [B·S, H]
        return self.layer_norm(output + x)
