"""TensorFlow's own checkpoint files, `<prefix>.index` and `<prefix>.data-…`, with its errors in one line."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

from albert_tf.errors import InputError

# What TensorFlow raises where a checkpoint is damaged, unreadable, or does not fit what is to be restored.
READ_ERRORS = (tf.errors.OpError, ValueError, RuntimeError, LookupError, AssertionError, MemoryError)

# The index is a table of LevelDB's format. It ends with a footer: two handles, each the offset and the size
# of a block, and a magic number. Every block has a checksum, the footer has none.
_FOOTER, _MAGIC, _BLOCK_TRAILER = 48, bytes.fromhex("57fb808b247547db"), 5


def checkpoint_shapes(prefix: Path) -> dict[str, list[int]]:
    """The shape of everything in a TensorFlow checkpoint, by its name there; ValueError if it is damaged."""
    try:
        check_footer(prefix.with_name(f"{prefix.name}.index"))
        return dict(tf.train.list_variables(str(prefix)))
    except READ_ERRORS as error:
        raise unreadable(prefix, error) from error


def check_footer(index: Path) -> None:
    """ValueError where the footer of an index does not fit the file.

    TensorFlow believes the sizes in it, and allocates as much.
    """
    content = index.read_bytes()
    footer = content[-_FOOTER:]
    if len(footer) < _FOOTER or not footer.endswith(_MAGIC):
        raise InputError("the index is cut off, or no index at all")
    position = 0
    for _ in range(2):
        offset, position = _varint(footer, position)
        size, position = _varint(footer, position)
        if offset + size + _BLOCK_TRAILER > len(content) - _FOOTER:
            raise InputError("the footer of the index points outside the file")


def _varint(content: bytes, position: int) -> tuple[int, int]:
    """The number at a position, seven bits a byte, and the position behind it."""
    value = shift = 0
    while True:
        byte = content[position]  # the magic number ends any sequence of bytes above 127
        value |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return value, position


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


def unreadable(prefix: Path, error: Exception) -> InputError:
    """One line for what TensorFlow raises while it reads a checkpoint: damage, unless the files are sound."""
    reason = str(getattr(error, "message", error)).partition("\n")[0]
    if "restore dataset iterator" in reason:
        return OtherPipeline(f"{prefix}.index: {reason}")
    for kind, what in _SOUND.items():
        if isinstance(error, kind):
            return InputError(f"{prefix}.index {what}: {reason}")
    return DamagedCheckpoint(f"{prefix}.index or its .data file is damaged: {reason}")
