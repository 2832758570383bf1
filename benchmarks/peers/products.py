"""The matrix products of a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.peers.compared import FORWARD, UPDATE, Case


class Product(NamedTuple):
    """[batch, rows, inner] times [batch, inner, columns], `count` times; batch 0: without that dimension."""

    count: int
    batch: int
    rows: int
    inner: int
    columns: int

    @property
    def operations(self) -> int:
        """Multiplications and additions of all of them."""
        return 2 * self.count * max(1, self.batch) * self.rows * self.inner * self.columns


def encoder_products(config: Mapping[str, Any], rows: int, length: int) -> list[Product]:
    """The products of a forward pass, B rows of S tokens, to the pooled output."""
    tokens, layers, heads = rows * length, config["num_hidden_layers"], config["num_attention_heads"]
    hidden, inner, embedding = (config[f"{x}_size"] for x in ("hidden", "intermediate", "embedding"))
    head = hidden // heads
    return [
        Product(1, 0, tokens, embedding, hidden),
        Product(layers, 0, tokens, hidden, 3 * hidden),  # query, key, value
        Product(layers, rows * heads, length, head, length),  # scores
        Product(layers, rows * heads, length, length, head),  # context
        Product(layers, 0, tokens, hidden, hidden),
        Product(layers, 0, tokens, hidden, inner),
        Product(layers, 0, tokens, inner, hidden),
        Product(1, 0, rows, hidden, hidden),  # pooler
    ]


def head_products(config: Mapping[str, Any], rows: int, predictions: int) -> list[Product]:
    """Those of the two heads of pre-training, P predictions a row."""
    hidden, embedding = config["hidden_size"], config["embedding_size"]
    return [
        Product(1, 0, rows * predictions, hidden, embedding),
        Product(1, 0, rows * predictions, embedding, config["vocab_size"]),
        Product(1, 0, rows, hidden, 2),
    ]


def operations(config: Mapping[str, Any], case: Case) -> int:
    """Multiplications and additions of all products of a case; 0 for a text, whose length is its own."""
    forward = encoder_products(config, case.batch, case.length)
    if case.kind == FORWARD:
        return sum(product.operations for product in forward)
    if case.kind == UPDATE:  # each product has two in the backward pass
        heads = head_products(config, case.batch, case.predictions)
        return 3 * sum(product.operations for product in (*forward, *heads))
    return 0
