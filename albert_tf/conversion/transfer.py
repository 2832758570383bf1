"""Tensors of another implementation into the variables of a model, every one of them accounted for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from albert_tf.checkpoints.names import head_names
from albert_tf.config import AlbertConfig
from albert_tf.utils.errors import InputError

FLOATS = ("float16", "bfloat16", "float32", "float64")


class Tensors(NamedTuple):
    """The tensors of a checkpoint, read one at a time: a large one does not fit into memory twice."""

    origin: str  # for error messages
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, str]  # names as NumPy and TensorFlow have them
    read: Callable[[str], np.ndarray]


class Wanted(NamedTuple):
    """Name and shape of a variable in a checkpoint, and its transform to ours."""

    name: str
    shape: tuple[int, ...]
    transform: Callable[[np.ndarray], np.ndarray] = np.asarray
    optional: bool = False  # whether the model may do without it


class Source(NamedTuple):
    """A checkpoint of another implementation, opened but not read, and what was found beside it."""

    tensors: Tensors
    config: AlbertConfig
    task: dict[str, Any]  # of task.json
    wanted: Mapping[str, Wanted]  # by our names
    is_ignored: Callable[[str], bool]  # whether a tensor that no variable needs may be there
    vocabulary: Path | None
    tokenizer: dict[str, bool] | None = None  # of tokenizer.json
    problems: Sequence[str] = ()  # why it cannot be read, found as it was opened


class Comparison(NamedTuple):
    """The differences between a checkpoint and a model, by name."""

    problems: list[str]
    unread: list[str]  # tensors of the checkpoint that nothing here needs
    fresh: list[str]  # variables that the checkpoint does not have


def compare(source: Source, partial: bool = False) -> Comparison:
    """Compares a checkpoint's names, shapes and types with those that the variables of a model need.

    Args:
      source: the checkpoint.
      partial: True if variables may be missing and tensors may be left over.
    Returns:
      What differs; where there are problems, the checkpoint cannot be read.
    """
    tensors = source.tensors
    read = {wanted.name for wanted in source.wanted.values()}
    unread = sorted(name for name in tensors.shapes if name not in read)
    fresh = [name for name, wanted in source.wanted.items() if wanted.name not in tensors.shapes]
    problems = list(source.problems)
    problems += [
        f"{source.wanted[name].name} is missing"
        for name in fresh
        if not (partial or source.wanted[name].optional)
    ]
    if partial and len(fresh) == len(source.wanted):
        problems.append("none of the encoder's variables is there")
    problems += [f"{name} is unknown" for name in unread if not (partial or source.is_ignored(name))]
    for wanted in source.wanted.values():
        if wanted.name in tensors.shapes:
            shape, dtype = tensors.shapes[wanted.name], tensors.dtypes[wanted.name]
            if shape != wanted.shape:
                problems.append(f"{wanted.name} is {list(shape)}, the config says {list(wanted.shape)}")
            elif dtype not in FLOATS:
                problems.append(f"{wanted.name} is of type {dtype}, none of {', '.join(FLOATS)}")
    return Comparison(problems, unread, fresh)


def read_value(source: Source, name: str | None) -> np.ndarray | None:
    """The value of a variable of ours, once `compare` found no problems; None where there is none.

    Args:
      source: the checkpoint.
      name: of the variable.
    Raises:
      ValueError: the checkpoint is damaged, or holds non-finite values.
    """
    wanted = source.wanted.get(name or "")
    if wanted is None or wanted.name not in source.tensors.shapes:
        return None
    with np.errstate(over="ignore"):  # found below
        value = source.tensors.read(wanted.name).astype(np.float32, copy=False)
    if not np.isfinite(value).all():
        raise InputError(f"{source.tensors.origin}: {wanted.name} holds NaN or infinity")
    return wanted.transform(value)


class Prefix(NamedTuple):
    """Prefixes of names in a checkpoint that was saved as a part of a larger model."""

    scope: str  # usually before the encoder's names: "bert/" or "albert."
    encoder: str  # here before the encoder's names
    heads: str  # here before the heads' names

    def apply(self, name: str, existing: Collection[str]) -> str:
        """The name here of what usually has another: heads may be with the encoder or outside."""
        if self.scope and name.startswith(self.scope):
            return self.encoder + name.removeprefix(self.scope)
        return self.heads + name if self.heads + name in existing else name


def find_prefix(tensors: Tensors, scope: str, anchor: str) -> Prefix:
    """Finds the prefixes of the names in a checkpoint.

    Args:
      tensors: the checkpoint.
      scope: what usually stands before the encoder's names.
      anchor: name of the word embeddings without it; every checkpoint has them.
    Returns:
      The prefix; the usual one where there is no anchor.
    Raises:
      ValueError: there are several models in the checkpoint.
    """
    separator = scope[-1:] or "/"
    found = [name for name in tensors.shapes if name == anchor or name.endswith(separator + anchor)]
    if len(found) > 1:
        raise InputError(f"{tensors.origin} holds several models: {', '.join(sorted(found))}")
    encoder = found[0].removesuffix(anchor) if found else scope
    outside, _, _ = encoder.removesuffix(separator).rpartition(separator)
    return Prefix(scope, encoder, f"{outside}{separator}" if outside else "")


def find_task(tensors: Tensors, prefix: Prefix, column: str) -> dict[str, Any]:
    """The task that the heads in a checkpoint show.

    Args:
      tensors: the checkpoint.
      prefix: what stands before its names.
      column: of `Names`: "google" or "hugging_face".
    Returns:
      What task.json says; an encoder where there is none of the known heads.
    """

    def shape(task: dict[str, Any]) -> tuple[int, ...] | None:
        head = next(iter(head_names(task)))
        return tensors.shapes.get(prefix.apply(getattr(head, column), tensors.shapes))

    for kind in ("classifier", "token_classifier"):
        logits = shape({"model": kind, "num_labels": 1})
        if logits is not None:
            return {"model": kind, "num_labels": logits[0] if logits else 1}
    for task in ({"model": "span_labeler"}, {"model": "span_labeler", "answerability": True}):
        if shape(task) is not None:
            return task
    if shape({"model": "pretrainer", "sentence_objective": "none"}) is None:
        return {"model": "encoder"}
    # Sentence-order and next-sentence heads have one name; ALBERT is trained with the former.
    has_sentence = any(
        prefix.apply(getattr(names, column), tensors.shapes) in tensors.shapes
        for names in head_names({"model": "pretrainer", "sentence_objective": "sop"})
        if names.ours.startswith("cls/seq_relationship/")
    )
    return {"model": "pretrainer", "sentence_objective": "sop" if has_sentence else "none"}


def pretraining_names(column: str) -> set[str]:
    """The names of pre-training's heads, which stay in a checkpoint when it is fine-tuned from a module.

    Args:
      column: of `Names`: "google" or "hugging_face".
    """
    task = {"model": "pretrainer", "sentence_objective": "sop"}
    return {getattr(names, column) for names in head_names(task)}
