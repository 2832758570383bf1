"""The run directory: what one command writes, any other reads.

    run/config.json  task.json  spiece.model  tokenizer.json  recipe.json  checkpoints/ckpt-<step>.*

Whole models, with the files beside them:

    save(model, run, vocabulary=None, step=0, tokenizer=None, recipe=None, task=None)
    load(run, step=None) -> model

What training needs, in pieces:

    create_run(run, config, task, vocabulary=None, tokenizer=None, recipe=None)  all but checkpoints
    read_config(run), read_task(run), read_tokenizer(run), vocabulary_path(run)
    task_of(model) -> task, build_model(config, task) -> model
    write_checkpoint(run, step, model=…, optimizer=…, …), read_checkpoint(run, step, model=…, …)
    checkpoint_steps(run), newest_checkpoint(run), checkpoint_parts(run, step), delete_checkpoint(run, step)

The last two lines are in checkpoints/steps.py.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.checkpoints.figures import METRICS, Best
from albert_tf.checkpoints.names import variable_names
from albert_tf.checkpoints.steps import (
    PathLike,
    checkpoint_steps,
    model_reader,
    write_checkpoint,
)
from albert_tf.checkpoints.tensor_bundle import DamagedCheckpoint
from albert_tf.checkpoints.vocabulary import check_vocabulary, fingerprint
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import new_directory, read_json, write_file, write_json
from albert_tf.model import (
    AlbertClassifier,
    AlbertEncoder,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertSpanLabeler,
    AlbertTokenClassifier,
)
from albert_tf.stages import stage_at, stages_from
from albert_tf.tokenizer_settings import TOKENIZER, read_settings, resolved_settings

CONFIG, TASK, VOCABULARY, RECIPE = "config.json", "task.json", "spiece.model", "recipe.json"

# What recipe.json has the SHA-256 of the vocabulary under.
VOCABULARY_KEY = "vocabulary"

# What task.json of a fine-tuned run has the figure under whose highest value tells the best step.
BEST_KEY = "best_by"


class ModelKind(NamedTuple):
    """A class of models, and which of its attributes go into task.json and back into its constructor."""

    model: type
    arguments: tuple[str, ...]
    options: tuple[str, ...] = ()  # those with defaults, which task.json leaves out

    def defaults(self) -> dict[str, Any]:
        """What an option is where task.json does not say."""
        parameters = inspect.signature(self.model).parameters
        return {name: parameters[name].default for name in self.options}


MODELS = {
    "encoder": ModelKind(AlbertEncoder, ()),
    "pretrainer": ModelKind(AlbertPretrainer, ("sentence_objective",)),
    "classifier": ModelKind(AlbertClassifier, ("num_labels",)),
    "token_classifier": ModelKind(AlbertTokenClassifier, ("num_labels",)),
    "span_labeler": ModelKind(AlbertSpanLabeler, (), ("answerability", "start_n_top", "end_n_top")),
    "multiple_choice": ModelKind(AlbertMultipleChoice, ("num_choices",)),
}


def task_of(model: Any) -> dict[str, Any]:
    """What task.json says of a model: its kind and the arguments it was made with.

    Raises:
      ValueError: it is not a model of this package.
    """
    for name, kind in MODELS.items():
        if isinstance(model, kind.model):
            arguments = {argument: getattr(model, argument) for argument in kind.arguments}
            options = {option: getattr(model, option) for option in kind.options}
            chosen = {key: value for key, value in options.items() if value != kind.defaults()[key]}
            return {"model": name, **arguments, **chosen}
    known = ", ".join(kind.model.__name__ for kind in MODELS.values())
    raise InputError(f"a {type(model).__name__} cannot be saved as a run: it is none of {known}")


def build_model(
    config: AlbertConfig,
    task: Mapping[str, Any],
    read: Callable[[str], np.ndarray | None] | None = None,
    **kwargs: Any,
) -> Any:
    """A model of the kind and with the arguments that a task.json names.

    Args:
      config: the network's shape.
      task: what task.json holds.
      read: the value of a variable by its name, or None where it begins at random, as all do without this.
        The variables are made with these values: there is no memory for random ones besides.
      **kwargs: of keras.Model, such as `dtype`.
    Returns:
      The model.
    Raises:
      ValueError: task.json does not name a model of this package, or not all that it is made with.
    """
    check_task(task)

    def create(next_creator: Callable[..., tf.Variable], **variable: Any) -> tf.Variable:
        value = None if read is None else read(variable["name"])
        return next_creator(**(variable if value is None else {**variable, "initial_value": value}))

    with tf.variable_creator_scope(create):
        return MODELS[task["model"]].model(config, **_arguments(task), **kwargs)


def check_task(task: Mapping[str, Any]) -> None:
    """ValueError where a task.json does not name a model of this package, or not all that it is made with."""
    kind = task.get("model")
    if kind not in MODELS:
        raise InputError(f"model={kind!r} is none of {', '.join(MODELS)}")
    missing = [name for name in MODELS[kind].arguments if name not in task]
    if missing:
        raise InputError(f"{', '.join(missing)} is missing: a {kind} needs it")


def _arguments(task: Mapping[str, Any]) -> dict[str, Any]:
    """What the model of a task.json is made with, the options that it leaves out included."""
    kind = MODELS[task["model"]]
    return {
        **kind.defaults(),
        **{name: task[name] for name in (*kind.arguments, *kind.options) if name in task},
    }


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
    run, entries = Path(run_dir), {**(task or {}), **task_of(model)}
    if (run / CONFIG).exists():
        task_there = read_task(run)
        task_here = task_of(model)
        same = task_there.get("model") == task_here["model"] and _arguments(task_there) == _arguments(
            task_here
        )
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
    config, task = read_config(run_dir), read_task(run_dir)
    if step is None:
        step = default_step(run_dir)
        if step is None:
            raise FileNotFoundError(f"{Path(run_dir) / 'checkpoints'} holds no checkpoint: nothing to load")
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
    names = [
        variable.name.partition(":")[0]
        for variable in model.variables
        if not np.isfinite(np.asarray(variable.read_value(), np.float32)).all()
    ]
    if names:
        remedy = _other_steps(run, step) or "there is not another checkpoint: train again"
        raise InputError(f"{run}: NaN or infinity in {', '.join(names)}: {remedy}")


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
        inner = sorted(config.parent.name for config in Path(run).glob(f"*/{CONFIG}"))
        others = f", but has those of {', '.join(inner)} in it" if inner else ""
        raise FileNotFoundError(f"{path} is missing: {run} is not a run directory{others}")
    return path
