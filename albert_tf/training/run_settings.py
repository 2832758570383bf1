"""Settings that pre-training and fine-tuning share, and which of them a resumed run may change."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from albert_tf.errors import InputError, check_whole, join_words, shorten
from albert_tf.io import PathLike
from albert_tf.runs.run_directory import RunDirectory, provenance_record
from albert_tf.training.compute_settings import ComputeConfig

_MAX_LIST_ITEMS = 5  # in an error


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Settings that every run has.

    Args:
      output: run directory. If it holds checkpoints, training continues from the newest.
      init_from: run whose weights training starts from. None: random weights.
      seed: seed of everything random.
      compute: how a step is computed.
      command: command line, for recipe.json.
      entries: further entries of recipe.json, such as the teacher's.
    """

    output: PathLike
    init_from: PathLike | None = None
    seed: int = 0
    compute: ComputeConfig = dataclasses.field(default_factory=ComputeConfig)
    command: str = ""
    entries: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    # Entries of recipe.json that a resumed run may change, besides the fields of ComputeConfig.
    CHANGEABLE: ClassVar[Collection[str]] = ("steps", "command")

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", check_whole("seed", self.seed, at_most=2**31 - 1))

    def run_record(self, run: RunDirectory) -> dict[str, Any]:
        """The entries of recipe.json that every run has."""
        provenance = provenance_record(run.recipe, self.init_from)
        return {"seed": self.seed, "command": self.command, **provenance, **self.entries}

    @classmethod
    def check_same(
        cls, run: RunDirectory, requested: Mapping[str, Any], changeable: Collection[str] = ()
    ) -> None:
        """Raises InputError, with the differing entries, if an existing run has other settings.

        Args:
          run: run directory that exists.
          requested: entries of config.json, task.json, tokenizer.json and recipe.json by name.
          changeable: names of entries that may differ, besides CHANGEABLE.
        """
        # A run with a teacher may only be resumed with that teacher.
        no_teacher = {"teacher_sha256": None}
        requested = {**no_teacher, **requested}
        stored = {**no_teacher, **run.config.to_dict(), **run.task, **run.tokenizer, **run.recipe}
        may_differ = {*cls.CHANGEABLE, *changeable, "init_from_sha256", "teacher"}
        origin = stored.get("init_from_sha256")  # None for published names, which are compared instead
        if origin is not None and origin == requested.get("init_from_sha256"):
            may_differ.add("init_from")
        differing = [
            f"{name} is {_format_value(stored.get(name, 'missing'))}{_format_path(name, stored)} there and "
            f"{_format_value(value)}{_format_path(name, requested)} here"
            for name, value in requested.items()
            if name not in may_differ and stored.get(name) != value
        ]
        if differing:
            raise InputError(
                f"{run} is a run with other settings: {'; '.join(differing)}. Name another `output`, or "
                "resume with the settings that are there"
            )
        if run.vocabulary is None:
            raise InputError(f"{run} has no vocabulary: copy it there")


def format_run_length(steps: int | None, epochs: float | None) -> str:
    """The argument that sets the length of a run and its value, for messages. `epochs` None: `steps` does."""
    return f"`steps` {steps}" if epochs is None else f"`epochs` {epochs:g} ({steps} steps)"


def _format_path(name: str, values: Mapping[str, Any]) -> str:
    """The path of the file with a SHA-256, in brackets; empty if the entries have none. For an error."""
    path = values.get(name.removesuffix("_sha256"))
    return f" ({path})" if name.endswith("_sha256") and path else ""


def _format_value(value: Any) -> str:
    """A setting on the one line of an error. A long list is cut."""
    return f"[{join_words(map(shorten, value), _MAX_LIST_ITEMS)}]" if isinstance(value, list) else repr(value)
