"""TensorFlow's matrix products of the same shapes: a lower limit for programs that use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from benchmarks.peers.cases import Setting, read_config
from benchmarks.peers.matmul_shapes import Matmul, encoder_matmuls, head_matmuls


class Network:
    """Matrix products without a network."""

    def __init__(self, setting: Setting):
        self.config = read_config(setting.path)
        self.dtype = tf.as_dtype(setting.precision)

    def parameters(self) -> None:
        """None: there are no parameters."""

    def forward(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], float]:
        """Every product of a forward pass."""
        products = encoder_matmuls(self.config, *inputs["input_word_ids"].shape)
        return self.make_matmul_fn(products, backward=False)

    def update(self, batch: Mapping[str, np.ndarray]) -> Callable[[], float]:
        """Every product of a forward pass, and the two that each has in the backward pass."""
        products = encoder_matmuls(self.config, *batch["input_word_ids"].shape)
        products += head_matmuls(self.config, *batch["masked_lm_positions"].shape)
        return self.make_matmul_fn(products, backward=True)

    def make_matmul_fn(self, products: list[Matmul], backward: bool) -> Callable[[], float]:
        """A function that computes the products, one after the other."""
        operands = [self.create_operands(product) for product in products]

        @tf.function
        def compute(operands: list[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]) -> tf.Tensor:
            entries: list[tf.Tensor] = []
            for product, (left, right, result) in zip(products, operands, strict=True):
                for _ in range(product.count):
                    # Without an order TensorFlow would compute equal products once; without a use, never.
                    with tf.control_dependencies(entries[-1:]):
                        entries.append(first_entry(left @ right))
                    if backward:
                        with tf.control_dependencies(entries[-1:]):
                            entries.append(first_entry(tf.matmul(result, right, transpose_b=True)))
                        with tf.control_dependencies(entries[-1:]):
                            entries.append(first_entry(tf.matmul(left, result, transpose_a=True)))
            return tf.add_n(entries)

        return lambda: float(compute(operands))

    def create_operands(self, product: Matmul) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Two random factors, and a random gradient of their product."""
        batch = [product.batch] if product.batch else []
        shapes = (
            (product.rows, product.inner),
            (product.inner, product.columns),
            (product.rows, product.columns),
        )
        left, right, result = (
            tf.cast(tf.random.stateless_normal([*batch, *shape], seed=[1, 2]), self.dtype) for shape in shapes
        )
        return left, right, result


def first_entry(matrix: tf.Tensor) -> tf.Tensor:
    """The first entry of a tensor, a scalar."""
    return tf.reshape(tf.slice(matrix, [0] * matrix.shape.rank, [1] * matrix.shape.rank), [])
