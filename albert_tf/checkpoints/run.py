"""The run directory: what one command writes, any other reads.

    run/config.json  task.json  spiece.model  tokenizer.json  recipe.json  checkpoints/ckpt-<step>.*

Whole models, with the files beside them:

    save(model, run, vocabulary=None, step=0, tokenizer=None, recipe=None, task=None)
    load(run, step=None) -> model

What training needs, in pieces:

    create_run(run, config, task, vocabulary=None, tokenizer=None, recipe=None)  all but checkpoints
    read_config(run), read_task(run), read_tokenizer(run), vocabulary_path(run)
    write_checkpoint(run, step, model=…, optimizer=…, …), read_checkpoint(run, step, model=…, …)
    checkpoint_steps(run), newest_checkpoint(run), checkpoint_parts(run, step), delete_checkpoint(run, step)
    task_of(model) -> task, build_model(config, task) -> model

The last three lines are in checkpoints/steps.py and checkpoints/models.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from albert_tf.checkpoints.figures import METRICS, Best
from albert_tf.checkpoints.models import arguments_of, build_model, check_task, task_of
from albert_tf.checkpoints.names import variable_names
from albert_tf.checkpoints.steps import (
    PathLike,
    checked_step,
    checkpoint_steps,
    model_reader,
    write_checkpoint,
)
from albert_tf.checkpoints.tensor_bundle import DamagedCheckpoint
from albert_tf.checkpoints.vocabulary import check_vocabulary, fingerprint
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, Missing
from albert_tf.files import check_place, checked_path, new_directory, read_json, write_file, write_json
from albert_tf.stages import stage_at, stages_from
from albert_tf.tokenizer_settings import TOKENIZER, read_settings, resolved_settings

CONFIG, TASK, VOCABULARY, RECIPE = "config.json", "task.json", "spiece.model", "recipe.json"

# What recipe.json has the SHA-256 of the vocabulary under.
VOCABULARY_KEY = "vocabulary"

# What task.json of a fine-tuned run has the figure under whose highest value tells the best step.
BEST_KEY = "best_by"


def create_run(
    run: PathLike,
    config: AlbertConfig,
    task: Mapping[str, Any],
    vocabulary: PathLike | None = None,
    tokenizer: Mapping[str, bool] | None = None,
    recipe: Mapping[str, Any] | None = None,
) -> None:
    """Makes a run directory that has everything but checkpoints.

    Args:
      run: the directory; it does not exist yet, or is empty.
      config: the network's shape.
      task: what `task_of` returned, and further entries such as `labels`.
      vocabulary: SentencePiece model, copied; None where there is none.
      tokenizer: `lowercase` and `strip_accents`; what is left out is as the vocabulary remembers it, or True.
      recipe: how the weights came about, to which the vocabulary's SHA-256 is added; None writes no
        recipe.json.
    Raises:
      FileExistsError: the directory exists.
      ValueError: the vocabulary remembers another tokenizer.
      OSError: the vocabulary cannot be read, or the directory cannot be written.
    """
    with new_directory(Path(run)) as folder:
        _write_files(folder, config, task, vocabulary, tokenizer, recipe)


def _write_files(
    folder: Path,
    config: AlbertConfig,
    task: Mapping[str, Any],
    vocabulary: PathLike | None,
    tokenizer: Mapping[str, bool] | None,
    recipe: Mapping[str, Any] | None,
) -> None:
    write_file(folder / CONFIG, config.to_json_string())
    write_json(folder / TASK, task)
    if vocabulary is not None:
        shutil.copyfile(vocabulary, folder / VOCABULARY)
    write_json(folder / TOKENIZER, resolved_settings(vocabulary, tokenizer))
    if recipe is not None:
        text = {} if vocabulary is None else {VOCABULARY_KEY: fingerprint(folder / VOCABULARY)}
        write_json(folder / RECIPE, {**recipe, **text})


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
      tokenizer: of a new run: `lowercase` and `strip_accents`; what is left out is as the vocabulary
        remembers it, or True.
      recipe: of a new run: how the weights came about; see `create_run`.
      task: of a new run: further entries of task.json, such as `labels`.
    Raises:
      FileExistsError: the run has a checkpoint of this step, or the directory holds something else.
      ValueError: the run is of another model, the model is not one of this package, or the vocabulary does
        not fit the model, or has another tokenizer.
      OSError: a file cannot be read or written.
    """
    run, entries = checked_path(run_dir, "run_dir"), {**(task or {}), **task_of(model)}
    check_place(run, is_folder=True)
    if (run / CONFIG).exists():
        task_there = read_task(run)
        task_here = task_of(model)
        same = task_there.get("model") == task_here["model"]
        same = same and arguments_of(task_there) == arguments_of(task_here)
        if not same or read_config(run) != model.config:
            raise InputError(f"{run} is the run of another model: its {CONFIG} or {TASK} differs")
        write_checkpoint(run, step, model=model)
        return
    if vocabulary is not None:
        check_vocabulary(vocabulary, model.config.vocab_size)
    with new_directory(run) as folder:
        _write_files(folder, model.config, entries, vocabulary, tokenizer, recipe)
        write_checkpoint(folder, step, model=model)


def load(run_dir: PathLike, step: int | None = None) -> Any:
    """The model of a run directory, with the weights of a step.

    Args:
      run_dir: the run directory.
      step: training step; None takes that of `default_step`.
    Returns:
      A model of the class that task.json names.
    Raises:
      FileNotFoundError: the run, or its checkpoint, does not exist.
      ValueError: a file of the run is damaged; the message names it.
    """
    stored = stored_model(run_dir, step)
    return build_model(stored.config, stored.task, stored.read)


class StoredModel(NamedTuple):
    """The model of a run directory, its weights not yet read."""

    config: AlbertConfig
    task: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]  # of its variables by name
    read: Callable[[str], np.ndarray | None]  # the value of one of them; None for what is not a variable


def stored_model(run_dir: PathLike, step: int | None = None) -> StoredModel:
    """What `load` makes a model of; arguments and errors are the same."""
    run = checked_path(run_dir, "run_dir")
    config, task = read_config(run), read_task(run)
    if step is not None:
        step = checked_step(step)
    else:
        step = default_step(run_dir)
        if step is None:
            raise Missing(f"{Path(run_dir) / 'checkpoints'} holds no checkpoint: nothing to load")
    layers = _trained_layers(run_dir, step)
    if layers not in (None, config.num_hidden_layers):
        logging.warning(
            "%s: at step %s it was trained with num_hidden_layers=%s; its network has %s, and knows little "
            "before they are trained: let the same pretrain command finish",
            run_dir, step, layers, config.num_hidden_layers,
        )  # fmt: skip
    try:
        check_task(task)
        shapes = {names.ours: names.shape for names in variable_names(config, task)}
    except ValueError as error:
        raise InputError(f"{Path(run_dir) / TASK}: {error}") from error
    try:
        read = model_reader(run_dir, step, shapes)
    except DamagedCheckpoint as error:
        raise DamagedCheckpoint(f"{error}: {_other_steps(run_dir, step) or 'copy the run again'}") from error
    return StoredModel(config, task, shapes, read)


def _trained_layers(run: PathLike, step: int) -> int | None:
    """The depth in the stage that led to a step; None where the run has no stages, or it is the network's."""
    path = Path(run) / RECIPE
    recipe = read_json(path) if path.exists() else {}
    stages = stages_from(recipe.get("stages", []))
    return stage_at(stages, recipe["steps"], step).num_hidden_layers if stages else None


def default_step(run: PathLike) -> int | None:
    """The step that is taken of a run where nobody names one; None where there is no checkpoint.

    Of a fine-tuned run it is the one that did best in an evaluation, of others the newest.
    """
    steps, figure = checkpoint_steps(run), read_task(run).get(BEST_KEY)
    best = None
    if figure is not None and (Path(run) / METRICS).exists():
        best = Best(figure, is_highest=True).step(run, steps)
    return max(steps, default=None) if best is None else best


def _other_steps(run: PathLike, step: int | None) -> str:
    """What to do where the checkpoint of a step, as `load` takes it, is of no use; "" where it is alone."""
    step = default_step(run) if step is None else step
    others = [str(other) for other in checkpoint_steps(run) if other != step]
    return f"--step takes another, of {', '.join(others)}" if others else ""


def check_finite(model: Any, run: PathLike, step: int | None = None) -> None:
    """Refuses a model that answers nothing: what is handed on is used by people who do not see its training.

    Args:
      model: any with `variables`.
      run: the run directory that it is from.
      step: of its checkpoint, as `load` takes it.
    Raises:
      ValueError: variables hold NaN or infinity; the message names all of them.
    """
    if names := non_finite(model):
        remedy = _other_steps(run, step) or "there is not another checkpoint: train again"
        raise InputError(f"{run}: NaN or infinity in {', '.join(names)}: {remedy}")


def non_finite(model: Any) -> list[str]:
    """The names of a model's variables that hold NaN or infinity."""
    return [
        variable.name.partition(":")[0]
        for variable in model.variables
        if not np.isfinite(np.asarray(variable.read_value(), np.float32)).all()
    ]


def read_config(run: PathLike) -> AlbertConfig:
    """The config of a run; FileNotFoundError or ValueError with the file's name where it has none."""
    return AlbertConfig.from_json_file(_file(run, CONFIG))


def read_task(run: PathLike) -> dict[str, Any]:
    """task.json of a run; FileNotFoundError or ValueError with the file's name where it has none."""
    return read_json(_file(run, TASK))


def read_tokenizer(run: PathLike) -> dict[str, bool]:
    """`lowercase` and `strip_accents` of a run; FileNotFoundError or ValueError where it does not say."""
    return read_settings(_file(run, TOKENIZER))


def vocabulary_path(run: PathLike) -> Path | None:
    """The SentencePiece model of a run; None where it was made without one.

    Raises:
      ValueError: it is another than the run was made with.
    """
    path = Path(run) / VOCABULARY
    if not path.exists():
        return None
    check_run_vocabulary(run, path)
    return path


def check_run_vocabulary(run: PathLike, vocabulary: PathLike) -> None:
    """Refuses a vocabulary that a run was not made with: its ids mean other pieces, whatever its size.

    Args:
      run: the run directory. One whose recipe.json names no vocabulary is compared with nothing.
      vocabulary: SentencePiece model.
    Raises:
      ValueError: its SHA-256 is not that of recipe.json.
    """
    recipe = Path(run) / RECIPE
    expected = read_json(recipe).get(VOCABULARY_KEY) if recipe.exists() else None
    if expected is not None and (found := fingerprint(Path(vocabulary))) != expected:
        raise InputError(
            f"{vocabulary} is not the vocabulary of {run}: its SHA-256 is {found[:12]}…, that in {RECIPE} "
            f"{str(expected)[:12]}…: bring back the file that the run was made with"
        )


def _file(run: PathLike, name: str) -> Path:
    path = Path(run) / name
    if not path.exists():
        raise Missing(f"{path} is missing: {run} is not a run directory{other_kind(run)}")
    return path


def other_kind(folder: PathLike) -> str:
    """What a folder is that is not a run directory, and the remedy, from " but" on; "" where nobody knows."""
    folder = Path(folder)
    if (folder / "saved_model.pb").is_file():
        return f" but an exported module, with whose weights a run begins by --init_from hub:{folder}"
    if "model_type" in (read_json(folder / CONFIG) if (folder / CONFIG).is_file() else {}):
        return (
            " but a checkpoint of Hugging Face, which `albert-tf convert --from huggingface --to run "
            f"--input {folder} --output RUN` makes one of"
        )
    inner = sorted(config.parent.name for config in folder.glob(f"*/{CONFIG}"))
    return f", but has those of {', '.join(inner)} in it" if inner else ""
