"""Tensors by name, and TensorFlow's own files of them, `<prefix>.index` and `<prefix>.data-…`."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.storage import literal_path
from albert_tf.utils.errors import InputError, Missing, system_error

# What TensorFlow raises where a checkpoint is damaged, unreadable, or does not fit what is to be restored.
_READ_ERRORS = (tf.errors.OpError, ValueError, RuntimeError, LookupError, AssertionError, MemoryError)

# Errors that say nothing of the files: of memory, and of a filesystem that is far away.
_UNREAD = (
    MemoryError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.PermissionDeniedError,
    tf.errors.ResourceExhaustedError,
    tf.errors.UnauthenticatedError,
    tf.errors.UnavailableError,
)


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
      InputError: it is of another model.
      OSError: it cannot be read, whether or not it is damaged.
    """
    try:
        yield
    except _READ_ERRORS as error:
        reason = (
            str(getattr(error, "message", error)).partition("\n")[0].replace(literal_path(prefix), prefix)
        )
        if "restore dataset iterator" in reason:
            raise OtherPipeline(f"{prefix}.index: {reason}") from error
        if isinstance(error, AssertionError):
            raise InputError(f"{prefix}.index is of another model, or of other training: {reason}") from error
        cause = system_error(error)
        if cause is not None and cause.errno != errno.ENOENT:  # which is one that somebody has lost
            file = str(cause.filename).replace(literal_path(prefix), prefix)
            raise OSError(cause.errno, f"cannot be read: {cause.strerror}", file) from error
        if isinstance(error, _UNREAD):
            raise OSError(f"{prefix}.index cannot be read now: {reason or type(error).__name__}") from error
        raise DamagedCheckpoint(f"{prefix}.index or its .data file is damaged: {reason}") from error


class Tensors(NamedTuple):
    """The tensors of a checkpoint, read one at a time: a large one does not fit into memory twice."""

    origin: str  # for error messages
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, str]  # names as NumPy and TensorFlow have them
    read: Callable[[str], np.ndarray]

    def renamed(self, names: Mapping[str, str]) -> Tensors:
        """Those among the values of `names`, by its keys."""
        shapes = {new: self.shapes[old] for new, old in names.items()}
        dtypes = {new: self.dtypes[old] for new, old in names.items()}
        return Tensors(self.origin, shapes, dtypes, lambda name: self.read(names[name]))


def open_bundle(prefix: str | os.PathLike[str]) -> Tensors:
    """The tensors of a TensorFlow checkpoint, by its path without `.index` and `.data-…`.

    Raises:
      FileNotFoundError: there is no such checkpoint.
      InputError, OSError: as `reading`; reading a tensor raises them, too.
    """
    prefix = os.fspath(prefix)
    if not tf.io.gfile.exists(f"{prefix}.index"):
        raise Missing(f"{prefix}.index is missing: no checkpoint there")
    with reading(prefix):
        # tf.train.load_checkpoint takes a prefix on some filesystems for a folder.
        reader = tf.compat.v1.train.NewCheckpointReader(literal_path(prefix))
        shapes = {name: tuple(shape) for name, shape in sorted(reader.get_variable_to_shape_map().items())}
        dtypes = {name: dtype.name for name, dtype in reader.get_variable_to_dtype_map().items()}

    def read(name: str) -> np.ndarray:
        with reading(prefix):
            return reader.get_tensor(name)

    return Tensors(prefix, shapes, dtypes, read)
