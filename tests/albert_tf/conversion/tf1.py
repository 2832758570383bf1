"""Checkpoints of TF1 as dicts of arrays, to be changed and written anew."""

from pathlib import Path

import numpy as np
import tensorflow as tf


def read(prefix: Path) -> dict[str, np.ndarray]:
    """Everything in a checkpoint, by name."""
    reader = tf.train.load_checkpoint(str(prefix))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def write(prefix: Path, values: dict[str, np.ndarray]) -> None:
    """Writes a checkpoint, over an older one."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(values),
        shape_and_slices=[""] * len(values),
        tensors=[tf.constant(value) for value in values.values()],
    )
