"""The kinds of models that a run may hold, and what its task.json says of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.models import (
    AlbertClassifier,
    AlbertEncoder,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertSpanLabeler,
    AlbertTokenClassifier,
)
from albert_tf.utils.errors import InputError


class ModelKind(NamedTuple):
    """A class of models, and which of its attributes go into task.json and back into its constructor."""

    model: type
    arguments: tuple[str, ...]
    options: tuple[str, ...] = ()  # those with defaults, which task.json leaves out

    def defaults(self) -> dict[str, Any]:
        """Values of the options that a task.json leaves out."""
        parameters = inspect.signature(self.model).parameters
        return {name: parameters[name].default for name in self.options}


MODELS = {
    "encoder": ModelKind(AlbertEncoder, ()),
    "pretrainer": ModelKind(AlbertPretrainer, ("sentence_objective",)),
    "classifier": ModelKind(AlbertClassifier, ("num_labels",), ("pooling",)),
    "token_classifier": ModelKind(AlbertTokenClassifier, ("num_labels",)),
    "span_labeler": ModelKind(AlbertSpanLabeler, (), ("answerability", "start_n_top", "end_n_top")),
    "multiple_choice": ModelKind(AlbertMultipleChoice, ("num_choices",), ("pooling",)),
}


def task_of(model: Any) -> dict[str, Any]:
    """The entries of task.json of a model: its kind and the arguments it was made with.

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
        return MODELS[task["model"]].model(config, **arguments_of(task), **kwargs)


def check_task(task: Mapping[str, Any]) -> None:
    """ValueError where a task.json does not name a model of this package, or not all that it is made with."""
    kind = task.get("model")
    if kind not in MODELS:
        raise InputError(f"model={kind!r} is none of {', '.join(MODELS)}")
    missing = [name for name in MODELS[kind].arguments if name not in task]
    if missing:
        raise InputError(f"{', '.join(missing)} is missing: a {kind} needs it")


def arguments_of(task: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the model of a task.json, the options that it leaves out included."""
    kind = MODELS[task["model"]]
    return {
        **kind.defaults(),
        **{name: task[name] for name in (*kind.arguments, *kind.options) if name in task},
    }
