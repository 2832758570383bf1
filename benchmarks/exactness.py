"""How much the same updates differ by XLA, replicas, microbatches and recomputation.

    python -m benchmarks.exactness

Trains a small network for some updates of AdamW on random tokens, on virtual devices of the CPU, without
dropout and with it. Each variant begins with the same weights. Prints a row for each variant as Markdown: the
largest difference of a weight from the plain variant after the last update, divided by the largest change
of a weight by the updates, and the relative difference of the last loss.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

import albert_tf
from albert_tf.optimization import create_optimizer
from albert_tf.pretraining.loss import pretraining_loss_fn
from albert_tf.training.train_step import TrainStep
from benchmarks import smoke
from benchmarks.markdown_tables import print_header, print_row
from benchmarks.update import random_update_batch

PLAIN: dict[str, Any] = {"replicas": 1, "accumulate": 1, "xla": False, "remat": False, "fused": False}
TRAINING_VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "plain, again": {},
    "elementwise functions compiled (`--noxla`)": {"fused": True},
    "`--xla`": {"xla": True},
    "2 replicas": {"replicas": 2},
    "`--accumulate 2`": {"accumulate": 2},
    "`--accumulate 2 --xla`": {"accumulate": 2, "xla": True},
    "`--remat`": {"remat": True},
    "`--remat --xla`": {"remat": True, "xla": True},
}
DROPOUTS = (0.0, 0.1)
BATCH, LENGTH, VOCABULARY = 8, 64, 1000


def main() -> None:
    """Prints the rows."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--updates", type=int, default=10, help="(10)")
    names = list(TRAINING_VARIANTS)
    parser.add_argument("--ways", nargs="+", choices=names, default=names[1:], help="beside plain (all)")
    flags = smoke.read_flags(parser, updates=1, ways="2 replicas")
    devices = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
    print_header("way", "weights, no dropout", "loss", "weights, dropout 0.1", "loss")
    plain: dict[float, tuple[np.ndarray, np.ndarray, float]] = {}
    for name in ("plain", *flags.ways):
        cells = []
        for dropout in DROPOUTS:
            variant = {**PLAIN, **TRAINING_VARIANTS[name]}
            first, last, loss = train_variant(dropout, flags.updates, **variant)
            _, expected, plain_loss = plain.setdefault(dropout, (first, last, loss))
            difference = max_difference(last, expected) / max_difference(expected, first)
            cells += [f"{difference:.1e}", f"{abs(loss / plain_loss - 1):.1e}"]
        if name != "plain":
            print_row(name, *cells)


def max_difference(first: np.ndarray, second: np.ndarray) -> float:
    """The largest difference of two values at one place."""
    return np.abs(first - second).max()


def train_variant(
    dropout: float, updates: int, *, replicas: int, accumulate: int, xla: bool, remat: bool, fused: bool
) -> tuple[np.ndarray, np.ndarray, float]:
    """The weights before the updates and after them, an array of rank 1 each, and the last loss."""
    keras.utils.set_random_seed(1)
    config = albert_tf.PRESETS["albert_base_v2"].replace(
        vocab_size=VOCABULARY, num_hidden_layers=4, hidden_size=128, num_attention_heads=4,
        intermediate_size=512, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
    )  # fmt: skip
    names = [f"CPU:{index}" for index in range(replicas)]
    strategy = tf.distribute.MirroredStrategy(names) if replicas > 1 else tf.distribute.get_strategy()
    loss_fn = pretraining_loss_fn("sop", fused=fused)
    data = tf.data.Dataset.from_tensors(random_update_batch(BATCH, LENGTH, VOCABULARY)).repeat()
    with strategy.scope():
        model = albert_tf.AlbertPretrainer(config, remat=remat, fused=fused)
        optimizer = create_optimizer("adamw", init_lr=1e-3, num_train_steps=100, num_warmup_steps=1)
        optimizer.build(model.trainable_variables)
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
        options = {"step": step, "seed": 3, "accumulate": accumulate, "xla": xla}
        train_step = TrainStep(model, optimizer, loss_fn, data.element_spec, **options)
        first, batches = flatten_weights(model), iter(data)
        losses = [float(train_step(batches, tf.constant(1)).terms["mlm"].loss) for _ in range(updates)]
    return first, flatten_weights(model), losses[-1]


def flatten_weights(model: keras.Model) -> np.ndarray:
    """The trainable weights of a model as an array of rank 1."""
    return np.concatenate([variable.numpy().ravel() for variable in model.trainable_variables])


if __name__ == "__main__":
    main()
