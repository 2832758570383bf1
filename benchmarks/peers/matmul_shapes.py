"""The shapes of a network's matrix products, and their floating-point operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.peers.cases import FORWARD, UPDATE, Case


class Matmul(NamedTuple):
    """[batch, rows, inner] times [batch, inner, columns], `count` times; batch 0: matrices of rank 2."""

    count: int
    batch: int
    rows: int
    inner: int
    columns: int

    @property
    def flops(self) -> int:
        """Multiplications and additions of all `count` products."""
        return 2 * self.count * max(1, self.batch) * self.rows * self.inner * self.columns


def encoder_matmuls(config: Mapping[str, Any], rows: int, length: int) -> list[Matmul]:
    """The products of a forward pass to the pooled output, for B rows of S tokens."""
    tokens, layers, heads = rows * length, config["num_hidden_layers"], config["num_attention_heads"]
    hidden, inner, embedding = (config[f"{x}_size"] for x in ("hidden", "intermediate", "embedding"))
    head = hidden // heads
    return [
        Matmul(1, 0, tokens, embedding, hidden),
        Matmul(layers, 0, tokens, hidden, 3 * hidden),  # query, key, value
        Matmul(layers, rows * heads, length, head, length),  # scores
        Matmul(layers, rows * heads, length, length, head),  # context
        Matmul(layers, 0, tokens, hidden, hidden),
        Matmul(layers, 0, tokens, hidden, inner),
        Matmul(layers, 0, tokens, inner, hidden),
        Matmul(1, 0, rows, hidden, hidden),  # pooler
    ]


def head_matmuls(config: Mapping[str, Any], rows: int, predictions: int) -> list[Matmul]:
    """The products of both pre-training heads, for P predictions in each row."""
    hidden, embedding = config["hidden_size"], config["embedding_size"]
    return [
        Matmul(1, 0, rows * predictions, hidden, embedding),
        Matmul(1, 0, rows * predictions, embedding, config["vocab_size"]),
        Matmul(1, 0, rows, hidden, 2),
    ]


def case_flops(config: Mapping[str, Any], case: Case) -> int:
    """Multiplications and additions of all products of a case; 0 for TEXT, whose lengths differ."""
    forward = encoder_matmuls(config, case.batch, case.length)
    if case.kind == FORWARD:
        return sum(matmul.flops for matmul in forward)
    if case.kind == UPDATE:  # each product has two products in the backward pass
        heads = head_matmuls(config, case.batch, case.predictions)
        return 3 * sum(matmul.flops for matmul in (*forward, *heads))
    return 0
