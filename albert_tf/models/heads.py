"""The heads of pre-training, and the output layer of fine-tuned models."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.constants import MLM_POSITIONS
from albert_tf.errors import InputError
from albert_tf.models.layers import ACTIVATIONS, DenseLayer, Layer, LayerNorm, kernel_initializer, sizes

# The logit of what is impossible, such as a position where no answer may be. It needs float32.
IMPOSSIBLE = -1e30


class MaskedLanguageModel(Layer):
    """Turns masked positions into logits over the vocabulary. Its kernel is the word embeddings.

    Source: Lan et al. 2020, §3.1. The transform has the width E, as in google-research/albert.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self.activation = ACTIVATIONS[config.hidden_act]
        width = config.embedding_size
        self.transform = DenseLayer("cls/predictions/transform/dense", config.hidden_size, width, config)
        self.layer_norm = LayerNorm("cls/predictions/transform/LayerNorm", width, config)
        self.output_bias = self.add_weight("cls/predictions/output_bias", [config.vocab_size], "zeros")

    def call(self, sequence: tf.Tensor, positions: tf.Tensor, word_embeddings: tf.Tensor) -> tf.Tensor:
        """The logits of each masked position.

        Args:
          sequence: the encoder's sequence output [B, S, H].
          positions: masked positions, integer [B, P], below S.
          word_embeddings: variable of the encoder, [V, E].
        Returns:
          float32 [B, P, V].
        Raises:
          InputError: the positions are not [B, P].
          tf.errors.InvalidArgumentError: a position is outside the sequence (see `AlbertEncoder.call`).
        """
        if not positions.shape.is_compatible_with([sequence.shape[0], None]):
            raise InputError(
                f"{MLM_POSITIONS} has shape {positions.shape}: it must be [batch, predictions] "
                f"for a sequence output {sequence.shape}"
            )
        masked = tf.gather(sequence, positions, batch_dims=1)  # [B, P, H]
        rows = tf.reshape(masked, [-1, sequence.shape[-1]])  # [B·P, H]
        rows = self.layer_norm(self.activation(self.transform(rows)))  # [B·P, E]
        logits = biased_logits(rows, word_embeddings, self.output_bias)  # [B·P, V]
        return tf.reshape(logits, [*sizes(positions), self.output_bias.shape[0]])  # [B, P, V]


class OutputLayer(Layer):
    """A dense layer from rows [R, H] to float32 logits [R, K].

    The variables are google-research/albert's `<scope>/output_weights` [K, H] and `<scope>/output_bias` [K].
    """

    def __init__(self, scope: str, units: int, config: AlbertConfig, **kwargs: Any):
        super().__init__(name=scope.rpartition("/")[2], **kwargs)
        shape = [units, config.hidden_size]
        self.output_weights = self.add_weight(f"{scope}/output_weights", shape, kernel_initializer(config))
        self.output_bias = self.add_weight(f"{scope}/output_bias", [units], "zeros")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """The logits of rows."""
        return biased_logits(x, self.output_weights, self.output_bias)


OUTPUT_BIASES = ("classifier/output_bias", "exits/output_bias")  # of classifiers and regressions


def biased_logits(x: tf.Tensor, weights: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Logits [R, K] of rows x [R, H], weights [K, H] and bias [K]; float32, since a softmax follows."""
    logits = tf.matmul(x, tf.cast(weights, x.dtype), transpose_b=True)
    return tf.nn.bias_add(tf.cast(logits, tf.float32), tf.cast(bias, tf.float32))


def mean_state(sequence: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
    """The mean state [B, H] of a sequence's tokens, including [CLS] and [SEP]; zeros if it has no tokens.

    The mean is computed in float32.

    Args:
      sequence: the encoder's sequence output [B, S, H].
      mask: [B, S], 1 for tokens and 0 for padding. None: all positions are tokens.
    """
    if mask is None:
        mask = tf.ones(tf.shape(sequence)[:2])
    weights = tf.cast(mask, tf.float32)[:, :, tf.newaxis]  # [B, S, 1]
    total = tf.reduce_sum(tf.cast(sequence, tf.float32) * weights, axis=1)  # [B, H]
    return tf.cast(tf.math.divide_no_nan(total, tf.reduce_sum(weights, axis=1)), sequence.dtype)
