"""TensorFlow's own checkpoints, read a tensor at a time."""

from __future__ import annotations

import glob
import math
from pathlib import Path

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.tensor_bundle import READ_ERRORS, checkpoint_shapes, unreadable
from albert_tf.errors import InputError
from albert_tf.formats.transfer import Tensors


def open_bundle(prefix: Path) -> Tensors:
    """What a TensorFlow checkpoint holds.

    Args:
      prefix: the checkpoint's path without `.index` and `.data-…`.
    Returns:
      Its tensors, under the names that they have there.
    Raises:
      FileNotFoundError: the checkpoint does not exist.
      ValueError: it is damaged.
    """
    if not prefix.with_name(f"{prefix.name}.index").is_file():
        raise FileNotFoundError(f"{prefix}.index is missing: no checkpoint there")
    shapes = {name: tuple(shape) for name, shape in checkpoint_shapes(prefix).items()}
    reader = tf.train.load_checkpoint(str(prefix))
    types = reader.get_variable_to_dtype_map()
    files = list(prefix.parent.glob(f"{glob.escape(prefix.name)}.data-*"))
    needed = sum(types[name].size * math.prod(shape) for name, shape in shapes.items() if types[name].size)
    # Without data names and shapes can still be compared.
    if files and needed > sum(file.stat().st_size for file in files):
        raise InputError(f"{prefix}: its .data file is cut off, the index lists {needed} bytes")
    dtypes = {name: dtype.name for name, dtype in types.items()}

    def read(name: str) -> np.ndarray:
        try:
            return reader.get_tensor(name)
        except READ_ERRORS as error:
            raise unreadable(prefix, error) from error

    return Tensors(str(prefix), shapes, dtypes, read)
