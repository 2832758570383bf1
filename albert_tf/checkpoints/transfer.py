"""Tensors of another implementation into the variables of a model, every one of them accounted for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np


class Tensors(NamedTuple):
    """What a checkpoint holds, read one tensor at a time: whole, a large one would not fit twice."""

    origin: str  # for error messages
    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], np.ndarray]


class Wanted(NamedTuple):
    """Where a variable of ours is in a checkpoint, and what makes it ours."""

    name: str
    transform: Callable[[np.ndarray], np.ndarray]


def fill(
    model: Any,
    tensors: Tensors,
    wanted: Mapping[str, Wanted],
    is_ignored: Callable[[str], bool],
    partial: bool = False,
) -> tuple[list[str], list[str]]:
    """Assigns every variable of a model from a checkpoint.

    Args:
      model: the model; nothing in it changes where this raises.
      tensors: the checkpoint.
      wanted: for each of the model's variables, by our name, what it is made of.
      is_ignored: whether a tensor that no variable needs may be there.
      partial: whether variables may be missing, and keep their values, and tensors be left over.
    Returns:
      The names of the tensors left unread, and of the variables left as they were.
    Raises:
      ValueError: variables are missing or unread, or shapes differ; one message names them all.
    """
    variables = {variable.name.partition(":")[0]: variable for variable in model.variables}
    if variables.keys() != wanted.keys():
        odd = sorted(variables.keys() ^ wanted.keys())
        raise ValueError(f"the name table does not fit {type(model).__name__}: {', '.join(odd)}")
    read = {name for name, _ in wanted.values()}
    fresh = [name for name in variables if wanted[name].name not in tensors.shapes]
    unread = sorted(name for name in tensors.shapes if name not in read)
    problems = [] if partial else [f"{wanted[name].name} is missing" for name in fresh]
    problems += [f"{name} is unknown" for name in unread if not (partial or is_ignored(name))]
    for name, variable in variables.items():
        theirs, transform = wanted[name]
        if theirs in tensors.shapes:
            # An array of zeros that takes no memory tells the shape that the transform leads to.
            shape = transform(np.broadcast_to(np.float32(0), tensors.shapes[theirs])).shape
            if shape != tuple(variable.shape):
                problems.append(f"{theirs} is {list(shape)}, the config says {list(variable.shape)}")
    if problems:
        raise ValueError(f"{tensors.origin}: {'; '.join(problems)}")
    for name, variable in variables.items():
        if name not in fresh:
            theirs, transform = wanted[name]
            variable.assign(transform(tensors.read(theirs)).astype(np.float32, copy=False))
    return unread, fresh
