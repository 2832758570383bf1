"""Settings that pre-training and fine-tuning share, and which of them a resumed run may change."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from albert_tf.errors import InputError, check_range, check_type, join_words, shorten
from albert_tf.io import PathLike
from albert_tf.runs.run_directory import RunDirectory, provenance_record
from albert_tf.training.compute_settings import ComputeConfig

_MAX_SHOWN = 5  # items of a list in an error


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Settings of every run.

    Args:
      output: the run directory; if it holds checkpoints, training goes on from the newest.
      init_from: where the weights begin; None: at random.
      seed: of everything random.
      execution: how updates are computed.
      command: the command line, for the record.
      entries: further entries of recipe.json, such as those of a teacher.
    """

    output: PathLike
    init_from: PathLike | None = None
    seed: int = 0
    execution: ComputeConfig = dataclasses.field(default_factory=ComputeConfig)
    command: str = ""
    entries: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    # Entries of recipe.json that a resumed run may change, besides those of Execution.
    CHANGEABLE: ClassVar[Collection[str]] = ("steps", "command")

    def __post_init__(self) -> None:
        check_type("seed", "int", self.seed)
        check_range("seed", self.seed, at_least=0, below=2**31)

    def run_record(self, run: RunDirectory) -> dict[str, Any]:
        """The entries of recipe.json that every run has."""
        own = {"seed": self.seed, "command": self.command}
        return {**own, **provenance_record(run.recipe, self.init_from), **self.entries}

    @classmethod
    def check_same(
        cls, run: RunDirectory, asked: Mapping[str, Any], unsaid: Mapping[str, Any], but: Collection[str] = ()
    ) -> None:
        """InputError, with the differing entries, if a run was begun with other settings.

        Args:
          run: the run directory, which is begun.
          asked: the entries of config.json, task.json, tokenizer.json and recipe.json by name.
          unsaid: values that older versions did not write down.
          but: entries that may differ, besides CHANGEABLE.
        """
        # Of a run without a teacher, which no other command goes on with.
        taught_by = {"teacher_sha256": None}
        asked = {**taught_by, **asked}
        there = {**taught_by, **unsaid, **run.config.to_dict(), **run.task, **run.tokenizer, **run.recipe}
        may_differ = {*cls.CHANGEABLE, *but, "init_from_sha256", "teacher"}
        origin = there.get("init_from_sha256")  # older runs do not say: their paths are compared
        if origin is not None and origin == asked.get("init_from_sha256"):
            may_differ.add("init_from")
        differing = [
            f"{name} is {_shown(there.get(name, 'missing'))}{_place(name, there)} there and "
            f"{_shown(value)}{_place(name, asked)} here"
            for name, value in asked.items()
            if name not in may_differ and there.get(name) != value
        ]
        if differing:
            raise InputError(
                f"{run} is a run with other settings: {'; '.join(differing)}. Name another --output, or "
                "resume with the settings that are there"
            )
        if run.vocabulary is None:
            raise InputError(f"{run} has no vocabulary: copy it there")


def _place(name: str, values: Mapping[str, Any]) -> str:
    """The path that a SHA-256 is of, in brackets, if the entries have it; for an error."""
    path = values.get(name.removesuffix("_sha256"))
    return f" ({path})" if name.endswith("_sha256") and path else ""


def _shown(value: Any) -> str:
    """A setting in an error's one line; of a long list the first items."""
    return f"[{join_words(map(shorten, value), _MAX_SHOWN)}]" if isinstance(value, list) else repr(value)
