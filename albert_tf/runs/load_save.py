"""Whole models as run directories: `save` and `load`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf import filesystem
from albert_tf.errors import InputError
from albert_tf.io import PathLike
from albert_tf.runs.build_model import arguments_of, build_model, check_vocabulary, task_of
from albert_tf.runs.checkpoints import write_checkpoint
from albert_tf.runs.run_directory import BEST_KEY, CONFIG_FILE, TASK_FILE, RunContents, RunDirectory, open_run


def save(
    model: Any,
    run_dir: PathLike,
    vocabulary: PathLike | None = None,
    step: int = 0,
    tokenizer: Mapping[str, bool] | None = None,
    recipe: Mapping[str, Any] | None = None,
    task: Mapping[str, Any] | None = None,
) -> None:
    """Writes a model as a run directory, or adds a checkpoint to an existing run of the same model.

    The directory appears whole or not at all. Weights are written as they are, even if they hold NaN.

    Args:
      model: an `AlbertPretrainer`, `AlbertEncoder` or another model of this package.
      run_dir: path of the run directory.
      vocabulary: path of the vocabulary, which is copied into a new run.
      step: training step of the weights.
      tokenizer: for a new run, `lowercase` and `strip_accents` (bool each). None: as the vocabulary remembers
        them, or True.
      recipe: for a new run, how the weights were made; written to recipe.json.
      task: for a new run, further entries of task.json, such as `labels`.
    Raises:
      FileExistsError: the run has a checkpoint of this step, or the directory holds something else.
      InputError: the run is of another model or chooses its step by metrics, the model is not one of this
        package, or the vocabulary does not fit the model or the tokenizer's settings.
      OSError: a file cannot be read or written.

    Example:
      >>> import albert_tf
      >>> model = albert_tf.load("demo-output/run")
      >>> albert_tf.save(model.encoder, "encoder", vocabulary="demo-output/run/spiece.model")
      >>> type(albert_tf.load("encoder")).__name__
      'AlbertEncoder'
    """
    run, entries = RunDirectory(run_dir), task_of(model)
    if run.has(CONFIG_FILE):
        same = run.task.get("model") == entries["model"] and arguments_of(run.task) == arguments_of(entries)
        if not same or run.config != model.config:
            raise InputError(f"{run} is the run of another model: its {CONFIG_FILE} or {TASK_FILE} differs")
        if BEST_KEY in run.task:
            raise InputError(
                f"{run} takes the step that is best by its metrics, and this has none: name another folder"
            )
        write_checkpoint(run, step, model=model)
        return
    if vocabulary is not None:
        check_vocabulary(vocabulary, model.config.vocab_size)
    contents = RunContents(model.config, {**(task or {}), **entries}, vocabulary, tokenizer, recipe)
    with filesystem.new_folder(run.path, contents.files()) as folder:
        write_checkpoint(folder, step, model=model)


def load(run_dir: PathLike, step: int | None = None, **kwargs: Any) -> Any:
    """Builds the model of a run directory and loads its weights.

    Args:
      run_dir: path of the run directory.
      step: training step of the checkpoint. None: for a fine-tuned run the best step by its evaluations, for
        others the newest.
      **kwargs: arguments of `keras.Model`, such as `dtype` ("mixed_bfloat16").
    Returns:
      The model, of the class that task.json names: an `AlbertPretrainer`, `AlbertEncoder`,
      `AlbertClassifier`, `AlbertTokenClassifier`, `AlbertSpanLabeler` or `AlbertMultipleChoice`.
    Raises:
      FileNotFoundError: the run or its checkpoint does not exist.
      InputError: a file of the run is damaged; the message names it.

    Example:
      >>> import albert_tf
      >>> model = albert_tf.load("demo-output/run")
      >>> type(model).__name__
      'AlbertPretrainer'
    """
    run = open_run(run_dir)
    return build_model(run.config, run.task, run.variables(step), **kwargs)


def load_checked(run_dir: PathLike, step: int | None = None, **kwargs: Any) -> Any:
    """Loads a model as `load` does, whose weights must be finite. Raises InputError for NaN and infinity."""
    model = load(run_dir, step, **kwargs)
    check_finite(model, run_dir, step)
    return model


def check_finite(model: Any, run: PathLike, step: int | None = None) -> None:
    """Raises InputError if variables of a run's model hold NaN or infinity."""
    names = [
        variable.name.partition(":")[0]
        for variable in model.variables
        if not np.isfinite(np.asarray(variable.read_value(), np.float32)).all()
    ]
    if names:
        run = open_run(run)
        remedy = run.remedy(run.step_or_default(step))
        raise InputError(f"{run}: NaN or infinity in {', '.join(names)}: {remedy}")
