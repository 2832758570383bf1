"""Time and memory of an update: compiled elementwise operations, recomputation, microbatches, two devices.

    python -m benchmarks.update

Trains a network for a few updates (forward, backward and LAMB) on random tokens. Each variant has fresh
processes, which take turns. Prints a row for each variant as Markdown, with its ratios to the plain update:
of the peak of resident memory above the memory once model and optimizer are built, and of the median seconds
of an update. The first update, which traces and compiles, has a column of its own. The losses of the last
update must agree.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable

import numpy as np

from albert_tf.config import AlbertConfig
from benchmarks import smoke
from benchmarks.markdown_tables import format_range, print_header, print_row
from benchmarks.memory import max_resident_bytes, resident_bytes
from benchmarks.random_data import random_batch
from benchmarks.timers import run_module, time_calls

PREDICTIONS = 20

# Every variant changes one setting of the plain update. The two devices are halves of the same processors.
PLAIN = "plain"
UPDATE_VARIANTS: dict[str, dict[str, int]] = {
    PLAIN: {},
    "fused": {"fused": 1},
    "remat": {"remat": 1},
    "accumulate": {"accumulate": 4},
    "devices": {"devices": 2},
    "unclipped": {"clipped": 0},
}


def main() -> None:
    """Prints the table; with --way, measures one variant in this process."""
    parser = smoke.create_parser(__doc__)
    names = list(UPDATE_VARIANTS)
    parser.add_argument("--ways", nargs="+", choices=names, default=names[1:], help="beside plain (all)")
    parser.add_argument("--preset", default="albert_large_v2", help="(albert_large_v2)")
    parser.add_argument("--layers", type=int, default=24, help="(24)")
    parser.add_argument("--batch_size", type=int, default=8, help="(8)")
    parser.add_argument("--seq_length", type=int, default=128, help="tokens (128)")
    parser.add_argument("--sharing", default="all", help="(all)")
    parser.add_argument("--updates", type=int, default=3, help="timed updates of each process (3)")
    parser.add_argument("--rounds", type=int, default=2, help="processes of each variant (2)")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32", help="(float32)")
    parser.add_argument("--xla", action="store_true", help="XLA compiles forward and backward")
    parser.add_argument("--way", choices=names, help=argparse.SUPPRESS)
    smallest = {"batch_size": 4, "seq_length": 32, "updates": 1, "rounds": 1, "ways": "accumulate"}
    options = smoke.read_flags(parser, preset=smoke.PRESET, layers=1, **smallest)
    if options.way:
        print(json.dumps(train(options, **UPDATE_VARIANTS[options.way])))
    else:
        print_comparison(options)


def print_comparison(options: argparse.Namespace) -> None:
    """Runs the variants in turns, and prints a row for each."""
    results: dict[str, list[dict]] = {name: [] for name in (PLAIN, *options.ways)}
    for _ in range(options.rounds):
        for name, runs in results.items():
            runs.append(run_module("benchmarks.update", *sys.argv[1:], "--way", name))
    print_header("way", "peak above start-up, GB", "ratio", "seconds an update", "ratio", "first", "loss")
    plain_peak, plain_seconds = median_peak(results[PLAIN]), statistics.median(update_times(results[PLAIN]))
    for name, runs in results.items():
        times = update_times(runs)
        print_row(
            name,
            ", ".join(f"{run['peak'] / 1e9:.2f}" for run in runs),
            f"{median_peak(runs) / plain_peak:.3f}",
            format_range(times, ".2f"),
            f"{statistics.median(times) / plain_seconds:.3f}",
            ", ".join(f"{run['first']:.1f}" for run in runs),
            ", ".join(sorted({f"{run['loss']:.5f}" for run in runs})),
        )


def update_times(runs: list[dict]) -> list[float]:
    """The seconds of all updates of some processes."""
    return [seconds for run in runs for seconds in run["seconds"]]


def median_peak(runs: list[dict]) -> float:
    """The median of the peaks of some processes, bytes above start-up."""
    return statistics.median(run["peak"] for run in runs)


def train(
    options: argparse.Namespace,
    fused: int = 0,
    remat: int = 0,
    accumulate: int = 1,
    devices: int = 1,
    clipped: int = 1,
) -> dict[str, float | list[float]]:
    """Trains a new model for some updates.

    Returns:
      "whole": the peak of memory above the memory once TensorFlow is imported, bytes. "peak": the same above
      the memory once model and optimizer are built. "first": the seconds of the first update. "seconds":
      those of the others. "loss": the MLM loss of the last one.
    """
    import tensorflow as tf
    import tf_keras as keras

    import albert_tf
    from albert_tf.constants import POLICIES
    from albert_tf.optimization import create_optimizer
    from albert_tf.pretraining.loss import pretraining_loss_fn
    from albert_tf.training.train_step import TrainStep

    keras.utils.set_random_seed(1)
    imported = resident_bytes()
    strategy = tf.distribute.get_strategy()
    has_hosts = "TF_CONFIG" in os.environ  # each with a batch of its own
    if has_hosts:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    elif devices > 1:
        halves = [tf.config.LogicalDeviceConfiguration()] * devices
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], halves)
        strategy = tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(devices)])
    config = albert_tf.PRESETS[options.preset].replace(
        num_hidden_layers=options.layers, sharing=options.sharing
    )
    step = tf.Variable(0, dtype=tf.int64, trainable=False)
    loss_fn = pretraining_loss_fn("sop", fused=bool(fused))
    batch = random_update_batch(options.batch_size, options.seq_length, config.vocab_size)
    data = tf.data.Dataset.from_tensors(batch).repeat()
    with strategy.scope():
        policy = POLICIES[options.precision]
        model = albert_tf.AlbertPretrainer(config, remat=bool(remat), fused=bool(fused), dtype=policy)
        optimizer = create_optimizer(
            "lamb", init_lr=1e-4, num_train_steps=100, num_warmup_steps=10, clip_norm=1.0 if clipped else None
        )
        optimizer.build(model.trainable_variables)
        settings = {"replicas_per_batch": 1 if has_hosts else None, "accumulate": accumulate}
        train_step = TrainStep(
            model, optimizer, loss_fn, data.element_spec, step=step, seed=3, xla=options.xla, **settings
        )
    batches, one_step, losses = iter(data), tf.constant(1), []

    def update() -> None:
        with strategy.scope():
            losses.append(float(train_step(batches, one_step).terms["mlm"].loss))

    built = resident_bytes()
    first, *seconds = time_calls(update, 1 + options.updates)
    peak = max_resident_bytes()
    growth = {"whole": peak - imported, "peak": peak - built}
    return {**growth, "seconds": seconds, "first": first, "loss": losses[-1]}


def make_update_fn(
    config: AlbertConfig, batch: dict[str, np.ndarray], policy: str, *, fused: bool, xla: bool = False
) -> Callable[[], float]:
    """A function that updates a new model by one batch, as the trainer does with AdamW; returns the loss."""
    import tensorflow as tf

    import albert_tf
    from albert_tf.optimization import create_optimizer
    from albert_tf.pretraining.loss import pretraining_loss_fn
    from albert_tf.training.train_step import TrainStep

    model = albert_tf.AlbertPretrainer(config, sentence_objective="sop", dtype=policy, fused=fused)
    optimizer = create_optimizer("adamw", init_lr=1e-5, num_train_steps=10**6)
    optimizer.build(model.trainable_variables)
    loss_fn = pretraining_loss_fn("sop", fused=fused)
    data = tf.data.Dataset.from_tensors(batch).repeat()
    step = tf.Variable(0, dtype=tf.int64, trainable=False)
    train_step = TrainStep(model, optimizer, loss_fn, data.element_spec, step=step, seed=0, xla=xla)
    batches, one_step = iter(data), tf.constant(1)
    return lambda: float(train_step(batches, one_step).terms["mlm"].loss)


def random_update_batch(rows: int, length: int, vocab_size: int) -> dict[str, np.ndarray]:
    """A random batch with PREDICTIONS predictions in each row, fewer in shorter rows."""
    return random_batch(rows, length, min(PREDICTIONS, length), vocab_size)


if __name__ == "__main__":
    main()
