"""An encoder that XLA compiles for few shapes: inputs are padded to these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import tensorflow as tf

from albert_tf.constants import ENCODER_INPUTS, INPUT_MASK, Tensors
from albert_tf.models.encoder import AlbertEncoder, text_states

_Outputs = TypeVar("_Outputs")

# A compiled call has one row, or a block of this many.
ROWS_AT_ONCE = 32


class CompiledEncoder:
    """The `pooled_output` and `sequence_output` of an encoder, compiled by XLA where it runs.

    A program is compiled when its shape is first used. There are few programs, since the graph pads the
    inputs: several rows to blocks of ROWS_AT_ONCE, which are computed one after the other, and columns to the
    next of some lengths. An id outside the vocabulary raises no error: see `AlbertEncoder.call`.

    Args:
      encoder: encoder to compile, for inference.
      lengths: numbers of columns that programs are compiled for, ascending. The last is the longest sequence.
    """

    def __init__(self, encoder: AlbertEncoder, lengths: Sequence[int]):
        self.lengths = tuple(lengths)

        @tf.function(
            input_signature=[{name: tf.TensorSpec([None, None], tf.int32) for name in ENCODER_INPUTS}],
            autograph=False,
            jit_compile=True,
        )
        def encode(inputs: Tensors) -> dict[str, tf.Tensor]:
            return text_states(encoder, inputs)

        self._encode = encode

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Numbers of rows and columns of all programs."""
        return [(rows, length) for length in self.lengths for rows in (1, ROWS_AT_ONCE)]

    def __call__(self, inputs: Tensors) -> dict[str, tf.Tensor]:
        """Computes both outputs, [B, H] and [B, S, H], from the encoder's inputs, int32 [B, S] each."""
        rows, columns = tf.unstack(tf.shape(inputs[INPUT_MASK]))
        padded = pad_inputs(inputs, rows, next_length(columns, self.lengths))
        dtypes = self._encode.get_concrete_function().output_dtypes
        outputs = map_blocks(self._encode, padded, dtypes, size=tf.where(rows > 1, ROWS_AT_ONCE, 1))
        return {**outputs, "sequence_output": outputs["sequence_output"][:, :columns]}


def map_blocks(
    function: Callable[[Tensors], _Outputs], inputs: Tensors, dtypes: _Outputs, size: tf.Tensor | None = None
) -> _Outputs:
    """Applies a function to blocks of rows, one after the other, which saves memory.

    Args:
      function: function from a dict of tensors [R, S] to a structure of tensors [R, …].
      inputs: tensors [W, S] by name, with `input_mask`.
      dtypes: types of the outputs, in the structure that the function returns.
      size: rows in each block, int32 []. The last block is padded with zeros. None: blocks of about the same
        size, of at most ROWS_AT_ONCE rows.
    Returns:
      The outputs of all rows, a structure of tensors [W, …].
    """
    rows, columns = tf.unstack(tf.shape(inputs[INPUT_MASK]))
    if size is None:
        size = -(-rows // tf.maximum(-(-rows // ROWS_AT_ONCE), 1))
    blocks = tf.maximum(-(-rows // tf.maximum(size, 1)), 1)
    missing = [[0, blocks * size - rows], [0, 0]]
    shape = [blocks, size, columns]
    blocked = {name: tf.reshape(tf.pad(tensor, missing), shape) for name, tensor in inputs.items()}
    outputs = tf.map_fn(function, blocked, fn_output_signature=dtypes, parallel_iterations=1)
    return tf.nest.map_structure(
        lambda tensor: tf.reshape(tensor, tf.concat([[blocks * size], tf.shape(tensor)[2:]], axis=0))[:rows],
        outputs,
    )


def pad_inputs(inputs: Tensors, rows: tf.Tensor, columns: tf.Tensor) -> dict[str, tf.Tensor]:
    """Pads the encoder's inputs [B, S] with zeros to larger or equal numbers of rows and columns."""
    missing = tf.stack([rows, columns]) - tf.shape(inputs[INPUT_MASK])
    return {name: tf.pad(inputs[name], [[0, missing[0]], [0, missing[1]]]) for name in ENCODER_INPUTS}


def next_length(columns: tf.Tensor, lengths: Sequence[int]) -> tf.Tensor:
    """The smallest of some ascending lengths that is at least `columns`, int32 [].

    Raises:
      tf.errors.InvalidArgumentError: all lengths are smaller. A slice raises it: an export has no Assert.
    """
    table = np.array(lengths, np.int32)[np.searchsorted(lengths, np.arange(lengths[-1] + 1))]
    with tf.name_scope(f"longest_input_is_{lengths[-1]}"):
        return tf.slice(tf.constant(table), columns[tf.newaxis], [1])[0]
