"""The kinds of models that a run may hold: the entries of its task.json, and the layers of its head."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.layer_names import Layer, Variable, dense, norm, output
from albert_tf.config import AlbertConfig
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.span_labeler import AlbertSpanLabeler
from albert_tf.models.task_models import (
    AlbertClassifier,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertTokenClassifier,
)
from albert_tf.utils.errors import InputError

# From the entries of task.json to the layers on top of the encoder.
Head = Callable[[Mapping[str, Any]], list[Layer]]


_MLM = [
    Layer("cls/predictions/transform/dense", "predictions.dense", None, dense("H", "E")),
    Layer("cls/predictions/transform/LayerNorm", "predictions.LayerNorm", None, norm("E")),
    Layer("cls/predictions", "predictions", None, [Variable("output_bias", "bias", "V", "V")]),
]
_SENTENCE = [Layer("cls/seq_relationship", "sop_classifier.classifier", None, output("2"))]
_SPAN = [Layer("cls/squad", "qa_outputs", None, output("2"))]
# run_squad_v2's. In transformers XLNet has such a head, ALBERT does not.
_ANSWERABLE_SPAN = [
    Layer(f"{scope}/{layer}", f"{scope}.{layer}", None, variables)
    for scope, layer, variables in (
        ("start_logits", "dense", dense("H", "1")),
        ("end_logits", "dense_0", dense("2H", "H")),
        ("end_logits", "LayerNorm", norm("H")),
        ("end_logits", "dense_1", dense("H", "1")),
        ("answer_class", "dense_0", dense("2H", "H")),
        ("answer_class", "dense_1", dense("H", "1")[:1]),
    )
]


def _classifier(units: str, google: str | None) -> Head:
    return lambda task: [Layer("classifier", "classifier", None, output(units), google)]


class ModelKind(NamedTuple):
    """A class of models, which attributes go into task.json and back into its constructor, and its head."""

    model: type
    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # those with defaults, which task.json leaves out
    head: Head = lambda task: []

    def defaults(self) -> dict[str, Any]:
        """Values of the options that a task.json leaves out."""
        parameters = inspect.signature(self.model).parameters
        return {name: parameters[name].default for name in self.options}


# google-research/albert's run_classifier and run_race give their heads no scope. That of token classifiers is
# ours, and tells them from those.
MODELS = {
    "encoder": ModelKind(AlbertEncoder),
    "pretrainer": ModelKind(
        AlbertPretrainer,
        ("sentence_objective",),
        head=lambda task: _MLM if task.get("sentence_objective") == "none" else _MLM + _SENTENCE,
    ),
    "classifier": ModelKind(AlbertClassifier, ("num_labels",), ("pooling",), _classifier("K", "")),
    "token_classifier": ModelKind(AlbertTokenClassifier, ("num_labels",), (), _classifier("K", None)),
    "span_labeler": ModelKind(
        AlbertSpanLabeler,
        (),
        ("answerability", "start_n_top", "end_n_top"),
        lambda task: _ANSWERABLE_SPAN if task.get("answerability") else _SPAN,
    ),
    "multiple_choice": ModelKind(AlbertMultipleChoice, ("num_choices",), ("pooling",), _classifier("1", "")),
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
