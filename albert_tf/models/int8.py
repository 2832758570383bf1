"""Matrices in int8 with a bfloat16 scale for each output channel: inference in a quarter of the memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import tensorflow as tf
import tf_keras as keras

# The largest of the 8-bit numbers: -128 stays unused, so that they are symmetric.
LARGEST = 127


def quantised(matrix: tf.Tensor, axis: int) -> tuple[tf.Tensor, tf.Tensor]:
    """A float matrix [..., R, C] as int8 of the same shape, and its scales, bfloat16 with 1 for the `axis`.

    A scale is that of all numbers along the axis, max|x| / 127; of zeros alone it is 1. It is rounded before
    numbers are divided by it, so that this costs no precision: 127.25 is the most that is left to round.
    """
    scale = tf.cast(tf.reduce_max(tf.abs(matrix), axis=axis, keepdims=True) / LARGEST, tf.bfloat16)
    scale = tf.where(scale > 0, scale, tf.ones_like(scale))
    return tf.cast(tf.round(matrix / tf.cast(scale, tf.float32)), tf.int8), scale


def dequantised(values: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    """The float32 matrix of what `quantised` returns."""
    return tf.cast(values, tf.float32) * tf.cast(scale, tf.float32)


class Int8Matrix(tf.Module):
    """A matrix that TensorFlow's functions take for its float32 one, which is computed wherever it is used.

    `values` and `scale` are variables, or tensors, as `quantised` returns them.
    """

    def __init__(self, values: tf.Variable | tf.Tensor, scale: tf.Variable | tf.Tensor):
        super().__init__("int8")
        self.values, self.scale = values, scale
        self.shape = values.shape

    def sparse_read(self, indices: tf.Tensor, name: str | None = None) -> tf.Tensor:
        """Rows of a table, float32: what `tf.gather` calls."""
        return dequantised(tf.gather(self.values, indices), tf.gather(self.scale, indices))

    def __getitem__(self, key: Any) -> tf.Tensor:
        return tf.convert_to_tensor(self)[key]


def _converted(
    matrix: Int8Matrix, dtype: tf.DType | None = None, name: str | None = None, as_ref: bool = False
) -> Any:
    return NotImplemented if dtype not in (None, tf.float32) else dequantised(matrix.values, matrix.scale)


tf.register_tensor_conversion_function(Int8Matrix, _converted)

Matrix: TypeAlias = tf.Tensor | Int8Matrix


def matrix_for(x: tf.Tensor, matrix: Matrix) -> tf.Tensor:
    """The matrix that rows x are multiplied by, in their type.

    Its floats come into being when x does. All of a graph's matrices would otherwise be dequantised as it
    begins, before the first of them is used.
    """
    if isinstance(matrix, Int8Matrix):
        with tf.control_dependencies([x]):
            return tf.cast(dequantised(tf.identity(matrix.values), matrix.scale), x.dtype)
    return tf.cast(matrix, x.dtype)


def joined(matrices: Sequence[Matrix]) -> Matrix:
    """Kernels [I, O] beside each other."""
    if not isinstance(matrices[0], Int8Matrix):
        return tf.concat(matrices, axis=1)
    return Int8Matrix(
        *(tf.concat([getattr(m, part) for m in matrices], axis=1) for part in ("values", "scale"))
    )


def quantise(model: keras.Model) -> None:
    """Puts int8 matrices in place of all the matrices of a model, which is for inference from then on.

    Kernels [I, O] have a scale for each of O; embeddings, and weights [K, H] of outputs, one for each row.
    Biases stay as they are.
    """
    model.trainable = False
    for layer in list(model.submodules):
        for attribute, variable in list(vars(layer).items()):
            if not isinstance(variable, tf.Variable) or len(variable.shape) < 2:
                continue
            name = variable.name.removesuffix(":0")
            if not name.endswith("bias"):
                values, scale = quantised(variable, axis=-2 if name.endswith("kernel") else -1)
                own = tf.Variable(values, False, name=name), tf.Variable(scale, False, name=f"{name}/scale")
                setattr(layer, attribute, Int8Matrix(*own))
