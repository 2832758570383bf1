"""TensorFlow's own matrix products of the same shapes: the floor of a program that computes with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from benchmarks.peers.compared import Setting, read_config
from benchmarks.peers.products import Product, encoder_products, head_products


class Network:
    """Products alone."""

    def __init__(self, setting: Setting):
        self.config = read_config(setting.place)
        self.dtype = tf.as_dtype(setting.precision)

    def parameters(self) -> None:
        """It has none."""

    def forward(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], float]:
        """Every product of a forward pass."""
        products = encoder_products(self.config, *inputs["input_word_ids"].shape)
        return self.one_after_the_other(products, backward=False)

    def update(self, batch: Mapping[str, np.ndarray]) -> Callable[[], float]:
        """Every product of a forward pass, and the two that each has in the backward pass."""
        products = encoder_products(self.config, *batch["input_word_ids"].shape)
        products += head_products(self.config, *batch["masked_lm_positions"].shape)
        return self.one_after_the_other(products, backward=True)

    def one_after_the_other(self, products: list[Product], backward: bool) -> Callable[[], float]:
        """A function that computes them, each when the one before it is done."""
        operands = [self.operands(product) for product in products]

        @tf.function
        def compute(operands: list[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]) -> tf.Tensor:
            corners: list[tf.Tensor] = []
            for product, (left, right, result) in zip(products, operands, strict=True):
                for _ in range(product.count):
                    # Without an order, equal products would become one; without a use, none.
                    with tf.control_dependencies(corners[-1:]):
                        corners.append(corner(left @ right))
                    if backward:
                        with tf.control_dependencies(corners[-1:]):
                            corners.append(corner(tf.matmul(result, right, transpose_b=True)))
                        with tf.control_dependencies(corners[-1:]):
                            corners.append(corner(tf.matmul(left, result, transpose_a=True)))
            return tf.add_n(corners)

        return lambda: float(compute(operands))

    def operands(self, product: Product) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Two factors, and what stands for the gradient of their product."""
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


def corner(matrix: tf.Tensor) -> tf.Tensor:
    """One number of it."""
    return tf.reshape(tf.slice(matrix, [0] * matrix.shape.rank, [1] * matrix.shape.rank), [])
