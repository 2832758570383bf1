"""An encoder that XLA compiles for a few shapes, whatever the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import tensorflow as tf

from albert_tf.constants import ENCODER_INPUTS, INPUT_MASK, Tensors
from albert_tf.models.encoder import AlbertEncoder, with_pooled_output

_Inputs = TypeVar("_Inputs")

# Rows of a compiled call: inputs of one row, and blocks of this many.
ROWS_AT_ONCE = 32


class CompiledEncoder:
    """The `pooled_output` and `sequence_output` of an encoder, compiled by XLA where it runs.

    A program is compiled when a shape is first computed. There are few, since inputs are filled up in the
    graph: several rows to blocks of ROWS_AT_ONCE, which are computed one after the other, and columns to the
    next of some lengths. An id that is outside the vocabulary is no error: see `AlbertEncoder.call`.

    Args:
      encoder: without dropout.
      lengths: columns that programs are compiled for, ascending to the longest sequence.
    """

    def __init__(self, encoder: AlbertEncoder, lengths: Sequence[int]):
        self.lengths = tuple(lengths)

        @tf.function(
            input_signature=[{name: tf.TensorSpec([None, None], tf.int32) for name in ENCODER_INPUTS}],
            autograph=False,
            jit_compile=True,
        )
        def encode(inputs: Tensors) -> dict[str, tf.Tensor]:
            outputs = with_pooled_output(encoder(inputs, training=False))
            return {name: outputs[name] for name in ("pooled_output", "sequence_output")}

        self._encode = encode

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Rows and columns of all programs."""
        return [(rows, length) for length in self.lengths for rows in (1, ROWS_AT_ONCE)]

    def __call__(self, inputs: Tensors) -> dict[str, tf.Tensor]:
        """The two outputs, [B, H] and [B, S, H], of the encoder's inputs, int32 [B, S] each."""
        rows, columns = tf.unstack(tf.shape(inputs[INPUT_MASK]))
        filled = pad_inputs(inputs, rows, next_length(columns, self.lengths))
        dtypes = self._encode.get_concrete_function().output_dtypes
        found = in_blocks(self._encode, filled, dtypes, size=tf.where(rows > 1, ROWS_AT_ONCE, 1))
        return {**found, "sequence_output": found["sequence_output"][:, :columns]}


def in_blocks(
    function: Callable[[Tensors], _Inputs], inputs: Tensors, dtypes: _Inputs, size: tf.Tensor | None = None
) -> _Inputs:
    """The outputs of a function for many rows, computed some at a time: memory is that of a few.

    The function is from tensors of rows, [R, …] each, to tensors of as many; inputs are [W, S] each, and
    dtypes those of what it returns, in the same structure. The last block is filled up with zeros to the size
    of all; None: blocks of about the same size, of ROWS_AT_ONCE at most.
    """
    rows, columns = tf.unstack(tf.shape(inputs[INPUT_MASK]))
    if size is None:
        size = -(-rows // tf.maximum(-(-rows // ROWS_AT_ONCE), 1))
    blocks = tf.maximum(-(-rows // tf.maximum(size, 1)), 1)
    missing = [[0, blocks * size - rows], [0, 0]]
    shape = [blocks, size, columns]
    blocked = {name: tf.reshape(tf.pad(tensor, missing), shape) for name, tensor in inputs.items()}
    # One after the other: several at a time would need the memory of all.
    found = tf.map_fn(function, blocked, fn_output_signature=dtypes, parallel_iterations=1)
    return tf.nest.map_structure(
        lambda tensor: tf.reshape(tensor, tf.concat([[blocks * size], tf.shape(tensor)[2:]], axis=0))[:rows],
        found,
    )


def pad_inputs(inputs: Tensors, rows: tf.Tensor, columns: tf.Tensor) -> dict[str, tf.Tensor]:
    """The encoder's inputs [B, S] with rows and columns of padding up to numbers that are no smaller."""
    missing = tf.stack([rows, columns]) - tf.shape(inputs[INPUT_MASK])
    return {name: tf.pad(inputs[name], [[0, missing[0]], [0, missing[1]]]) for name in ENCODER_INPUTS}


def next_length(columns: tf.Tensor, lengths: Sequence[int]) -> tf.Tensor:
    """The least of the lengths, ascending, that is at least `columns`, int32 scalars.

    Raises:
      tf.errors.InvalidArgumentError: there is none. A slice checks it, since an exported graph has no Assert.
    """
    table = np.array(lengths, np.int32)[np.searchsorted(lengths, np.arange(lengths[-1] + 1))]
    with tf.name_scope(f"longest_input_is_{lengths[-1]}"):
        return tf.slice(tf.constant(table), columns[tf.newaxis], [1])[0]
