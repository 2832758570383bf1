"""TensorFlow's own checkpoint files, `<prefix>.index` and `<prefix>.data-…`, with its errors in one line."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from albert_tf.utils.errors import InputError

# What TensorFlow raises where a checkpoint is damaged, unreadable, or does not fit what is to be restored.
_READ_ERRORS = (tf.errors.OpError, ValueError, RuntimeError, LookupError, AssertionError, MemoryError)

# Errors that do not mean that the files are damaged.
_SOUND = {
    AssertionError: "is of another model, or of other training",
    tf.errors.PermissionDeniedError: "cannot be read",
    tf.errors.UnavailableError: "cannot be read now",
}


class DamagedCheckpoint(InputError):
    """A checkpoint's files are not what was written."""


class OtherPipeline(InputError):
    """A checkpoint's iterator is of another input pipeline, as an older version made it."""


@contextlib.contextmanager
def reading(prefix: str) -> Iterator[None]:
    """Makes what TensorFlow raises while it reads a checkpoint an InputError of one line.

    Raises:
      DamagedCheckpoint: its files are damaged.
      OtherPipeline: its iterator does not fit.
      InputError: it is of another model, or cannot be read.
    """
    try:
        yield
    except _READ_ERRORS as error:
        reason = str(getattr(error, "message", error)).partition("\n")[0]
        if "restore dataset iterator" in reason:
            raise OtherPipeline(f"{prefix}.index: {reason}") from error
        for kind, what in _SOUND.items():
            if isinstance(error, kind):
                raise InputError(f"{prefix}.index {what}: {reason}") from error
        raise DamagedCheckpoint(f"{prefix}.index or its .data file is damaged: {reason}") from error


class TensorBundle:
    """The tensors of a checkpoint by name, read one at a time.

    Args:
      prefix: its path without `.index` and `.data-…`.
    Raises: as `reading`.
    """

    def __init__(self, prefix: str | os.PathLike[str]):
        self.prefix = os.fspath(prefix)
        with reading(self.prefix):
            # tf.train.load_checkpoint takes a prefix on some filesystems for a folder.
            self._reader = tf.compat.v1.train.NewCheckpointReader(self.prefix)
            shapes = sorted(self._reader.get_variable_to_shape_map().items())
            types = self._reader.get_variable_to_dtype_map()
        self.shapes = {name: tuple(shape) for name, shape in shapes}
        self.dtypes = {name: dtype.name for name, dtype in types.items()}

    def read(self, name: str) -> np.ndarray:
        """The value of a tensor."""
        with reading(self.prefix):
            return self._reader.get_tensor(name)
