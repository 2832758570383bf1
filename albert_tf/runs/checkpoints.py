"""Checkpoints of a run: written whole, read, listed, deleted."""

from __future__ import annotations

import contextlib
import errno
import numbers
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError, Missing, exists_already, shorten, system_error
from albert_tf.filesystem import exists, join, list_entries, literal_path, remove_unfinished, write_together
from albert_tf.io import PathLike

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
def naming_damage(prefix: str) -> Iterator[None]:
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


class CheckpointTensors(NamedTuple):
    """The tensors of a checkpoint, read one at a time: a large one does not fit into memory twice."""

    origin: str  # for error messages
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, str]  # names as NumPy and TensorFlow have them
    read: Callable[[str], np.ndarray]

    def renamed(self, names: Mapping[str, str]) -> CheckpointTensors:
        """Those among the values of `names`, by its keys."""
        shapes = {new: self.shapes[old] for new, old in names.items()}
        dtypes = {new: self.dtypes[old] for new, old in names.items()}
        return CheckpointTensors(self.origin, shapes, dtypes, lambda name: self.read(names[name]))


def open_checkpoint(prefix: str | os.PathLike[str]) -> CheckpointTensors:
    """The tensors of a TensorFlow checkpoint, by its path without `.index` and `.data-…`.

    Raises:
      FileNotFoundError: there is no such checkpoint.
      InputError, OSError: as `naming_damage`; reading a tensor raises them, too.
    """
    prefix = os.fspath(prefix)
    if not exists(f"{prefix}.index"):
        raise Missing(f"{prefix}.index is missing: no checkpoint there")
    with naming_damage(prefix):
        # tf.train.load_checkpoint takes a prefix on some filesystems for a folder.
        reader = tf.compat.v1.train.NewCheckpointReader(literal_path(prefix))
        shapes = {name: tuple(shape) for name, shape in sorted(reader.get_variable_to_shape_map().items())}
        dtypes = {name: dtype.name for name, dtype in reader.get_variable_to_dtype_map().items()}

    def read(name: str) -> np.ndarray:
        with naming_damage(prefix):
            return reader.get_tensor(name)

    return CheckpointTensors(prefix, shapes, dtypes, read)


# How TensorFlow names a variable's value in a checkpoint: path, `/` written as `.S`, and this.
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


def checkpoint_prefix(run: PathLike, step: int | None) -> str:
    """The path of the checkpoint of a step, without `.index` and `.data-…`."""
    return join(run, "checkpoints", f"ckpt-{step}")


def checkpoint_steps(run: PathLike) -> list[int]:
    """The steps that a run has checkpoints of, ascending; empty if there are none."""
    return sorted(step for step, names in _files(run).items() if names[0].endswith(".index"))


def _files(run: PathLike) -> dict[int, list[str]]:
    """The names of the checkpoints' files by step, the index first if there is one."""
    found: dict[int, list[str]] = {}
    for name in list_entries(join(run, "checkpoints")):
        if match := re.fullmatch(r"ckpt-(0|[1-9][0-9]*)\.(index|data-\d+-of-\d+)", name):
            found.setdefault(int(match[1]), []).append(name)
    return {step: names[::-1] for step, names in found.items()}


def check_step(step: Any) -> int:
    """A step; an InputError if it is not a whole number, or negative."""
    if isinstance(step, bool) or not isinstance(step, numbers.Integral) or step < 0:
        raise InputError(f"step={shorten(step)} must be a whole number, at least 0")
    return int(step)


def write_checkpoint(run: PathLike, step: int, /, **parts: Any) -> None:
    """Writes the checkpoint of a step, whole or not at all.

    Args:
      run: the run directory.
      step: training step.
      **parts: objects to save by name: `model`, and whatever training goes on with.
    Raises:
      ValueError: the step is not a whole number, or negative.
      FileExistsError: the run has a checkpoint of this step.
      OSError: it cannot be written.
    """
    step = check_step(step)
    prefix = checkpoint_prefix(run, step)
    if step in checkpoint_steps(run):
        raise exists_already(f"{prefix}.index", "name another `step`, or another folder")
    with write_together(join(run, "checkpoints"), f"ckpt-{step}") as temporary:
        tf.train.Checkpoint(**parts).write(join(temporary, f"ckpt-{step}"))


def delete_checkpoint(run: PathLike, step: int) -> None:
    """Deletes the checkpoint of a step, the index first, so that it is never there in part."""
    for name in _files(run).get(step, []):
        tf.io.gfile.remove(join(run, "checkpoints", name))


def quarantine(run: PathLike, step: int) -> None:
    """Renames the files of a checkpoint to `damaged-ckpt-<step>.*`: it is no longer one of the run's."""
    for name in _files(run)[step]:
        old, new = (join(run, "checkpoints", name) for name in (name, f"damaged-{name}"))
        tf.io.gfile.rename(old, new, overwrite=True)


def remove_unfinished_checkpoints(run: PathLike) -> None:
    """Deletes what a process that was killed in the middle of writing or deleting a checkpoint has left.

    Data files without an index stay if they are newer than every checkpoint: somebody may have lost it.
    """
    unfinished, steps = remove_unfinished(join(run, "checkpoints")), checkpoint_steps(run)
    for step in _files(run).keys() - set(steps):
        if step < max(steps, default=0) or f"ckpt-{step}" in unfinished:
            delete_checkpoint(run, step)


def checkpoint_parts(run: PathLike, step: int) -> set[str]:
    """The names under which `write_checkpoint` was given the parts of a checkpoint."""
    return _parts(_open_step(run, step))


def _parts(bundle: CheckpointTensors) -> set[str]:
    return {key.partition("/")[0] for key in bundle.shapes if "/" in key}


def read_checkpoint(run: PathLike, step: int, /, **parts: Any) -> None:
    """Restores parts from the checkpoint of a step; parts that are not asked for stay unread.

    Every variable of a part must be in the checkpoint; of `model`, every variable in the checkpoint must be
    in the model, too.

    Raises:
      FileNotFoundError: the run lacks this checkpoint; the message says which it has.
      DamagedCheckpoint: its files are damaged; the message names them.
      OSError: they cannot be read, whether or not they are damaged.
      InputError: the checkpoint is of another model, or lacks one of the parts.
    """
    bundle = _open_step(run, step)
    if missing := parts.keys() - _parts(bundle):
        raise InputError(f"{bundle.origin}.index holds no {' and no '.join(sorted(missing))}")
    if "model" in parts:
        _model_keys(bundle, {v.name.partition(":")[0]: tuple(v.shape) for v in parts["model"].variables})
    with naming_damage(bundle.origin):
        status = tf.train.Checkpoint(**parts).read(literal_path(bundle.origin))
        status.assert_existing_objects_matched().expect_partial()


def _open_step(run: PathLike, step: int) -> CheckpointTensors:
    """The tensors of the checkpoint of a step; FileNotFoundError, with the steps there are, without it."""
    prefix = checkpoint_prefix(run, step)
    if not exists(f"{prefix}.index"):
        known = ", ".join(map(str, checkpoint_steps(run))) or "none"
        raise Missing(f"{prefix}.index is missing: {os.fspath(run)} has checkpoints of steps {known}")
    return open_checkpoint(prefix)


def model_reader(
    run: PathLike, step: int, variables: Mapping[str, tuple[int, ...]]
) -> Callable[[str], np.ndarray | None]:
    """Reads a model's variables, given the shapes of all of them, from the checkpoint of a step one by one.

    Returns:
      A function from a variable's name to its value, None for other names.
    Raises: as `read_checkpoint`; so does the function.
    """
    bundle = _open_step(run, step)
    keys = _model_keys(bundle, variables)
    return lambda name: bundle.read(keys[name]) if name in keys else None


def _model_keys(bundle: CheckpointTensors, variables: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """The keys in a checkpoint by the names of a model's variables; InputError if it is of another model."""
    keys = {}
    for key in bundle.shapes:
        if key.startswith("model/") and key.endswith(_VALUE):
            name = key.removesuffix(_VALUE).rpartition("/")[2].replace(".S", "/")
            # Every variable of ours is in a scope. What Keras hangs on a compiled model, its optimizer and
            # metrics, is not.
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
