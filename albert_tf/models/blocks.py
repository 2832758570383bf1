"""The two blocks of a layer, attention and feed-forward, on hidden states [B·S, H].

Between blocks the hidden states are a matrix: TensorFlow's graph optimizer fuses MatMul, BiasAdd and the
activation for matrices only.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.models.layers import (
    DenseLayer,
    DenseWeights,
    Layer,
    LayerNorm,
    LayerOps,
    Seed,
    attention,
    attention_probabilities,
    dense,
    dropout,
)
from albert_tf.models.padding import TokenIndex, gather_first_tokens

# The parameters of a block. The last pair belongs to the LayerNorm at its end.
Parameters = tuple[DenseWeights, DenseWeights, DenseWeights]


class AttentionBlock(Layer):
    """Self-attention, a dense layer, dropout, and a LayerNorm at the end.

    Args:
      scope: scope of the variables, such as `encoder/transformer/group_0/inner_group_0`.
      config: architecture of the network.
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

    def parameters(self) -> Parameters:
        """Kernel [H, 3H] and bias [3H] of query, key and value; of the output; gamma and beta."""
        parts = [part.parameters() for part in (self.query, self.key, self.value)]
        kernels, biases = zip(*parts, strict=True)
        projections = tf.concat(kernels, axis=1), tf.concat(biases, axis=0)
        return projections, self.output_dense.parameters(), self.layer_norm.parameters()

    def call(
        self,
        x: tf.Tensor,
        parameters: Parameters,
        bias: tf.Tensor,
        ops: LayerOps,
        seeds: tuple | None = None,
        tokens: TokenIndex | None = None,
        first_only: bool = False,
    ) -> tf.Tensor:
        """Computes the hidden states after the block.

        Args:
          x: hidden states before the block, [B·S, H].
          parameters: result of `parameters`, which is called once in each call of the model.
          bias: [B, 1, 1, S], from `attention_bias`.
          ops: the network's activation, softmax and LayerNorm.
          seeds: two seeds int32 [2], for dropout of the probabilities and of the output. None: no dropout.
          tokens: the tokens that x [T, H] has hidden states of. None: x has those of all positions.
          first_only: True to compute only the first token of each row, [B, H]. It attends to all tokens.
        Returns:
          Hidden states of the shape of x, or [B, H].
        """
        config = self.config
        projections, output, norm = parameters
        probabilities_seed, output_seed = seeds or (None, None)
        if first_only:
            split = [config.hidden_size, 2 * config.hidden_size]
            split_parts = (tf.split(part, split, axis=-1) for part in projections)
            query_weights, key_value_weights = zip(*split_parts, strict=True)
            key, value = self._split_heads(x, key_value_weights, bias, tokens)
            x, tokens = gather_first_tokens(x, bias, tokens), None  # [B, H]
            (query,) = self._split_heads(x, query_weights, bias[..., :1])  # [B, N, 1, D]
        else:
            query, key, value = self._split_heads(x, projections, bias, tokens)
        rate, softmax = config.attention_probs_dropout_prob, ops.softmax
        context = attention(query, key, value, bias, rate, probabilities_seed, softmax)  # [B, N, S, D]
        context = tf.transpose(context, [0, 2, 1, 3])  # [B, S, N, D]
        context = tf.reshape(context, [-1, config.hidden_size])  # [B·S, H]
        if tokens is not None:
            context = tokens.gather(context)
        y = dropout(dense(context, *output), config.hidden_dropout_prob, output_seed)
        return ops.layer_norm(y + x, *norm)

    def probabilities(self, x: tf.Tensor, bias: tf.Tensor, tokens: TokenIndex | None = None) -> tf.Tensor:
        """The attention of each token to all tokens, [B, N, S, S]. See `call` for the arguments."""
        query, key, _ = self._split_heads(x, self.parameters()[0], bias, tokens)
        return attention_probabilities(query, key, bias)

    def _split_heads(
        self, x: tf.Tensor, projections: DenseWeights, bias: tf.Tensor, tokens: TokenIndex | None = None
    ) -> list[tf.Tensor]:
        """Query, key and value of each head, as far as `projections` has them, [B, N, S, D] each.

        See `call` for the other arguments. Only the shape of the bias is used.
        """
        heads, width = self.config.num_attention_heads, self.config.hidden_size
        projected = dense(x, *projections)  # [B·S, 3H]
        if tokens is not None:
            projected = tokens.scatter_repeat(projected)
        parts = projected.shape[-1] // width
        shape = [tf.shape(bias)[0], tf.shape(bias)[3], parts, heads, width // heads]
        projected = tf.reshape(projected, shape)  # [B, S, 3, N, D]
        return tf.unstack(tf.transpose(projected, [2, 0, 3, 1, 4]))  # [B, N, S, D] each


class FeedForwardBlock(Layer):
    """Two dense layers with an activation between them, dropout, and a LayerNorm at the end.

    See `AttentionBlock` for the arguments.
    """

    def __init__(self, scope: str, config: AlbertConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = config
        width, inner = config.hidden_size, config.intermediate_size
        self.intermediate = DenseLayer(f"{scope}/ffn_1/intermediate/dense", width, inner, config)
        self.output_dense = DenseLayer(f"{scope}/ffn_1/intermediate/output/dense", inner, width, config)
        self.layer_norm = LayerNorm(f"{scope}/LayerNorm_1", width, config)

    def parameters(self) -> Parameters:
        """Kernel and bias of the inner layer and of the output; gamma and beta."""
        parts = self.intermediate, self.output_dense, self.layer_norm
        return tuple(part.parameters() for part in parts)

    def call(self, x: tf.Tensor, parameters: Parameters, ops: LayerOps, seed: Seed = None) -> tf.Tensor:
        """The hidden states after the block, [B·S, H]. See `AttentionBlock.call` for the arguments."""
        intermediate, output, norm = parameters
        inner = ops.activation(dense(x, *intermediate))  # [B·S, I]
        y = dropout(dense(inner, *output), self.config.hidden_dropout_prob, seed)  # [B·S, H]
        return ops.layer_norm(y + x, *norm)


# A pair: the attention block comes first.
Blocks = tuple[AttentionBlock, FeedForwardBlock]
