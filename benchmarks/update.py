"""What ways to run an update cost: compiled elementwise operations, recomputation, microbatches, two devices.

    python -m benchmarks.update

Trains a network for a few updates on random tokens, forward, backward and LAMB, in fresh
processes that take turns, one for each way. Prints a row each as Markdown, with the ratios to the plain
update: of the peaks of resident memory above what is resident once model and optimizer are built, and of the
medians of the seconds an update takes. The first update, which traces and compiles, has a column of its own.
The losses of the last update are to agree.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import smoke

PREDICTIONS = 20

# Every way differs from the plain update in one setting. The two devices are halves of the same processors.
PLAIN = "plain"
WAYS: dict[str, dict[str, int]] = {
    PLAIN: {},
    "fused": {"fused": 1},
    "remat": {"remat": 1},
    "accumulate": {"accumulate": 4},
    "devices": {"devices": 2},
    "unclipped": {"clipped": 0},
}


def main() -> None:
    """The command line; --way is for its own processes."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument(
        "--ways", nargs="+", choices=list(WAYS), default=list(WAYS)[1:], help="beside plain (all)"
    )
    parser.add_argument("--preset", default="albert_large_v2", help="(albert_large_v2)")
    parser.add_argument("--layers", type=int, default=24, help="(24)")
    parser.add_argument("--batch_size", type=int, default=8, help="(8)")
    parser.add_argument("--seq_length", type=int, default=128, help="tokens (128)")
    parser.add_argument("--sharing", default="all", help="(all)")
    parser.add_argument("--updates", type=int, default=3, help="timed in each process (3)")
    parser.add_argument("--rounds", type=int, default=2, help="processes of each way (2)")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32", help="(float32)")
    parser.add_argument("--xla", action="store_true", help="XLA compiles forward and backward")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    smallest = {"batch_size": 4, "seq_length": 32, "updates": 1, "rounds": 1, "ways": "accumulate"}
    options = smoke.read_flags(parser, preset=smoke.PRESET, layers=1, **smallest)
    if options.way:
        print(json.dumps(train(options, **WAYS[options.way])))
    else:
        compare(options)


def compare(options: argparse.Namespace) -> None:
    """Runs the ways in turn and prints what they took."""
    runs: dict[str, list[dict]] = {way: [] for way in (PLAIN, *options.ways)}
    for _ in range(options.rounds):
        for way, done in runs.items():
            command = [sys.executable, "-m", "benchmarks.update", *sys.argv[1:], "--way", way]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            done.append(json.loads(output))
    columns = ["way", "peak above start-up, GB", "ratio", "seconds an update", "ratio", "first", "loss"]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for way, done in runs.items():
        peaks = ", ".join(f"{run['peak'] / 1e9:.2f}" for run in done)
        seconds = f"{pace(done):.2f} ({min(seconds_of(done)):.2f} to {max(seconds_of(done)):.2f})"
        losses = ", ".join(sorted({f"{run['loss']:.5f}" for run in done}))
        first = ", ".join(f"{run['first']:.1f}" for run in done)
        memory, time = peak(done) / peak(runs[PLAIN]), pace(done) / pace(runs[PLAIN])
        print(f"| {way} | {peaks} | {memory:.3f} | {seconds} | {time:.3f} | {first} | {losses} |")


def seconds_of(runs: list[dict]) -> list[float]:
    """Of all updates of some processes."""
    return [seconds for run in runs for seconds in run["seconds"]]


def pace(runs: list[dict]) -> float:
    """Seconds an update, the median."""
    return statistics.median(seconds_of(runs))


def peak(runs: list[dict]) -> float:
    """Bytes above start-up, the median of the processes."""
    return statistics.median(run["peak"] for run in runs)


def train(
    options: argparse.Namespace,
    fused: int = 0,
    remat: int = 0,
    accumulate: int = 1,
    devices: int = 1,
    clipped: int = 1,
) -> dict[str, float | list[float]]:
    """Bytes and times of updates of a new model.

    `whole` is the peak above what is resident once TensorFlow is imported, `peak` that above what is
    resident once model and optimizer are built; `seconds` are of updates but the `first`; `loss` is the last.
    """
    import tensorflow as tf
    import tf_keras as keras

    import albert_tf
    from albert_tf.constants import POLICIES
    from albert_tf.optimization import create_optimizer
    from albert_tf.pretraining.loss import pretraining_loss_fn
    from albert_tf.training.train_step import TrainStep

    keras.utils.set_random_seed(1)
    imported = resident()
    strategy = tf.distribute.get_strategy()
    hosts = "TF_CONFIG" in os.environ  # each with a batch of its own
    if hosts:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    elif devices > 1:
        parts = [tf.config.LogicalDeviceConfiguration()] * devices
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)
        strategy = tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(devices)])
    config = albert_tf.PRESETS[options.preset].replace(
        num_hidden_layers=options.layers, sharing=options.sharing
    )
    step = tf.Variable(0, dtype=tf.int64, trainable=False)
    loss_fn = pretraining_loss_fn("sop", fused=bool(fused))
    data = tf.data.Dataset.from_tensors(
        random_batch(options.batch_size, options.seq_length, config.vocab_size)
    ).repeat()
    with strategy.scope():
        policy = POLICIES[options.precision]
        model = albert_tf.AlbertPretrainer(config, remat=bool(remat), fused=bool(fused), dtype=policy)
        optimizer = create_optimizer(
            "lamb", init_lr=1e-4, num_train_steps=100, num_warmup_steps=10, clip_norm=1.0 if clipped else None
        )
        optimizer.build(model.trainable_variables)
        train_step = TrainStep(
            model,
            optimizer,
            loss_fn,
            data.element_spec,
            step=step,
            seed=3,
            replicas_per_batch=1 if hosts else None,
            accumulate=accumulate,
            xla=options.xla,
        )
    batches, one = iter(data), tf.constant(1)

    before = resident()
    seconds = []
    for _ in range(1 + options.updates):
        started = time.perf_counter()
        with strategy.scope():
            loss = float(train_step(batches, one).terms["mlm"].loss)
        seconds.append(time.perf_counter() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "whole": peak - imported,
        "peak": peak - before,
        "seconds": seconds[1:],
        "first": seconds[0],
        "loss": loss,
    }


def random_batch(rows: int, length: int, vocab_size: int) -> dict:
    """A batch of pre-training without padding."""
    import numpy as np

    rng = np.random.default_rng(0)
    predictions = min(PREDICTIONS, length)
    return {
        "input_word_ids": rng.integers(5, vocab_size, [rows, length], np.int32),
        "input_mask": np.ones([rows, length], np.int32),
        "input_type_ids": np.zeros([rows, length], np.int32),
        "masked_lm_positions": np.sort(rng.integers(length, size=[rows, predictions], dtype=np.int32)),
        "masked_lm_ids": rng.integers(5, vocab_size, [rows, predictions], np.int32),
        "masked_lm_weights": np.ones([rows, predictions], np.float32),
        "sentence_order_labels": rng.integers(2, size=[rows], dtype=np.int32),
    }


def resident() -> int:
    """Bytes of memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    main()
