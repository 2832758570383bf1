"""Models by the entries of task.json, and the check of a run's vocabulary."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sentencepiece
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, check_choice, make_check
from albert_tf.io import json_object
from albert_tf.models.encoder import AlbertEncoder, NetworkModel
from albert_tf.models.span_labeler import AlbertSpanLabeler
from albert_tf.models.task_models import (
    AlbertClassifier,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertTokenClassifier,
    pooled_heads,
)
from albert_tf.text.tokenizer_config import (
    BYTE_LEVEL_BPE,
    WORDPIECE,
    lines_of_vocabulary,
    read_tokenizer_kind,
    read_vocabulary,
)


def check_vocabulary(path: str | os.PathLike[str], vocab_size: int, *, exactly: bool = False) -> None:
    """InputError for a vocabulary that does not go with a network.

    Args:
      path: its file.
      vocab_size: the network's embeddings, V, of which the vocabulary may use fewer.
      exactly: True if it has to use all of them, as it does in what is published.
    """
    check_piece_count(os.fspath(path), _piece_count(Path(path)), vocab_size, exactly=exactly)


def check_piece_count(name: str, pieces: int, vocab_size: int, *, exactly: bool = False) -> None:
    """InputError for a vocabulary, by its name, of more pieces than V; with `exactly` also of fewer."""
    if pieces > vocab_size or (exactly and pieces < vocab_size):
        raise InputError(f"{name} has {pieces} pieces, the config says vocab_size={vocab_size}")


def _piece_count(path: Path) -> int:
    kind = read_tokenizer_kind(path)
    content, *_ = read_vocabulary(path, kind).values()
    if kind == WORDPIECE:
        return len(lines_of_vocabulary(content, str(path)))
    if kind == BYTE_LEVEL_BPE:
        return len(json_object(content, path))
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(content)
        return processor.get_piece_size()
    except (RuntimeError, OSError):
        raise InputError(f"{path} is not a SentencePiece model, or damaged") from None


class ModelKind(NamedTuple):
    """A class of models, which of its arguments each task.json has, and its heads."""

    model: type[NetworkModel]
    arguments: tuple[str, ...] = ()
    heads: Callable[[Mapping[str, Any]], list[str]] = lambda task: []  # by the entries of task.json

    def defaults(self) -> dict[str, Any]:
        """Values of the other arguments, which a task.json leaves out."""
        parameters: dict[str, inspect.Parameter] = {}
        for base in reversed(self.model.__mro__):
            parameters |= inspect.signature(base.__init__).parameters  # type: ignore[misc]
        options = [name for name in self.model.arguments if name not in self.arguments]
        return {name: parameters[name].default for name in options}


# Checks of the options in a task.json by the type of their default.
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
    "classifier": ModelKind(AlbertClassifier, ("num_labels",), pooled_heads),
    "token_classifier": ModelKind(
        AlbertTokenClassifier, ("num_labels",), heads=lambda task: ["token_classifier"]
    ),
    "span_labeler": ModelKind(
        AlbertSpanLabeler,
        heads=lambda task: ["answerable_span" if task.get("answerability") else "span"],
    ),
    "multiple_choice": ModelKind(AlbertMultipleChoice, ("num_choices",), pooled_heads),
}


def task_of(model: Any) -> dict[str, Any]:
    """The entries of task.json of a model: its kind and the arguments it was made with."""
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
    """A model of the kind and with the arguments that a task.json names.

    Args:
      config: the network's shape.
      task: what task.json holds.
      read: the value of a variable by its name, or None where it begins at random, as all do without this.
        The variables are made with these values: there is no memory for random ones besides.
      **kwargs: of keras.Model, such as `dtype`.
    Raises: as `arguments_of` does.
    """
    arguments = arguments_of(task)

    def create(next_creator: Callable[..., tf.Variable], **variable: Any) -> tf.Variable:
        value = None if read is None else read(variable["name"])
        return next_creator(**(variable if value is None else {**variable, "initial_value": value}))

    with tf.variable_creator_scope(create):
        return MODELS[task["model"]].model(config, **arguments, **kwargs)


def arguments_of(task: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the model of a task.json, the options that it leaves out included.

    Raises:
      ValueError: it does not name a model of this package, or not all that it is made with.
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
