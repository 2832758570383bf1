"""Skips padding: the network computes hidden states of tokens only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from albert_tf.constants import INPUT_MASK, TOKEN_POSITIONS


def skip_padding(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Adds `token_places` to a network's inputs, so that hidden states at padding are zeros, not computed.

    The amount of computation then depends on the mask. Use it on CPUs and GPUs, not on TPUs and not with XLA.

    Args:
      inputs: `input_mask` and others, each integer [B, S] or [B, C, S].
    Returns:
      The inputs and `token_places`, int32 [T]: the positions of tokens among all positions, row by row. The
      first position of a row always counts as a token.
    """
    mask = inputs[INPUT_MASK]
    is_token = tf.cast(mask, tf.bool) | (tf.range(tf.shape(mask)[-1]) == 0)
    positions = tf.where(tf.reshape(is_token, [-1]))[:, 0]  # [T]
    return {**inputs, TOKEN_POSITIONS: tf.cast(positions, tf.int32)}


class TokenIndex(NamedTuple):
    """The positions of a batch that have hidden states."""

    positions: tf.Tensor  # positions of tokens, int32 [T], ascending from 0
    numbers: tf.Tensor  # for each position the index of the last token up to it, int32 [B·S]

    @classmethod
    def from_positions(cls, positions: tf.Tensor, num_positions: tf.Tensor) -> TokenIndex:
        """The index of tokens at positions [T] of B·S positions."""
        return cls(positions, tf.searchsorted(positions, tf.range(num_positions), side="right") - 1)

    def gather(self, x: tf.Tensor) -> tf.Tensor:
        """Drops padding: gathers the rows of tokens [T, W] from the rows of all positions [B·S, W]."""
        return tf.gather(x, self.positions)

    def scatter_repeat(self, x: tf.Tensor) -> tf.Tensor:
        """Scatters rows [T, W] to [B·S, W]. Padding gets a token's row: faster than zeros, and finite."""
        return tf.gather(x, self.numbers)

    def scatter_zeros(self, x: tf.Tensor) -> tf.Tensor:
        """Scatters rows [T, W] to [B·S, W], with zeros at padding."""
        return tf.scatter_nd(self.positions[:, tf.newaxis], x, [tf.size(self.numbers), x.shape[-1]])


def gather_first_tokens(x: tf.Tensor, bias: tf.Tensor, tokens: TokenIndex | None) -> tf.Tensor:
    """The state of each sequence's first token [B, H]. See `AttentionBlock.call` for the arguments."""
    shape = [tf.shape(bias)[0], tf.shape(bias)[3]]
    if tokens is not None:
        return tf.gather(x, tf.reshape(tokens.numbers, shape)[:, 0])
    return tf.reshape(x, [*shape, x.shape[-1]])[:, 0]
