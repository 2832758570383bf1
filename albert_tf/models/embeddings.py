"""Embeddings of token ids, positions and segment types, of width E."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.models.layers import Layer, LayerNorm, Seed, dropout, kernel_initializer


class Embeddings(Layer):
    """The sum of word, position and type embeddings, with LayerNorm and dropout."""

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self.dropout_rate = config.hidden_dropout_prob
        self.word_embeddings = self._table("word_embeddings", config.vocab_size, config)
        types = config.type_vocab_size
        self.token_type_embeddings = self._table("token_type_embeddings", types, config) if types else None
        self.position_offset = config.position_offset
        rows = config.position_offset + config.max_position_embeddings
        self.position_embeddings = self._table("position_embeddings", rows, config)
        self.layer_norm = LayerNorm("embeddings/LayerNorm", config.embedding_size, config)

    def _table(self, name: str, rows: int, config: AlbertConfig) -> tf.Variable:
        shape = [rows, config.embedding_size]
        return self.add_weight(f"embeddings/{name}", shape, kernel_initializer(config))

    def repeat_positions(self, trained: int, positions: int) -> None:
        """Sets the embeddings of positions from `trained` to `positions` to copies of the trained ones.

        Tokens can then attend to their neighbours from the start, as they have learned.

        Source: Beltagy et al. 2020, Longformer, §5.
        """
        table = self.position_embeddings.numpy()
        rows = table[self.position_offset :]
        rows[:positions] = np.resize(rows[:trained], rows[:positions].shape)
        self.position_embeddings.assign(table)

    def call(self, word_ids: tf.Tensor, mask: tf.Tensor, type_ids: tf.Tensor, seed: Seed = None) -> tf.Tensor:
        """The embeddings [B, S, E] of word ids, mask and type ids, integer [B, S], in the compute type.

        Raises:
          tf.errors.InvalidArgumentError: see `AlbertEncoder.call`.
        """
        total = tf.gather(self.word_embeddings, word_ids)  # [B, S, E]
        types = self.token_type_embeddings
        if types is not None:
            # A single type applies to all tokens, whatever their type ids are.
            total += types[0] if types.shape[0] == 1 else tf.gather(types, type_ids)
        total += self._positions(mask)
        return dropout(tf.cast(self.layer_norm(total), self.compute_dtype), self.dropout_rate, seed)

    def _positions(self, mask: tf.Tensor) -> tf.Tensor:
        """Position embeddings: [S, E], or [B, S, E] if positions count only tokens."""
        if self.position_offset:
            positions = tf.cumsum(mask, axis=1) * mask + self.position_offset - 1  # [B, S]
            return tf.gather(self.position_embeddings, positions)
        # Not [:length], which would be cut silently at the end of the table. In a graph an error shows only
        # the op's name. So the name holds the maximum: TPUs and TF Serving take no Assert.
        name = f"max_position_embeddings_is_{self.position_embeddings.shape[0]}"
        return tf.slice(self.position_embeddings, [0, 0], [tf.shape(mask)[1], -1], name)
