"""Checkpoints of a run: write, read, list and delete them."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError, MissingFileError, already_exists_error, check_whole, system_error
from albert_tf.filesystem import atomic_files, exists, join, list_entries, literal_path, remove_unfinished
from albert_tf.io import PathLike

# Errors of TensorFlow for checkpoints that are damaged, unreadable, or of another model.
_READ_ERRORS = (tf.errors.OpError, ValueError, RuntimeError, LookupError, AssertionError, MemoryError)

# Errors of memory and of remote filesystems, which do not mean that a file is damaged.
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
    """The files of a checkpoint are damaged."""


class OtherPipeline(InputError):
    """The iterator in a checkpoint is of another input pipeline, for example from before an upgrade."""


@contextlib.contextmanager
def translate_read_errors(prefix: str) -> Iterator[None]:
    """Translates TensorFlow's errors while it reads a checkpoint into one line.

    Raises:
      DamagedCheckpoint: its files are damaged.
      OtherPipeline: its iterator does not fit.
      InputError: it is of another model.
      OSError: it cannot be read; it may be intact.
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
        if cause is not None and cause.errno != errno.ENOENT:  # ENOENT is a lost file: damage
            file = str(cause.filename).replace(literal_path(prefix), prefix)
            raise OSError(cause.errno, f"cannot be read: {cause.strerror}", file) from error
        if isinstance(error, _UNREAD):
            raise OSError(f"{prefix}.index cannot be read now: {reason or type(error).__name__}") from error
        raise DamagedCheckpoint(f"{prefix}.index or its .data file is damaged: {reason}") from error


class CheckpointTensors(NamedTuple):
    """The tensors of a checkpoint, which are read one at a time to save memory."""

    origin: str  # its path, for errors
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, str]  # names of NumPy and TensorFlow
    read: Callable[[str], np.ndarray]

    def rename(self, names: Mapping[str, str]) -> CheckpointTensors:
        """Selects the tensors that are values of `names`, and renames them to its keys."""
        shapes = {new: self.shapes[old] for new, old in names.items()}
        dtypes = {new: self.dtypes[old] for new, old in names.items()}
        return CheckpointTensors(self.origin, shapes, dtypes, lambda name: self.read(names[name]))


def open_checkpoint(prefix: str | os.PathLike[str]) -> CheckpointTensors:
    """Opens a TensorFlow checkpoint, given its path without `.index` and `.data-…`.

    Raises:
      FileNotFoundError: there is no such checkpoint.
      InputError, OSError: see `translate_read_errors`. Reading a tensor raises them, too.
    """
    prefix = os.fspath(prefix)
    if not exists(f"{prefix}.index"):
        raise MissingFileError(f"{prefix}.index is missing: no checkpoint there")
    with translate_read_errors(prefix):
        # tf.train.load_checkpoint mistakes a prefix for a folder on some filesystems.
        reader = tf.compat.v1.train.NewCheckpointReader(literal_path(prefix))
        shapes = {name: tuple(shape) for name, shape in sorted(reader.get_variable_to_shape_map().items())}
        dtypes = {name: dtype.name for name, dtype in reader.get_variable_to_dtype_map().items()}

    def read(name: str) -> np.ndarray:
        with translate_read_errors(prefix):
            return reader.get_tensor(name)

    return CheckpointTensors(prefix, shapes, dtypes, read)


# The end of the key of a variable's value in a checkpoint; in the path before it `/` is written `.S`.
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


def checkpoint_prefix(run: PathLike, step: int | None) -> str:
    """The path of the checkpoint of a step, without `.index` and `.data-…`."""
    return join(run, "checkpoints", f"ckpt-{step}")


def checkpoint_steps(run: PathLike) -> list[int]:
    """The steps with a checkpoint, ascending."""
    return sorted(step for step, names in _files(run).items() if names[0].endswith(".index"))


def _files(run: PathLike) -> dict[int, list[str]]:
    """Names of the checkpoints' files by step, the index first."""
    files: dict[int, list[str]] = {}
    for name in list_entries(join(run, "checkpoints")):
        if match := re.fullmatch(r"ckpt-(0|[1-9][0-9]*)\.(index|data-\d+-of-\d+)", name):
            files.setdefault(int(match[1]), []).append(name)
    return {step: names[::-1] for step, names in files.items()}


def write_checkpoint(run: PathLike, step: int, /, **parts: Any) -> None:
    """Writes the checkpoint of a step, whole or not at all.

    Args:
      run: the run directory.
      step: training step.
      **parts: objects to save by name: `model`, and those that resume training.
    Raises:
      ValueError: the step is not a whole number, or negative.
      FileExistsError: the run has a checkpoint of this step.
      OSError: it cannot be written.
    """
    step = check_whole("step", step)
    prefix = checkpoint_prefix(run, step)
    if step in checkpoint_steps(run):
        raise already_exists_error(f"{prefix}.index", "name another `step`, or another folder")
    with atomic_files(join(run, "checkpoints"), f"ckpt-{step}") as temporary:
        tf.train.Checkpoint(**parts).write(join(temporary, f"ckpt-{step}"))


def delete_checkpoint(run: PathLike, step: int) -> None:
    """Deletes the checkpoint of a step, the index first, so that no broken checkpoint remains."""
    for name in _files(run).get(step, []):
        tf.io.gfile.remove(join(run, "checkpoints", name))


def quarantine(run: PathLike, step: int) -> None:
    """Renames the files of a checkpoint to `damaged-ckpt-<step>.*`, so that the run ignores it."""
    for name in _files(run)[step]:
        old, new = (join(run, "checkpoints", name) for name in (name, f"damaged-{name}"))
        tf.io.gfile.rename(old, new, overwrite=True)


def remove_unfinished_checkpoints(run: PathLike) -> None:
    """Deletes incomplete checkpoints of a process that was killed while it wrote or deleted one.

    Data files without an index stay if they are newer than every checkpoint: the index may have been lost.
    """
    unfinished, steps = remove_unfinished(join(run, "checkpoints")), checkpoint_steps(run)
    for step in _files(run).keys() - set(steps):
        if step < max(steps, default=0) or f"ckpt-{step}" in unfinished:
            delete_checkpoint(run, step)


def checkpoint_parts(run: PathLike, step: int) -> set[str]:
    """Names of the parts that `write_checkpoint` saved."""
    return _parts(_open_step(run, step))


def _parts(bundle: CheckpointTensors) -> set[str]:
    return {key.partition("/")[0] for key in bundle.shapes if "/" in key}


def read_checkpoint(run: PathLike, step: int, /, **parts: Any) -> None:
    """Restores parts of the checkpoint of a step.

    Every variable of a part must be in the checkpoint. For `model`, every variable in the checkpoint must
    also be in the model.

    Args:
      run: the run directory.
      step: training step of the checkpoint.
      **parts: objects to restore, by the names of `write_checkpoint`. Other parts are not read.
    Raises:
      FileNotFoundError: the run lacks this checkpoint; the message lists those that it has.
      DamagedCheckpoint: its files are damaged; the message names them.
      OSError: the files cannot be read; they may be intact.
      InputError: the checkpoint is of another model, or lacks one of the parts.
    """
    bundle = _open_step(run, step)
    if missing := parts.keys() - _parts(bundle):
        raise InputError(f"{bundle.origin}.index holds no {' and no '.join(sorted(missing))}")
    if "model" in parts:
        _model_keys(bundle, {v.name.partition(":")[0]: tuple(v.shape) for v in parts["model"].variables})
    with translate_read_errors(bundle.origin):
        status = tf.train.Checkpoint(**parts).read(literal_path(bundle.origin))
        status.assert_existing_objects_matched().expect_partial()


def _open_step(run: PathLike, step: int) -> CheckpointTensors:
    """Opens the checkpoint of a step. Raises FileNotFoundError, with the steps that exist."""
    prefix = checkpoint_prefix(run, step)
    if not exists(f"{prefix}.index"):
        known = ", ".join(map(str, checkpoint_steps(run))) or "none"
        raise MissingFileError(
            f"{prefix}.index is missing: {os.fspath(run)} has checkpoints of steps {known}"
        )
    return open_checkpoint(prefix)


def model_reader(
    run: PathLike, step: int, variables: Mapping[str, tuple[int, ...]]
) -> Callable[[str], np.ndarray | None]:
    """Creates a function that reads a model's variables from a checkpoint, one by one.

    Args:
      run: the run directory.
      step: training step of the checkpoint.
      variables: names and shapes of all variables of the model.
    Returns:
      A function from a variable's name to its value, or None for other names.
    Raises:
      FileNotFoundError, DamagedCheckpoint, OSError, InputError: see `read_checkpoint`. The function raises
        them, too.
    """
    bundle = _open_step(run, step)
    keys = _model_keys(bundle, variables)
    return lambda name: bundle.read(keys[name]) if name in keys else None


def _model_keys(bundle: CheckpointTensors, variables: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Keys in a checkpoint by variables' names. Raises InputError if it is of another model."""
    keys = {}
    for key in bundle.shapes:
        if key.startswith("model/") and key.endswith(_VALUE):
            name = key.removesuffix(_VALUE).rpartition("/")[2].replace(".S", "/")
            # All our variables are in a scope. The optimizer and metrics of a compiled Keras model are not.
            if "/" in name:
                keys[name] = key
    problems = [f"{name} is missing" for name in sorted(variables.keys() - keys.keys())]
    problems += [f"{name} is not in the model" for name in sorted(keys.keys() - variables.keys())]
    problems += [
        f"{name} is {list(bundle.shapes[keys[name]])}, {list(variables[name])} in the model"
        for name in sorted(variables.keys() & keys.keys())
        if variables[name] != bundle.shapes[keys[name]]
    ]
    if problems:
        raise InputError(f"{bundle.origin}.index is of another model: {'; '.join(problems)}")
    return keys
