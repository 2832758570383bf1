"""TensorFlow's own checkpoint files, `<prefix>.index` and `<prefix>.data-…`, with its errors in one line."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from albert_tf.utils.errors import InputError

# What TensorFlow raises where a checkpoint is damaged, unreadable, or does not fit what is to be restored.
READ_ERRORS = (tf.errors.OpError, ValueError, RuntimeError, LookupError, AssertionError, MemoryError)


class DamagedCheckpoint(InputError):
    """A checkpoint's files are not what was written."""


class OtherPipeline(InputError):
    """A checkpoint's iterator is of another input pipeline, as an older version made it."""


# Errors that do not mean that the files are damaged.
_SOUND = {
    AssertionError: "is of another model, or of other training",
    tf.errors.PermissionDeniedError: "cannot be read",
    tf.errors.UnavailableError: "cannot be read now",
}


def checkpoint_shapes(prefix: str | os.PathLike[str]) -> dict[str, list[int]]:
    """The shape of everything in a TensorFlow checkpoint, by its name; ValueError if it is damaged."""
    try:
        return dict(sorted(checkpoint_reader(prefix).get_variable_to_shape_map().items()))
    except READ_ERRORS as error:
        raise unreadable(prefix, error) from error


def checkpoint_reader(prefix: str | os.PathLike[str]) -> Any:
    """TensorFlow's reader; `tf.train.load_checkpoint` takes a prefix on some filesystems for a folder."""
    return tf.compat.v1.train.NewCheckpointReader(os.fspath(prefix))


def unreadable(prefix: str | os.PathLike[str], error: Exception) -> InputError:
    """One line for what TensorFlow raises while it reads a checkpoint: damage, unless the files are sound."""
    reason = str(getattr(error, "message", error)).partition("\n")[0]
    if "restore dataset iterator" in reason:
        return OtherPipeline(f"{prefix}.index: {reason}")
    for kind, what in _SOUND.items():
        if isinstance(error, kind):
            return InputError(f"{prefix}.index {what}: {reason}")
    return DamagedCheckpoint(f"{prefix}.index or its .data file is damaged: {reason}")
