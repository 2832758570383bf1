"""Log lines about the programs that XLA compiles, before anybody waits for them."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf
from absl import logging
from tqdm import tqdm

from albert_tf.features import MASK
from albert_tf.training.train_step import Batch


def compilation_log(program: str) -> Callable[[Batch], None]:
    """A function that logs a line for each new shape of its batches; `program` is what is computed of them.

    It is called outside of the graph, right before the batch is computed.
    """
    strategy = tf.distribute.get_strategy()
    shapes: set[tuple[int, ...]] = set()

    def log(batch: Batch) -> None:
        shape = tuple(strategy.experimental_local_results(batch[MASK])[0].shape)
        if shape not in shapes:
            shapes.add(shape)
            size = " × ".join(map(str, shape))
            with tqdm.external_write_mode():  # above a progress bar
                logging.info(
                    "compiling the %s for %s tokens, once; on a GPU that takes about a minute", program, size
                )

    return log
