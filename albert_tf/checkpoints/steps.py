"""The checkpoints of a run: `checkpoints/ckpt-<step>.*`, each there whole or not at all.

A checkpoint is an object-based tf.train.Checkpoint of named parts (model, optimizer, iterator, …).
TensorFlow writes it into a folder of its own; its files are then renamed, the index last: a step exists when
its index does.
"""

from __future__ import annotations

import numbers
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.storage import (
    PathLike,
    entries,
    join,
    literal_path,
    remove_unfinished,
    written_together,
)
from albert_tf.checkpoints.tensor_bundle import Tensors, open_bundle, reading
from albert_tf.utils.errors import InputError, Missing, exists_already, shown

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
    for name in entries(join(run, "checkpoints")):
        if match := re.fullmatch(r"ckpt-(0|[1-9][0-9]*)\.(index|data-\d+-of-\d+)", name):
            found.setdefault(int(match[1]), []).append(name)
    return {step: names[::-1] for step, names in found.items()}


def checked_step(step: Any) -> int:
    """A step; an InputError if it is not a whole number, or negative."""
    if isinstance(step, bool) or not isinstance(step, numbers.Integral) or step < 0:
        raise InputError(f"step={shown(step)} must be a whole number, at least 0")
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
    step = checked_step(step)
    prefix = checkpoint_prefix(run, step)
    if step in checkpoint_steps(run):
        raise exists_already(f"{prefix}.index", "name another `step`, or another folder")
    with written_together(join(run, "checkpoints"), f"ckpt-{step}") as temporary:
        tf.train.Checkpoint(**parts).write(join(temporary, f"ckpt-{step}"))


def delete_checkpoint(run: PathLike, step: int) -> None:
    """Deletes the checkpoint of a step, the index first, so that it is never there in part."""
    for name in _files(run).get(step, []):
        tf.io.gfile.remove(join(run, "checkpoints", name))


def set_aside(run: PathLike, step: int) -> None:
    """Renames the files of a checkpoint to `damaged-ckpt-<step>.*`: it is no longer one of the run's."""
    for name in _files(run)[step]:
        old, new = (join(run, "checkpoints", name) for name in (name, f"damaged-{name}"))
        tf.io.gfile.rename(old, new, overwrite=True)


def clean_up(run: PathLike) -> None:
    """Deletes what a process that was killed in the middle of writing or deleting a checkpoint has left.

    Data files without an index stay if they are newer than every checkpoint: somebody may have lost it.
    """
    unfinished, steps = remove_unfinished(join(run, "checkpoints")), checkpoint_steps(run)
    for step in _files(run).keys() - set(steps):
        if step < max(steps, default=0) or f"ckpt-{step}" in unfinished:
            delete_checkpoint(run, step)


def checkpoint_parts(run: PathLike, step: int) -> set[str]:
    """The names under which `write_checkpoint` was given the parts of a checkpoint."""
    return _parts(open_bundle(_existing(run, step)))


def _parts(bundle: Tensors) -> set[str]:
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
    bundle = open_bundle(_existing(run, step))
    if missing := parts.keys() - _parts(bundle):
        raise InputError(f"{bundle.origin}.index holds no {' and no '.join(sorted(missing))}")
    if "model" in parts:
        _model_keys(bundle, {v.name.partition(":")[0]: tuple(v.shape) for v in parts["model"].variables})
    with reading(bundle.origin):
        status = tf.train.Checkpoint(**parts).read(literal_path(bundle.origin))
        status.assert_existing_objects_matched().expect_partial()


def _existing(run: PathLike, step: int) -> str:
    """The prefix of a checkpoint; FileNotFoundError if there is none."""
    prefix, steps = checkpoint_prefix(run, step), checkpoint_steps(run)
    if step not in steps:
        known = ", ".join(map(str, steps)) or "none"
        raise Missing(f"{prefix}.index is missing: {os.fspath(run)} has checkpoints of steps {known}")
    return prefix


def model_reader(
    run: PathLike, step: int, variables: Mapping[str, tuple[int, ...]]
) -> Callable[[str], np.ndarray | None]:
    """Reads a model's variables, given the shapes of all of them, from the checkpoint of a step one by one.

    Returns:
      A function from a variable's name to its value, None for other names.
    Raises: as `read_checkpoint`; so does the function.
    """
    bundle = open_bundle(_existing(run, step))
    keys = _model_keys(bundle, variables)
    return lambda name: bundle.read(keys[name]) if name in keys else None


def _model_keys(bundle: Tensors, variables: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
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
