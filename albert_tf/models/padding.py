"""Hidden states of tokens alone: what is computed for padding costs time, and nothing reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from albert_tf.constants import INPUT_MASK, TOKEN_PLACES


def skip_padding(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The inputs of a network, which then computes hidden states of tokens alone; those of padding are zeros.

    How much is computed depends on the mask: this is for CPUs and GPUs, neither for TPUs nor for XLA.

    Args:
      inputs: `input_mask` and others, integer [B, S] or [B, C, S] each.
    Returns:
      The same and `token_places`, int32 [T]: where the tokens stand among all positions, row by row. The
      first position of a row is always one.
    """
    mask = inputs[INPUT_MASK]
    is_token = tf.cast(mask, tf.bool) | (tf.range(tf.shape(mask)[-1]) == 0)
    places = tf.where(tf.reshape(is_token, [-1]))[:, 0]  # [T]
    return {**inputs, TOKEN_PLACES: tf.cast(places, tf.int32)}


class TokenIndex(NamedTuple):
    """The positions of a batch that have hidden states."""

    places: tf.Tensor  # int32 [T], ascending; 0 is one
    numbers: tf.Tensor  # of each position that of the last token up to it, int32 [B·S]

    @classmethod
    def at(cls, places: tf.Tensor, positions: tf.Tensor) -> TokenIndex:
        """The tokens at places [T] of B·S positions."""
        return cls(places, tf.searchsorted(places, tf.range(positions), side="right") - 1)

    def pick(self, x: tf.Tensor) -> tf.Tensor:
        """Rows of all positions, [B·S, W], to those of tokens, [T, W]."""
        return tf.gather(x, self.places)

    def spread(self, x: tf.Tensor) -> tf.Tensor:
        """[T, W] to [B·S, W], where at padding stands the row of a token: the quickest that is finite."""
        return tf.gather(x, self.numbers)

    def padded(self, x: tf.Tensor) -> tf.Tensor:
        """[T, W] to [B·S, W] with zeros at padding."""
        return tf.scatter_nd(self.places[:, tf.newaxis], x, [tf.size(self.numbers), x.shape[-1]])


def of_first_tokens(x: tf.Tensor, bias: tf.Tensor, tokens: TokenIndex | None) -> tf.Tensor:
    """Of each row the first token's state, [B, H], of states as `AttentionBlock` takes them."""
    shape = [tf.shape(bias)[0], tf.shape(bias)[3]]
    if tokens is not None:
        return tf.gather(x, tf.reshape(tokens.numbers, shape)[:, 0])
    return tf.reshape(x, [*shape, x.shape[-1]])[:, 0]
