"""Models from the entries of task.json: their variables, and whether a vocabulary fits."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, check_choice, make_check
from albert_tf.models.encoder import AlbertEncoder, NetworkModel
from albert_tf.models.sharing import HEADS, Variable, encoder_variables, part_variables
from albert_tf.models.span_labeler import AlbertSpanLabeler
from albert_tf.models.task_models import (
    AlbertClassifier,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertTokenClassifier,
    pooled_head_names,
)
from albert_tf.text.tokenizer import TOKENIZER_CLASSES
from albert_tf.text.tokenizer_config import read_tokenizer_kind


def check_vocabulary(path: str | os.PathLike[str], vocab_size: int, *, exactly: bool = False) -> None:
    """Raises InputError if a vocabulary does not fit a network.

    Args:
      path: path of the vocabulary.
      vocab_size: number of the network's embeddings, V. The vocabulary may have fewer pieces.
      exactly: True if the vocabulary must have V pieces, as in published checkpoints, or up to 127 fewer:
        tables of embeddings are padded to a multiple of 8, 64 or 128.
    """
    vocabulary = TOKENIZER_CLASSES[read_tokenizer_kind(path)].vocabulary_class.from_file(path)
    check_piece_count(os.fspath(path), len(vocabulary), vocab_size, exactly=exactly)


def check_piece_count(name: str, pieces: int, vocab_size: int, *, exactly: bool = False) -> None:
    """Raises InputError if a vocabulary has more pieces than V, or with `exactly` 128 fewer or more."""
    if pieces > vocab_size or (exactly and pieces <= vocab_size - 128):
        raise InputError(f"{name} has {pieces} pieces, the config says vocab_size={vocab_size}")


class ModelKind(NamedTuple):
    """A model class, the entries of task.json that it requires, and its heads."""

    model: type[NetworkModel]
    arguments: tuple[str, ...] = ()
    heads: Callable[[Mapping[str, Any]], list[str]] = lambda task: []  # given the entries of task.json

    def defaults(self) -> dict[str, Any]:
        """Default values of the other arguments, which task.json may omit."""
        parameters: dict[str, inspect.Parameter] = {}
        for base in reversed(self.model.__mro__):
            parameters |= inspect.signature(base.__init__).parameters  # type: ignore[misc]
        options = [name for name in self.model.arguments if name not in self.arguments]
        return {name: parameters[name].default for name in options}


# Checks of optional entries of task.json, by the type of their default.
_OPTION_CHECKS = {
    bool: make_check("bool"),
    int: make_check("int", at_least=1, below=2**31),
    float: make_check("float", at_least=0, below=math.inf),
    str: make_check("str"),
}

MODELS = {
    "encoder": ModelKind(AlbertEncoder),
    "pretrainer": ModelKind(
        AlbertPretrainer,
        ("sentence_objective",),
        heads=lambda task: ["mlm"] if task.get("sentence_objective") == "none" else ["mlm", "sentence"],
    ),
    "classifier": ModelKind(AlbertClassifier, ("num_labels",), pooled_head_names),
    "token_classifier": ModelKind(
        AlbertTokenClassifier, ("num_labels",), heads=lambda task: ["token_classifier"]
    ),
    "span_labeler": ModelKind(
        AlbertSpanLabeler,
        heads=lambda task: ["answerable_span" if task.get("answerability") else "span"],
    ),
    "multiple_choice": ModelKind(AlbertMultipleChoice, ("num_choices",), pooled_head_names),
}


def task_of(model: Any) -> dict[str, Any]:
    """The entries of task.json for a model: its class, and arguments that are not the default."""
    for name, kind in MODELS.items():
        if isinstance(model, kind.model):
            chosen = {key: getattr(model, key) for key in kind.model.arguments}
            defaults = kind.defaults().items()
            return {"model": name, **{key: v for key, v in chosen.items() if (key, v) not in defaults}}
    known = ", ".join(kind.model.__name__ for kind in MODELS.values())
    raise InputError(f"a {type(model).__name__} cannot be saved as a run: it is none of {known}")


def build_model(
    config: AlbertConfig,
    task: Mapping[str, Any],
    read: Callable[[str], np.ndarray | None] | None = None,
    **kwargs: Any,
) -> Any:
    """Builds the model that task.json describes.

    Args:
      config: architecture of the network.
      task: entries of task.json.
      read: a function from a variable's name to its initial value, or None for a random value. The variables
        are created with these values, which saves the memory of random ones. None: all are random.
      **kwargs: arguments of keras.Model, such as `dtype`.
    Raises:
      InputError: task.json names no model of this package, or lacks an argument.
    """
    arguments = arguments_of(task)

    def create(next_creator: Callable[..., tf.Variable], **variable: Any) -> tf.Variable:
        value = None if read is None else read(variable["name"])
        return next_creator(**(variable if value is None else {**variable, "initial_value": value}))

    with tf.variable_creator_scope(create):
        return MODELS[task["model"]].model(config, **arguments, **kwargs)


def arguments_of(task: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the model that task.json describes, including defaults.

    Raises:
      InputError: task.json names no model of this package, or lacks an argument.
    """
    name = str(task.get("model"))
    check_choice("model", name, MODELS)
    kind = MODELS[name]
    if missing := [argument for argument in kind.arguments if argument not in task]:
        raise InputError(f"{', '.join(missing)} is missing: a {name} needs it")
    arguments = {**kind.defaults(), **{key: task[key] for key in kind.arguments}}
    for name in kind.defaults().keys() & task.keys():
        _OPTION_CHECKS[type(arguments[name])](name, task[name])
        arguments[name] = task[name]
    return arguments


def model_variables(config: AlbertConfig, task: Mapping[str, Any]) -> list[Variable]:
    """All variables of a model.

    Args:
      config: architecture of the network.
      task: entries of task.json, as `task_of` returns them.

    >>> variables = model_variables(AlbertConfig(), {"model": "token_classifier", "num_labels": 5})
    >>> variables[-2].name, variables[-2].shape
    ('classifier/output_weights', (5, 768))
    """
    return [*encoder_variables(config), *head_variables(task, config)]


def variable_shapes(config: AlbertConfig, task: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of all variables of a model, by their names; see `model_variables`."""
    return {variable.name: variable.shape for variable in model_variables(config, task)}


def head_variables(task: Mapping[str, Any], config: AlbertConfig | None = None) -> list[Variable]:
    """The variables of a model's head. Without a config, the shapes are those of ALBERT-base."""
    parts = [part for head in MODELS[task["model"]].heads(task) for part in HEADS[head]]
    num_labels = task.get("num_labels", 1)  # multiple choice has one logit per row
    return part_variables(parts, config or AlbertConfig(), num_labels)
