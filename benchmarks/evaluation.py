"""How near is an evaluation to the processor's limit? Its time, and the time of its matrix products alone.

    python -m benchmarks.evaluation --run minilm --task sst-2 --data glue/SST-2

A network with a new head evaluates the dev set of a GLUE task. It takes turns with matrix products of the
same shapes: the products of the dense layers, for all tokens but padding, and the products of attention. The
head reads the first token alone, so the last layer multiplies for that token alone. Prints Markdown: the
median seconds of both, their ratio, and the rate of the products.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.constants import INPUT_MASK
from albert_tf.finetuning.data import read_dev_sets
from albert_tf.finetuning.finetuned_model import create_predict_fn
from albert_tf.finetuning.task_table import find_task_spec, task_entries
from albert_tf.runs.build_model import build_model
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.tasks.batches import task_batches
from albert_tf.tasks.glue import GLUE
from benchmarks import smoke
from benchmarks.markdown_tables import print_header, print_row
from benchmarks.timers import time_in_turns


def main() -> None:
    """Prints the table."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--run", type=Path, required=True, help="run of the network, with its vocabulary")
    parser.add_argument("--task", choices=GLUE, required=True, help="task of GLUE")
    parser.add_argument("--data", type=Path, required=True, help="folder of the task")
    parser.add_argument("--seq_length", type=int, default=64, help="tokens (64)")
    parser.add_argument("--batch_size", type=int, default=32, help="(32)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds after a first one (5)")
    flags = smoke.read_flags(
        parser, run=smoke.pretrained_run, task="sst-2", data=smoke.sst2, seq_length=16, batch_size=8, rounds=1
    )
    run, spec = RunDirectory(flags.run), find_task_spec(flags.task)
    config = run.config.with_pooler()
    (records, *_) = read_dev_sets(spec, flags.data).values()
    entries = task_entries(flags.task, records, flags.seq_length)
    task = spec.task_class(entries)
    examples = task.encode(records, run.load_tokenizer(), True)
    predict = create_predict_fn(task, build_model(config, entries), flags.batch_size, True)
    batches = task_batches(examples.rows, flags.seq_length, flags.batch_size, shuffle=False, repeat=False)
    shapes = [(int(tf.reduce_sum(mask)), *mask.shape) for mask in (batch[INPUT_MASK] for batch in batches)]
    multiply = make_matmul_fn(config, shapes)
    seconds = time_in_turns([lambda: predict(examples), multiply], flags.rounds, warm_up=1)
    evaluation, matmul = map(statistics.median, seconds)
    rate = sum(matmul_flops(config, *shape) for shape in shapes) / matmul / 1e9
    print_header("evaluation (s)", "its products alone (s)", "share", "GFLOP/s of the products")
    print_row(f"{evaluation:.2f}", f"{matmul:.2f}", f"{matmul / evaluation:.0%}", f"{rate:.0f}")


def matmul_flops(config: AlbertConfig, tokens: int, rows: int, length: int) -> int:
    """Operations of the matrix products for a batch of T tokens in B rows of S."""
    width, inner = config.hidden_size, config.intermediate_size
    per_token = 4 * width * width + 4 * width * inner  # queries, output and the feed-forward block
    keys_and_values, attention = 4 * tokens * width * width, 4 * rows * length * width
    layer = tokens * per_token + keys_and_values + attention * length
    last = rows * per_token + keys_and_values + attention
    return (config.num_hidden_layers - 1) * layer + last


def make_matmul_fn(config: AlbertConfig, shapes: list[tuple[int, int, int]]) -> Callable[[], Any]:
    """A function that multiplies matrices of the shapes of all batches."""
    width, inner, heads = config.hidden_size, config.intermediate_size, config.num_attention_heads
    sizes = ((width, 3 * width), (width, width), (width, inner), (inner, width))
    # Different kernels and queries in each layer: TensorFlow computes the same product only once.
    kernels = [[tf.random.normal(size) for size in sizes] for _ in range(config.num_hidden_layers)]
    specs = ([None, width], [None, inner], [None, heads, None, width // heads])

    @tf.function(autograph=False, input_signature=[tf.TensorSpec(spec) for spec in specs])
    def multiply(x: tf.Tensor, y: tf.Tensor, queries: tf.Tensor) -> tf.Tensor:
        corners, rows = [], tf.shape(queries)[0]
        for number, (qkv, output, up, down) in enumerate(kernels):
            if number == len(kernels) - 1:
                corners.append((x @ qkv[:, width:])[0, 0])  # keys and values of all tokens
                x, y, qkv, first = x[:rows], y[:rows], qkv[:, :width], queries[:, :, :1]
            else:
                first = queries
            scores = tf.matmul(first, queries + float(number), transpose_b=True)  # [B, N, S, S]
            corners += [(x @ qkv)[0, 0], (x @ output)[0, 0], (x @ up)[0, 0], (y @ down)[0, 0]]
            corners.append(tf.matmul(scores, queries)[0, 0, 0, 0])
        return tf.add_n(corners)

    inputs = [
        (
            tf.random.normal([tokens, width]),
            tf.random.normal([tokens, inner]),
            tf.random.normal([rows, heads, length, width // heads]),
        )
        for tokens, rows, length in shapes
    ]
    return lambda: [float(multiply(*tensors)) for tensors in inputs]


if __name__ == "__main__":
    main()
