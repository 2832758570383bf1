"""The checkpoints of a run: `checkpoints/ckpt-<step>.*`, each there whole or not at all.

A checkpoint is an object-based tf.train.Checkpoint of named parts (model, optimizer, iterator, …).
TensorFlow writes it into a folder of its own; its files are then, once the disk has them, renamed, the index
last: a step exists when its index does.
"""

from __future__ import annotations

import numbers
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.tensor_bundle import READ_ERRORS, checkpoint_shapes, unreadable
from albert_tf.errors import InputError, Missing, shown
from albert_tf.files import sync, writing

PathLike = str | os.PathLike[str]

# How TensorFlow names a variable's value in a checkpoint: path, `/` written as `.S`, and this.
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


def checkpoint_prefix(run: PathLike, step: int) -> Path:
    """Where the checkpoint of a step is, or would be, without `.index` and `.data-…`."""
    return Path(run) / "checkpoints" / f"ckpt-{step}"


def checkpoint_steps(run: PathLike) -> list[int]:
    """The steps that a run has checkpoints of, ascending; empty where there are none."""
    found = (_step_of(path) for path in Path(run).glob("checkpoints/*.index"))
    return sorted(step for step in found if step is not None)


def _step_of(file: Path) -> int | None:
    """The step whose checkpoint a file is a part of; None where somebody has named it otherwise."""
    match = re.fullmatch(r"ckpt-(0|[1-9][0-9]*)\.(index|data-\d+-of-\d+)", file.name)
    return int(match[1]) if match else None


def checked_step(step: Any) -> int:
    """A step; an InputError where it is not a whole number, or negative."""
    if isinstance(step, bool) or not isinstance(step, numbers.Integral) or step < 0:
        raise InputError(f"step={shown(step)} must be a whole number, at least 0")
    return int(step)


def newest_checkpoint(run: PathLike) -> int | None:
    """The last step that a run has a checkpoint of; None where there is none."""
    return max(checkpoint_steps(run), default=None)


def write_checkpoint(run: PathLike, step: int, /, **parts: Any) -> Path:
    """Writes the checkpoint of a step, whole or not at all.

    Args:
      run: the run directory.
      step: training step.
      **parts: what to save by name: `model`, and whatever training goes on with.
    Returns:
      The checkpoint's prefix.
    Raises:
      ValueError: the step is not a whole number, or negative.
      FileExistsError: the run has a checkpoint of this step.
      OSError: it cannot be written.
    """
    step = checked_step(step)
    prefix = checkpoint_prefix(run, step)
    if step in checkpoint_steps(run):
        raise FileExistsError(
            f"{prefix}.index exists already: the run {run} has a checkpoint of step {step}: name another "
            "step, or another folder"
        )
    temporary = _unfinished(prefix)
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        with writing(prefix, temporary):
            tf.train.Checkpoint(**parts).write(str(temporary / prefix.name))
            files = sorted(temporary.iterdir(), key=lambda file: file.suffix == ".index")
            for file in files:
                sync(file)
            for file in files:
                file.replace(prefix.with_name(file.name))
            sync(prefix.parent)  # an older checkpoint may be deleted next
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return prefix


def delete_checkpoint(run: PathLike, step: int) -> None:
    """Deletes the checkpoint of a step, the index first, so that it is never there in part."""
    prefix = checkpoint_prefix(run, step)
    prefix.with_name(f"{prefix.name}.index").unlink()
    for file in prefix.parent.glob(f"{prefix.name}.data-*"):
        file.unlink()


def set_aside(run: PathLike, step: int) -> None:
    """Renames the files of a checkpoint to `damaged-ckpt-<step>.*`: it is no longer one of the run's."""
    prefix = checkpoint_prefix(run, step)
    for file in sorted(prefix.parent.glob(f"{prefix.name}.*"), key=lambda file: file.suffix != ".index"):
        file.replace(file.with_name(f"damaged-{file.name}"))


def clean_up(run: PathLike) -> list[int]:
    """Deletes what a process that was killed in the middle of writing or deleting a checkpoint has left.

    Returns:
      The steps, ascending, of orphaned data files: newer than the checkpoints that the run has, and without
      an index, though nobody was writing them. It may have been lost: they stay, set aside.
    Raises:
      ValueError: there are such data, and no checkpoint.
    """
    folder, steps = Path(run) / "checkpoints", checkpoint_steps(run)
    data = {file: _step_of(file) for file in folder.glob("ckpt-*.data-*")}
    loose = {file: step for file, step in data.items() if step is not None and step not in steps}
    lost = {
        step
        for step in loose.values()
        if step > max(steps, default=-1) and not _unfinished(checkpoint_prefix(run, step)).exists()
    }
    if lost and not steps:
        raise InputError(
            f"{folder} holds data of checkpoints but no ckpt-{max(lost)}.index, without which they cannot be "
            "read: bring it back, or name another --output"
        )
    for file, step in loose.items():
        if step not in lost:
            file.unlink()
    for step in lost:
        set_aside(run, step)
    for temporary in folder.glob(".ckpt-*.writing"):
        shutil.rmtree(temporary, ignore_errors=True)
    return sorted(lost)


def _unfinished(prefix: Path) -> Path:
    """The folder in which a checkpoint is being written."""
    return prefix.with_name(f".{prefix.name}.writing")


def checkpoint_parts(run: PathLike, step: int) -> set[str]:
    """The names under which `write_checkpoint` was given the parts of a checkpoint."""
    return _parts(checkpoint_shapes(_existing(run, step)))


def _parts(keys: Iterable[str]) -> set[str]:
    return {key.partition("/")[0] for key in keys if "/" in key}


def read_checkpoint(run: PathLike, step: int, /, **parts: Any) -> None:
    """Restores parts from the checkpoint of a step; parts that are not asked for stay unread.

    Args:
      run: the run directory.
      step: training step.
      **parts: objects like those that were saved under these names. Of each, every variable must be in the
        checkpoint; of `model`, every variable in the checkpoint must be in the model, too.
    Raises:
      FileNotFoundError: the run lacks this checkpoint; the message says which it has.
      DamagedCheckpoint: its files cannot be read; the message names them.
      ValueError: the checkpoint is of another model, the message names file and variables, or it lacks one of
        the parts.
    """
    prefix = _existing(run, step)
    shapes = checkpoint_shapes(prefix)
    missing = parts.keys() - _parts(shapes)
    if missing:
        raise InputError(f"{prefix}.index holds no {' and no '.join(sorted(missing))}")
    if "model" in parts:
        variables = parts["model"].variables
        _check_model(
            prefix, shapes, {variable.name.partition(":")[0]: variable.shape for variable in variables}
        )
    try:
        status = tf.train.Checkpoint(**parts).read(str(prefix))
        status.assert_existing_objects_matched().expect_partial()
    except READ_ERRORS as error:
        raise unreadable(prefix, error) from error


def _existing(run: PathLike, step: int) -> Path:
    """The prefix of a checkpoint that is there; FileNotFoundError otherwise."""
    prefix = checkpoint_prefix(run, step)
    steps = checkpoint_steps(run)
    if step not in steps:
        known = f"it has those of steps {', '.join(map(str, steps))}" if steps else "it has none"
        raise Missing(f"{prefix}.index is missing: the run {run} has no such checkpoint, {known}")
    return prefix


def model_reader(
    run: PathLike, step: int, variables: Mapping[str, Sequence[int]]
) -> Callable[[str], np.ndarray | None]:
    """Reads a model's variables from the checkpoint of a step one by one.

    Args:
      run: the run directory.
      step: training step.
      variables: the shapes of all of the model's variables, by name.
    Returns:
      What reads the value of a variable by its name; None for what is not a variable of the model. It raises
      ValueError where the checkpoint is damaged.
    Raises:
      FileNotFoundError: the run lacks this checkpoint; the message says which it has.
      ValueError: the checkpoint is damaged or of another model; the message names file and variables.
    """
    prefix = _existing(run, step)
    shapes = checkpoint_shapes(prefix)
    _check_model(prefix, shapes, variables)
    keys = _model_keys(shapes)
    reader = tf.train.load_checkpoint(str(prefix))

    def read(name: str) -> np.ndarray | None:
        try:
            return reader.get_tensor(keys[name]) if name in variables else None
        except READ_ERRORS as error:
            raise unreadable(prefix, error) from error

    return read


def _check_model(
    prefix: Path, shapes: Mapping[str, list[int]], variables: Mapping[str, Sequence[int]]
) -> None:
    """ValueError, with their names, where the variables of a model are not those of its checkpoint."""
    ours = {name: list(shape) for name, shape in variables.items()}
    theirs = {name: shapes[key] for name, key in _model_keys(shapes).items()}
    problems = [f"{name} is missing" for name in sorted(ours.keys() - theirs.keys())]
    problems += [f"{name} is not in the model" for name in sorted(theirs.keys() - ours.keys())]
    problems += [
        f"{name} is {theirs[name]}, {ours[name]} in the model"
        for name in sorted(ours.keys() & theirs.keys())
        if ours[name] != theirs[name]
    ]
    if problems:
        raise InputError(f"{prefix}.index is of another model: {'; '.join(problems)}")


def _model_keys(keys: Iterable[str]) -> dict[str, str]:
    """The part of a checkpoint's contents that is a model's variables: the key of each by its own name."""
    found = {}
    for key in keys:
        if key.startswith("model/") and key.endswith(_VALUE):
            name = key.removesuffix(_VALUE).rpartition("/")[2].replace(".S", "/")
            # Every variable of ours is in a scope. What Keras hangs on a compiled model, its optimizer and
            # metrics, is not.
            if "/" in name:
                found[name] = key
    return found
