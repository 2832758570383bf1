"""Token ids to embeddings: words, positions and segment types, E wide."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.models.layer import FLOAT32_VARIABLE, Layer, LayerNorm, dropout, kernel_initializer


class Embeddings(Layer):
    """The sum of word, position and type embeddings, LayerNorm, dropout.

    Args:
      config: the network's shape.
    """

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self.dropout_rate = config.hidden_dropout_prob
        width = config.embedding_size
        self.word_embeddings = self._table("word_embeddings", config.vocab_size, config)
        self.token_type_embeddings = self._table("token_type_embeddings", config.type_vocab_size, config)
        self.position_embeddings = self._table("position_embeddings", config.max_position_embeddings, config)
        self.layer_norm = LayerNorm("embeddings/LayerNorm", width, config)

    def _table(self, name: str, rows: int, config: AlbertConfig) -> tf.Variable:
        return self.add_weight(
            f"embeddings/{name}",
            [rows, config.embedding_size],
            initializer=kernel_initializer(config),
            **FLOAT32_VARIABLE,
        )

    def repeat_positions(self, trained: int, positions: int) -> None:
        """Makes the first positions, behind those that are trained, copies of these.

        Tokens then see near ones from the start as they have learned to.

        Args:
          trained: positions that stay as they are, at least 1.
          positions: how many there are then; those behind them stay as they are, too.
        Source: Beltagy et al. 2020, Longformer, §5.
        """
        table = self.position_embeddings.numpy()
        table[:positions] = np.resize(table[:trained], table[:positions].shape)
        self.position_embeddings.assign(table)

    def call(self, word_ids: tf.Tensor, type_ids: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Embeddings in the layer's compute type.

        Args:
          word_ids: integer [B, S], below V.
          type_ids: integer [B, S], below the number of types.
          seed: int32 [2] of the dropout; None drops nothing.
        Returns:
          [B, S, E].
        Raises:
          tf.errors.InvalidArgumentError: an id is outside its table (on CPU, uncompiled: see
            `AlbertEncoder.call`), or S is more than max_position_embeddings, which the message names in a
            graph.
        """
        length = tf.shape(word_ids)[1]
        # A slice, not [:length]: strided slices are cut silently at the end of the table. What it raises in a
        # graph says its name, and only that can name the maximum: TPUs and TF Serving take no Assert.
        name = f"max_position_embeddings_is_{self.position_embeddings.shape[0]}"
        positions = tf.slice(self.position_embeddings, [0, 0], [length, -1], name)  # [S, E]
        total = (
            tf.gather(self.word_embeddings, word_ids)
            + tf.gather(self.token_type_embeddings, type_ids)
            + positions
        )  # [B, S, E]
        return dropout(tf.cast(self.layer_norm(total), self.compute_dtype), self.dropout_rate, seed)
