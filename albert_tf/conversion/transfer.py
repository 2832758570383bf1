"""Tensors of another implementation into the variables of a model, every one of them accounted for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from albert_tf.checkpoints.models import build_model
from albert_tf.checkpoints.names import Stored, head_names
from albert_tf.checkpoints.tensor_bundle import Tensors
from albert_tf.checkpoints.vocabulary import check_vocabulary
from albert_tf.config import AlbertConfig
from albert_tf.utils.errors import InputError

FLOATS = ("float16", "bfloat16", "float32", "float64")


class Source(NamedTuple):
    """A checkpoint of another implementation, opened but not read, and what was found beside it."""

    tensors: Tensors
    config: AlbertConfig
    task: dict[str, Any]  # of task.json
    stored: Mapping[str, Stored]  # every variable of the model, by our names
    vocabulary: Path | None
    tokenizer: dict[str, bool] | None = None  # of tokenizer.json
    is_ignored: Callable[[str], bool] = lambda name: False  # True for a tensor that no variable needs
    optional: Collection[str] = ()  # variables that the model may do without, by our names


def read_model(source: Source, partial: bool = False) -> tuple[Any, list[str], list[str]]:
    """The model in a checkpoint.

    Args:
      source: the checkpoint.
      partial: True if variables may be missing and tensors may be left over.
    Returns:
      The model; the tensors that nothing here needs; the variables that the checkpoint does not have.
    Raises:
      InputError: the checkpoint and its config or vocabulary do not fit, with all names; it is damaged, or
        holds non-finite values.
    """
    tensors, vocabulary = source.tensors, source.vocabulary
    names = {stored.name for stored in source.stored.values()}
    unread = sorted(tensors.shapes.keys() - names)
    fresh = [name for name, stored in source.stored.items() if stored.name not in tensors.shapes]
    problems = []
    if vocabulary is not None:
        try:
            check_vocabulary(vocabulary, source.config.vocab_size, exactly=True)
        except InputError as error:
            problems.append(str(error))
    if not partial:
        missing = [source.stored[name].name for name in fresh if name not in source.optional]
        problems += [f"{name} is missing" for name in missing]
        problems += [f"{name} is unknown" for name in unread if not source.is_ignored(name)]
    elif len(fresh) == len(source.stored):
        problems.append("none of the encoder's variables is there")
    for name, shape, *_ in source.stored.values():
        if tensors.shapes.get(name, shape) != shape:
            problems.append(f"{name} is {list(tensors.shapes[name])}, the config says {list(shape)}")
        elif tensors.dtypes.get(name, FLOATS[0]) not in FLOATS:
            problems.append(f"{name} is of type {tensors.dtypes[name]}, none of {', '.join(FLOATS)}")
    if problems:
        raise InputError(f"{tensors.origin}: {'; '.join(problems)}")

    def read(name: str) -> np.ndarray | None:
        stored = source.stored.get(name)
        if stored is None or stored.name not in tensors.shapes:
            return None
        with np.errstate(over="ignore"):  # found below
            value = tensors.read(stored.name).astype(np.float32, copy=False)
        if not np.isfinite(value).all():
            raise InputError(f"{tensors.origin}: {stored.name} holds NaN or infinity")
        return stored.converted(value)

    return build_model(source.config, source.task, read), unread, fresh


def with_usual_names(tensors: Tensors, scope: str, anchor: str) -> Tensors:
    """A checkpoint of a part of a larger model, or of the encoder alone, by the names that are usual.

    Args:
      tensors: the checkpoint; without an anchor it stays as it is.
      scope: what usually stands before the encoder's names, not the heads': "bert/", "albert.", ….
      anchor: name of the word embeddings behind it.
    Raises:
      InputError: there are several models in the checkpoint.
    """
    separator = scope[-1]
    found = [name for name in tensors.shapes if f"{separator}{name}".endswith(f"{separator}{anchor}")]
    encoder = found[0].removesuffix(anchor) if found else scope
    outside = "".join(encoder[:-1].rpartition(separator)[:2])
    parts = tuple(
        f"{encoder}{part}{separator}" for part in ("embeddings", "encoder", "transformer", "pooler")
    )
    names = {
        scope + name.removeprefix(encoder) if name.startswith(parts) else name.removeprefix(outside): name
        for name in tensors.shapes
    }
    if len(found) > 1 or len(names) < len(tensors.shapes):
        raise InputError(f"{tensors.origin} holds several models: {', '.join(sorted(found))}")
    return tensors.renamed(names)


# The tasks whose heads a checkpoint may have. Sentence-order and next-sentence heads have one name; ALBERT is
# trained with the former, BERT with the latter.
_TASKS: tuple[dict[str, Any], ...] = (
    {"model": "classifier", "num_labels": 1},
    {"model": "token_classifier", "num_labels": 1},
    {"model": "span_labeler"},
    {"model": "span_labeler", "answerability": True},
    {"model": "pretrainer", "sentence_objective": "sop"},
    {"model": "pretrainer", "sentence_objective": "none"},
)


def find_task(tensors: Tensors, form: str, family: str = "albert") -> dict[str, Any]:
    """The entries of task.json that the heads in a checkpoint show; an encoder if it has no known head.

    Args:
      tensors: the checkpoint, with the usual names.
      form: its format, as a field of `Names`.
      family: whose names it has.
    """
    for task in _TASKS:
        names = [getattr(head, form).name for head in head_names(task, family)]
        if tensors.shapes.keys() >= {names[0], names[-1]}:
            if family == "bert" and task.get("sentence_objective") == "sop":
                return {**task, "sentence_objective": "nsp"}
            shape = tensors.shapes[names[0]]
            return {**task, "num_labels": shape[0] if shape else 1} if "num_labels" in task else dict(task)
    return {"model": "encoder"}


Group = Callable[[int, int, int], int]


def check_groups(config: AlbertConfig, group: Group) -> None:
    """InputError if the code of others puts a layer into another group, as it computes with fractions.

    Args:
      config: the network's shape.
      group: the group of a layer there, from the layer's index, L and G.
    """
    layers, groups = config.num_hidden_layers, config.num_hidden_groups
    if any(group(layer, layers, groups) != layer * groups // layers for layer in range(layers)):
        raise InputError(
            f"num_hidden_groups={groups}: {layers} layers are grouped otherwise there, by rounding"
        )


def whole_layers(config: AlbertConfig, group: Group) -> AlbertConfig:
    """The same network for formats whose layers share both blocks or none: "none" is a group a layer.

    Raises:
      InputError: layers share one of the two blocks; or as `check_groups`.
    """
    if config.sharing in ("attention", "ffn"):
        raise InputError(f'sharing="{config.sharing}" has no form there: layers share both blocks or none')
    if config.sharing == "none":
        config = config.replace(sharing="all", num_hidden_groups=config.num_hidden_layers)
    check_groups(config, group)
    return config
