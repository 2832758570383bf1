"""Whole models as run directories: `save` and `load`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from albert_tf import filesystem
from albert_tf.config import AlbertConfig
from albert_tf.constants import EXPORT_RUNTIMES
from albert_tf.errors import InputError, Missing
from albert_tf.io import PathLike
from albert_tf.runs.build_model import arguments_of, build_model, check_vocabulary, task_of
from albert_tf.runs.checkpoints import DamagedCheckpoint, check_step, model_reader, write_checkpoint
from albert_tf.runs.run_directory import CONFIG_FILE, TASK_FILE, RunContents, RunDirectory
from albert_tf.runs.variable_names import variable_names


def save(
    model: Any,
    run_dir: PathLike,
    vocabulary: PathLike | None = None,
    step: int = 0,
    tokenizer: Mapping[str, bool] | None = None,
    recipe: Mapping[str, Any] | None = None,
    task: Mapping[str, Any] | None = None,
) -> None:
    """Writes a model as a run directory, or as one more step of a run of the same model.

    Weights are kept as they are, NaN too: what went wrong can be looked at. Nothing is exported of them.

    Args:
      model: an AlbertPretrainer, AlbertEncoder, …
      run_dir: the run directory; made unless it exists.
      vocabulary: SentencePiece model to copy into a new run.
      step: training step that the weights are of.
      tokenizer: of a new run: see RunContents, as of the next two.
      recipe: of a new run.
      task: of a new run: further entries of task.json, such as `labels`.
    Raises:
      FileExistsError: the run has a checkpoint of this step, or the directory holds something else.
      ValueError: the run is of another model, the model is not one of this package, or the vocabulary does
        not fit the model, or has another tokenizer.
      OSError: a file cannot be read or written.
    """
    run, here = RunDirectory(run_dir), task_of(model)
    if filesystem.exists(run.file(CONFIG_FILE)):
        same = run.task.get("model") == here["model"] and arguments_of(run.task) == arguments_of(here)
        if not same or run.config != model.config:
            raise InputError(f"{run} is the run of another model: its {CONFIG_FILE} or {TASK_FILE} differs")
        write_checkpoint(run, step, model=model)
        return
    if vocabulary is not None:
        check_vocabulary(vocabulary, model.config.vocab_size)
    contents = RunContents(model.config, {**(task or {}), **here}, vocabulary, tokenizer, recipe)
    with filesystem.new_folder(run.path, contents.files()) as folder:
        write_checkpoint(folder, step, model=model)


def load(run_dir: PathLike, step: int | None = None, **kwargs: Any) -> Any:
    """The model of a run directory, of the class that task.json names, with the weights of a step.

    Args:
      run_dir: the run directory.
      step: training step; None takes that of `RunDirectory.default_step`.
      **kwargs: of keras.Model, such as `dtype`.
    Raises:
      FileNotFoundError: the run, or its checkpoint, does not exist.
      ValueError: a file of the run is damaged; the message names it.
    """
    stored = open_stored_model(run_dir, step)
    return build_model(stored.config, stored.task, stored.read, **kwargs)


_SHORTEST = 3  # tokens of an input: one of text, and the special ones around it


class StoredModel(NamedTuple):
    """The model of a run directory, its weights not yet read."""

    config: AlbertConfig
    task: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]  # of its variables by name
    read: Callable[[str], np.ndarray | None]  # the value of one of them; None for what is not a variable


def open_stored_model(run_dir: PathLike, step: int | None = None) -> StoredModel:
    """The model that `load` builds; arguments and errors are the same."""
    run = open_run(run_dir)
    config, task = run.config, run.task
    if (seq_length := task.get("seq_length", _SHORTEST)) < _SHORTEST:
        raise InputError(f"{run.file(TASK_FILE)}: seq_length={seq_length} has no place for a token of text")
    if seq_length > (most := config.max_position_embeddings):
        raise InputError(
            f"{run.file(TASK_FILE)}: seq_length={seq_length} is more than the network's {most} positions"
        )
    step = run.default_step() if step is None else check_step(step)
    if step is None:
        runtimes = [name for name, file in EXPORT_RUNTIMES.items() if filesystem.exists(run.file(file))]
        if runtimes:
            raise Missing(f"{run} is an export for {runtimes[0]}: name its run, or see examples/runtimes")
        raise Missing(f"{run.file('checkpoints')} holds no checkpoint: nothing to load")
    shapes = {names.ours: names.shape for names in variable_names(config, task)}
    try:
        read = model_reader(run, step, shapes)
    except DamagedCheckpoint as error:
        raise DamagedCheckpoint(f"{error}: {_remedy(run, step)}") from error
    return StoredModel(config, task, shapes, read)


def open_run(run: PathLike) -> RunDirectory:
    """The run directory at a path, or the one that is given."""
    return run if isinstance(run, RunDirectory) else RunDirectory(run)


def _remedy(run: RunDirectory, step: int | None) -> str:
    """A remedy where the checkpoint of a step is of no use."""
    others = [str(other) for other in run.steps() if other != step]
    return f"--step takes another, of {', '.join(others)}" if others else "copy the run again, or train again"


def check_finite(model: Any, run: PathLike, step: int | None = None) -> None:
    """InputError if variables of a model hold NaN or infinity, with a remedy for the run that it is from."""
    names = [
        variable.name.partition(":")[0]
        for variable in model.variables
        if not np.isfinite(np.asarray(variable.read_value(), np.float32)).all()
    ]
    if names:
        run = open_run(run)
        remedy = _remedy(run, run.default_step() if step is None else step)
        raise InputError(f"{run}: NaN or infinity in {', '.join(names)}: {remedy}")
