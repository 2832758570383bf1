"""Stages of a pre-training run, in which depth, sequence length and batch size grow."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from albert_tf.utils.checks import check_range, check_type
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import parse_json


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """Updates of a run that are all made alike; None is the run's value.

    Args:
      until: share of the run's updates that are done when it ends; the last one ends at 1.
      num_hidden_layers: times that the shared layers are applied.
      seq_length: tokens an example; its masked tokens are then `masked_lm_prob` of these.
      batch_size: examples an update; None: as many as keep the run's tokens an update.

    Raises:
      ValueError: a value is impossible; the message names it.
    """

    until: float = 1.0
    num_hidden_layers: int | None = None
    seq_length: int | None = None
    batch_size: int | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            check_type(field.name, str(field.type), value)
            if field.name != "until" and value is not None:
                check_range(field.name, value, at_least=1, below=2**31)
        check_range("until", self.until, above=0, at_most=1, remedy="it is a share of the run's updates")


def stages_from(values: Any) -> tuple[Stage, ...]:
    """The stages of a parsed JSON list of objects with the fields of Stage; InputError where it is none."""
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise InputError("stages must be a list of objects, such as [{}]")
    stages = []
    for number, value in enumerate(values):
        try:
            stages.append(Stage(**value))
        except (TypeError, InputError) as error:  # the first for an unknown key
            raise InputError(f"stages[{number}]: {error}") from error
    return tuple(stages)


def read_stages(path: str | os.PathLike[str]) -> tuple[Stage, ...]:
    """The stages in a JSON file; an InputError names it."""
    values = parse_json(Path(path).read_bytes(), path)
    try:
        return stages_from(values)
    except InputError as error:
        raise InputError(f"{os.fspath(path)}: {error}") from error


def stage_ends(stages: Sequence[Stage], steps: int) -> list[int]:
    """The updates that are done when each stage of a run ends.

    Raises:
      InputError: the shares do not ascend to 1, or there are too few updates for each stage to have one.
    """
    shares = [stage.until for stage in stages]
    if any(a >= b for a, b in itertools.pairwise(shares)) or shares[-1] != 1:
        raise InputError(f"stages end at the shares {shares} of the run: let them ascend, and the last be 1")
    # Of few updates, each stage that follows has one.
    ends = [min(round(share * steps), steps - left) for left, share in enumerate(reversed(shares))][::-1]
    if any(a >= b for a, b in itertools.pairwise([0, *ends])):
        raise InputError(f"of steps={steps}, stages end after {ends}: with more --steps each has an update")
    return ends
