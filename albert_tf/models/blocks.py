"""One layer of the network: an attention block and a feed-forward block on hidden states [B·S, H].

Between blocks the hidden states are a matrix: MatMul, BiasAdd and the activation behind it are what
TensorFlow's graph optimizer fuses, and it does so for matrices only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.models.layer import DenseLayer, Elementwise, Layer, LayerNorm, Pair, attention, dense, dropout
from albert_tf.models.padding import Tokens


class AttentionParameters(NamedTuple):
    """The tensors that an attention block computes with."""

    query_key_value: Pair  # kernel [H, 3H], bias [3H]: the three projections as one
    output: Pair  # kernel [H, H], bias [H]
    layer_norm: Pair  # gamma [H], beta [H]


class FeedForwardParameters(NamedTuple):
    """The tensors that a feed-forward block computes with."""

    intermediate: Pair  # kernel [H, I], bias [I]
    output: Pair  # kernel [I, H], bias [H]
    layer_norm: Pair  # gamma [H], beta [H]


class AttentionBlock(Layer):
    """Self-attention, a dense layer, dropout, and the LayerNorm that closes the block.

    Args:
      scope: variable scope, such as `encoder/transformer/group_0/inner_group_0`.
      config: the network's shape.
    """

    def __init__(self, scope: str, config: AlbertConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = config
        width = config.hidden_size
        self.query = DenseLayer(f"{scope}/attention_1/self/query", width, width, config)
        self.key = DenseLayer(f"{scope}/attention_1/self/key", width, width, config)
        self.value = DenseLayer(f"{scope}/attention_1/self/value", width, width, config)
        self.output_dense = DenseLayer(f"{scope}/attention_1/output/dense", width, width, config)
        self.layer_norm = LayerNorm(f"{scope}/LayerNorm", width, config)

    def parameters(self) -> AttentionParameters:
        """The variables as tensors, read and joined once for all layers that share this block."""
        kernels, biases = zip(
            *(part.parameters() for part in (self.query, self.key, self.value)), strict=True
        )
        return AttentionParameters(
            query_key_value=(tf.concat(kernels, axis=1), tf.concat(biases, axis=0)),  # [H, 3H], [3H]
            output=self.output_dense.parameters(),
            layer_norm=self.layer_norm.parameters(),
        )

    def call(
        self,
        x: tf.Tensor,
        parameters: AttentionParameters,
        bias: tf.Tensor,
        elementwise: Elementwise,
        seeds: tuple | None = None,
        tokens: Tokens | None = None,
    ) -> tf.Tensor:
        """Hidden states before the block to those behind it.

        Args:
          x: [B·S, H].
          parameters: what `parameters` returned in this call of the model.
          bias: [B, 1, 1, S], as `attention_bias` makes it.
          elementwise: the network's softmax and LayerNorm.
          seeds: two int32 [2], of the probabilities' dropout and of the output's; None drops nothing.
          tokens: of which x are the hidden states, [T, H] then; None: of all positions.
        Returns:
          The shape of x.
        """
        config = self.config
        probabilities_seed, output_seed = seeds or (None, None)
        batch, length = tf.shape(bias)[0], tf.shape(bias)[3]
        heads, head_size = config.num_attention_heads, config.hidden_size // config.num_attention_heads
        joined = dense(x, *parameters.query_key_value)  # [B·S, 3H]
        if tokens is not None:
            joined = tokens.spread(joined)
        joined = tf.reshape(joined, [batch, length, 3, heads, head_size])  # [B, S, 3, N, D]
        query, key, value = tf.unstack(tf.transpose(joined, [2, 0, 3, 1, 4]))  # [B, N, S, D] each
        rate, softmax = config.attention_probs_dropout_prob, elementwise.softmax
        context = attention(query, key, value, bias, rate, probabilities_seed, softmax)  # [B, N, S, D]
        context = tf.transpose(context, [0, 2, 1, 3])  # [B, S, N, D]
        context = tf.reshape(context, [-1, config.hidden_size])  # [B·S, H]
        if tokens is not None:
            context = tokens.pick(context)
        output = dense(context, *parameters.output)
        output = dropout(output, config.hidden_dropout_prob, output_seed)
        return elementwise.layer_norm(output + x, *parameters.layer_norm)


class FeedForwardBlock(Layer):
    """Two dense layers with an activation between them, dropout, and the LayerNorm that closes the block.

    Args:
      scope: variable scope, such as `encoder/transformer/group_0/inner_group_0`.
      config: the network's shape.
    """

    def __init__(self, scope: str, config: AlbertConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = config
        width, inner = config.hidden_size, config.intermediate_size
        self.intermediate = DenseLayer(f"{scope}/ffn_1/intermediate/dense", width, inner, config)
        self.output_dense = DenseLayer(f"{scope}/ffn_1/intermediate/output/dense", inner, width, config)
        self.layer_norm = LayerNorm(f"{scope}/LayerNorm_1", width, config)

    def parameters(self) -> FeedForwardParameters:
        """The variables as tensors, read once for all layers that share this block."""
        return FeedForwardParameters(
            self.intermediate.parameters(), self.output_dense.parameters(), self.layer_norm.parameters()
        )

    def call(
        self,
        x: tf.Tensor,
        parameters: FeedForwardParameters,
        elementwise: Elementwise,
        seed: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Hidden states before the block to those behind it.

        Args:
          x: [B·S, H].
          parameters: what `parameters` returned in this call of the model.
          elementwise: the network's activation and LayerNorm.
          seed: int32 [2] of the output's dropout; None drops nothing.
        Returns:
          [B·S, H].
        """
        inner = elementwise.activation(dense(x, *parameters.intermediate))  # [B·S, I]
        output = dropout(dense(inner, *parameters.output), self.config.hidden_dropout_prob, seed)  # [B·S, H]
        return elementwise.layer_norm(output + x, *parameters.layer_norm)
