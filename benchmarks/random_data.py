"""Random batches and random weights; it needs NumPy alone, so the other programs of peers/ read it, too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def random_inputs(rows: int, length: int, vocab_size: int) -> dict[str, np.ndarray]:
    """Random tokens without padding: the inputs of our encoder by name, int32 [B, S]."""
    ids = np.random.default_rng(0).integers(5, vocab_size, [rows, length], np.int32)
    return {"input_word_ids": ids, "input_mask": np.ones_like(ids), "input_type_ids": np.zeros_like(ids)}


def random_batch(rows: int, length: int, predictions: int, vocab_size: int) -> dict[str, np.ndarray]:
    """A batch of our pre-training, of random tokens without padding, with P predictions in each row."""
    random = np.random.default_rng(1)
    positions = [random.choice(length, predictions, replace=False) for _ in range(rows)]
    return {
        **random_inputs(rows, length, vocab_size),
        "masked_lm_positions": np.sort(positions).astype(np.int32),
        "masked_lm_ids": random.integers(5, vocab_size, [rows, predictions], np.int32),
        "masked_lm_weights": np.ones([rows, predictions], np.float32),
        "sentence_order_labels": random.integers(2, size=[rows], dtype=np.int32),
    }


def add_noise(variables: Iterable[Any]) -> None:
    """Leaves no bias 0 and no gain 1, so that outputs show a program that leaves a variable out."""
    import tensorflow as tf

    for number, variable in enumerate(variables):
        variable.assign_add(tf.random.stateless_normal(variable.shape, seed=[number, 0], stddev=0.02))
