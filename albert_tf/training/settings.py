"""What a pre-training run is asked to do, and what recipe.json says of it."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from albert_tf.checkpoints.run import (
    RECIPE,
    VOCABULARY,
    read_config,
    read_json,
    read_task,
    read_tokenizer,
    vocabulary_path,
)
from albert_tf.choices import AUTO, POLICIES
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.recipes import PretrainingRecipe
from albert_tf.text import Vocabulary
from albert_tf.training.loop_settings import LoopSettings

PathLike = str | os.PathLike[str]

# How the updates are computed. None of it decides what they are but for rounding, so that a resumed run may
# use another machine.
EXECUTION = ("precision", "strategy", "accumulate", "xla", "remat", "data_service")

# What a resumed run may do differently.
_CHANGEABLE = ("steps", "eval", *EXECUTION, "versions", "command")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pretraining:
    """One pre-training run: what it reads, what it makes, and how.

    Args:
      output: the run directory; if it holds checkpoints, training goes on from the newest.
      config: the network's shape; its vocab_size becomes the vocabulary's.
      recipe: the hyper-parameters.
      train: text files, a prepared directory or TFRecords to train on.
      eval: the same for evaluation; None holds back 1 % of the training documents.
      vocabulary: SentencePiece model.
      lowercase: whether the tokenizer folds case.
      strip_accents: whether the tokenizer drops accents.
      seed: of everything random.
      init_from: a run of the same widths whose weights training starts from; None: random ones.
      extend_positions: whether the run to start from may have fewer positions; the others start at random.
      precision: "float32", "bfloat16" or "float16".
      strategy: "auto", "one", "mirrored", "multi_worker" or "tpu", as `make_strategy` has them.
      tpu: name or address of a TPU.
      accumulate: microbatches an update.
      xla: whether XLA compiles forward and backward.
      remat: whether the backward pass computes each layer anew, to save memory.
      data_service: address of a tf.data service that makes the batches; None makes them here.
      log_every: updates between two lines of figures.
      eval_every: updates between two evaluations.
      checkpoint_every: updates between two checkpoints.
      keep: checkpoints that stay on disk.
      profile: START:STOP, updates to trace.
      command: the command line, for the record.
    Raises:
      ValueError: a setting is impossible.
    """

    output: PathLike
    config: AlbertConfig
    recipe: PretrainingRecipe
    train: Sequence[str]
    vocabulary: PathLike
    eval: Sequence[str] | None = None
    lowercase: bool = True
    strip_accents: bool = True
    seed: int = 0
    init_from: PathLike | None = None
    extend_positions: bool = False
    precision: str = "float32"
    strategy: str = AUTO
    tpu: str | None = None
    accumulate: int = 1
    xla: bool = False
    remat: bool = False
    data_service: str | None = None
    log_every: int = LoopSettings.log_every
    eval_every: int = LoopSettings.eval_every
    checkpoint_every: int = LoopSettings.checkpoint_every
    keep: int = LoopSettings.keep
    profile: str | None = None
    command: str = ""

    def __post_init__(self) -> None:
        if self.precision not in POLICIES:
            raise InputError(f"precision={self.precision!r} is none of {', '.join(POLICIES)}")
        if not 0 <= self.seed < 2**31:
            raise InputError(f"seed={self.seed} must be at least 0 and below 2^31")
        if self.accumulate < 1:
            raise InputError(f"accumulate={self.accumulate} must be at least 1")
        if self.extend_positions and self.init_from is None:
            raise InputError("extend_positions is about the run to start from: name it by init_from")
        _ = self.loop  # which checks its numbers

    @property
    def loop(self) -> LoopSettings:
        """When the loop logs, evaluates and saves."""
        return LoopSettings(
            steps=self.recipe.steps,
            log_every=self.log_every,
            eval_every=self.eval_every,
            checkpoint_every=self.checkpoint_every,
            keep=self.keep,
            profile=self.profile,
        )

    @property
    def evaluated_at_once(self) -> int:
        """Rows of a batch to evaluate on, over all devices: a microbatch of training, which they can hold."""
        return self.recipe.batch_size // self.accumulate

    @property
    def task(self) -> dict[str, Any]:
        """What task.json says."""
        return {"model": "pretrainer", "sentence_objective": self.recipe.sentence_objective}

    @property
    def tokenizer(self) -> dict[str, Any]:
        """What tokenizer.json says."""
        return {"lowercase": self.lowercase, "strip_accents": self.strip_accents}

    def record(self) -> dict[str, Any]:
        """What recipe.json says: all that decides the weights, and by what they were made."""
        versions = {name: importlib.metadata.version(name) for name in _LIBRARIES}
        return {
            **dataclasses.asdict(self.recipe),
            "seed": self.seed,
            "train": list(self.train),
            "eval": None if self.eval is None else list(self.eval),
            "vocabulary": Vocabulary.from_file(self.vocabulary).fingerprint,
            "init_from": None if self.init_from is None else os.fspath(self.init_from),
            "extend_positions": self.extend_positions,
            **{name: getattr(self, name) for name in EXECUTION},
            "versions": {**versions, "python": sys.version.split()[0]},
            "command": self.command,
        }

    def check_same_run(self, run: Path, config: AlbertConfig) -> None:
        """ValueError, with the fields that differ, unless a run directory is of these settings, and whole.

        What an older version did not write down yet has its default.
        """
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        there = {
            **{name: value for name, value in defaults.items() if value is not dataclasses.MISSING},
            **read_config(run).to_dict(),
            **read_task(run),
            **read_tokenizer(run),
            **read_json(run / RECIPE),
            **dataclasses.asdict(read_recipe(run)),
        }
        asked = {**config.to_dict(), **self.task, **self.tokenizer, **self.record()}
        differing = [
            f"{name} is {there.get(name, 'missing')!r} there and {value!r} here"
            for name, value in asked.items()
            if name not in _CHANGEABLE and there.get(name) != value
        ]
        if differing:
            raise InputError(
                f"{run} is a run with other settings: {'; '.join(differing)}. Name another --output, or "
                "resume with the settings that are there"
            )
        if vocabulary_path(run) is None:
            raise InputError(f"{run / VOCABULARY} is missing: copy {self.vocabulary} there")


def read_recipe(run: Path) -> PretrainingRecipe:
    """The hyper-parameters in a run's recipe.json; what it does not name has its default.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it holds a value of another type, or an impossible one; the message names file and value.
    """
    names = {field.name for field in dataclasses.fields(PretrainingRecipe)}
    values = read_json(run / RECIPE)
    try:
        return PretrainingRecipe(**{name: value for name, value in values.items() if name in names})
    except InputError as error:
        raise InputError(f"{run / RECIPE}: {error}") from error


_LIBRARIES = ("tensorflow", "tensorflow-text", "tf_keras")
