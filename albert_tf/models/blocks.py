"""The two blocks of a layer, attention and feed-forward, on hidden states [B·S, H].

Between blocks the hidden states are a matrix: MatMul, BiasAdd and the activation behind it are what
TensorFlow's graph optimizer fuses, and it does so for matrices only.
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
from albert_tf.models.padding import TokenIndex, of_first_tokens

# What a block computes with; its last pair is that of the closing LayerNorm.
Parameters = tuple[DenseWeights, DenseWeights, DenseWeights]


class AttentionBlock(Layer):
    """Self-attention, a dense layer, dropout, and the LayerNorm that closes the block.

    Its variables' scope is one such as `encoder/transformer/group_0/inner_group_0`.
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
        """One kernel [H, 3H] and bias [3H] of query, key and value; those of the output; gamma and beta."""
        parts = [part.parameters() for part in (self.query, self.key, self.value)]
        kernels, biases = zip(*parts, strict=True)
        projections = tf.concat(kernels, axis=1), tf.concat(biases, axis=0)
        return projections, self.output_dense.parameters(), self.layer_norm.parameters()

    def call(
        self,
        x: tf.Tensor,
        parameters: Parameters,
        bias: tf.Tensor,
        elementwise: LayerOps,
        seeds: tuple | None = None,
        tokens: TokenIndex | None = None,
        first_only: bool = False,
    ) -> tf.Tensor:
        """Hidden states before the block to those behind it.

        Args:
          x: [B·S, H].
          parameters: what `parameters` returned in this call of the model.
          bias: [B, 1, 1, S], as `attention_bias` makes it.
          elementwise: the network's activation, softmax and LayerNorm.
          seeds: two int32 [2], of the probabilities' dropout and of the output's; None drops nothing.
          tokens: of which x are the hidden states, [T, H] then; None: of all positions.
          first_only: True for the first token of each row alone, [B, H], which reads all.
        """
        config = self.config
        projections, output, norm = parameters
        probabilities_seed, output_seed = seeds or (None, None)
        if first_only:
            split = [config.hidden_size, 2 * config.hidden_size]
            of_query, of_others = zip(*(tf.split(part, split, axis=-1) for part in projections), strict=True)
            key, value = self._heads(x, of_others, bias, tokens)
            x, tokens = of_first_tokens(x, bias, tokens), None  # [B, H]
            (query,) = self._heads(x, of_query, bias[..., :1])  # [B, N, 1, D]
        else:
            query, key, value = self._heads(x, projections, bias, tokens)
        rate, softmax = config.attention_probs_dropout_prob, elementwise.softmax
        context = attention(query, key, value, bias, rate, probabilities_seed, softmax)  # [B, N, S, D]
        context = tf.transpose(context, [0, 2, 1, 3])  # [B, S, N, D]
        context = tf.reshape(context, [-1, config.hidden_size])  # [B·S, H]
        if tokens is not None:
            context = tokens.pick(context)
        y = dropout(dense(context, *output), config.hidden_dropout_prob, output_seed)
        return elementwise.layer_norm(y + x, *norm)

    def probabilities(self, x: tf.Tensor, bias: tf.Tensor, tokens: TokenIndex | None = None) -> tf.Tensor:
        """The attention of each token to all, [B, N, S, S]; arguments as in `call`."""
        query, key, _ = self._heads(x, self.parameters()[0], bias, tokens)
        return attention_probabilities(query, key, bias)

    def _heads(
        self, x: tf.Tensor, projections: DenseWeights, bias: tf.Tensor, tokens: TokenIndex | None = None
    ) -> list[tf.Tensor]:
        """Query, key and value of each head, or some of them, [B, N, S, D] each; arguments as in `call`.

        Of the bias the shape counts, [B, 1, 1, S].
        """
        heads, width = self.config.num_attention_heads, self.config.hidden_size
        projected = dense(x, *projections)  # [B·S, 3H]
        if tokens is not None:
            projected = tokens.spread(projected)
        parts = projected.shape[-1] // width
        shape = [tf.shape(bias)[0], tf.shape(bias)[3], parts, heads, width // heads]
        projected = tf.reshape(projected, shape)  # [B, S, 3, N, D]
        return tf.unstack(tf.transpose(projected, [2, 0, 3, 1, 4]))  # [B, N, S, D] each


class FeedForwardBlock(Layer):
    """Two dense layers with an activation between them, dropout, and the LayerNorm that closes the block.

    Its arguments, and those of `call`, are those of `AttentionBlock`; there is one seed.
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

    def call(
        self, x: tf.Tensor, parameters: Parameters, elementwise: LayerOps, seed: Seed = None
    ) -> tf.Tensor:
        """Hidden states [B·S, H] before the block to those behind it."""
        intermediate, output, norm = parameters
        inner = elementwise.activation(dense(x, *intermediate))  # [B·S, I]
        y = dropout(dense(inner, *output), self.config.hidden_dropout_prob, seed)  # [B·S, H]
        return elementwise.layer_norm(y + x, *norm)
