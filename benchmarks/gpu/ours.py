"""The cases by this project in TensorFlow, with XLA and without."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import tensorflow as tf

import albert_tf
from benchmarks.gpu.cases import PRODUCT, Case, cases, print_lines
from benchmarks.peers.cases import FORWARD
from benchmarks.random_data import random_batch, random_inputs
from benchmarks.update import make_update_fn

POLICY = "mixed_bfloat16"


def prepare(case: Case) -> Callable[[], Any]:
    """The function of a case, which waits for its result."""
    return {PRODUCT: product, FORWARD: forward}.get(case.kind, update)(case)


def product(case: Case) -> Callable[[], Any]:
    """The product of two bfloat16 matrices."""
    matrix = tf.cast(tf.random.normal([case.batch, case.batch]), tf.bfloat16)
    multiply = tf.function(lambda: tf.reduce_max(tf.matmul(matrix, matrix)))
    return lambda: float(multiply())


def forward(case: Case) -> Callable[[], Any]:
    """A forward pass of the encoder."""
    encoder = albert_tf.AlbertEncoder(case.config, dtype=POLICY)
    arrays = random_inputs(case.batch, case.length, case.config.vocab_size)
    batch = {name: tf.constant(array) for name, array in arrays.items()}
    encode = tf.function(lambda inputs: encoder(inputs)["pooled_output"], jit_compile=case.compiled or None)
    return lambda: encode(batch).numpy()


def update(case: Case) -> Callable[[], Any]:
    """An update of the trainer."""
    fused = not case.compiled  # as `pretrain` and `finetune` without XLA
    batch = random_batch(case.batch, case.length, case.predictions, case.config.vocab_size)
    return make_update_fn(case.config, batch, POLICY, fused=fused, xla=case.compiled)


def peak_memory() -> int | None:
    """The peak memory of the first GPU since the last call, bytes; None without a GPU."""
    if not tf.config.list_physical_devices("GPU"):
        return None
    peak = tf.config.experimental.get_memory_info("GPU:0")["peak"]
    tf.config.experimental.reset_memory_stats("GPU:0")
    return peak


def main() -> None:
    """Prints a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--deadline", type=float, required=True, help="seconds since the epoch")
    flags = parser.parse_args()
    for device in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(device, True)
    print_lines("ours", cases(flags.small), prepare, peak_memory, flags.deadline)


if __name__ == "__main__":
    main()
