"""What a pre-training run is asked to do, and what recipe.json says of it."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from albert_tf.checkpoints.run import RECIPE
from albert_tf.checkpoints.steps import newest_checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.data.sources import corpus_files, held_out_shards, to_evaluate_on
from albert_tf.errors import InputError
from albert_tf.files import read_json
from albert_tf.origins import origin_record
from albert_tf.pretraining.budget import Budget
from albert_tf.recipes import PretrainingRecipe
from albert_tf.records import defaults, flat, from_flat
from albert_tf.stages import stages_from
from albert_tf.text import Vocabulary
from albert_tf.text.raw.identity import difference, file_identities
from albert_tf.training.execution import Execution
from albert_tf.training.loop_settings import LoopSettings
from albert_tf.training.resume import check_same_settings

PathLike = str | os.PathLike[str]

# What a resumed run may do differently, besides how its updates are computed.
_CHANGEABLE = ("steps", "eval", "command")

FILES, EVAL_FILES = "train_files", "eval_files"  # in recipe.json


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pretraining:
    """One pre-training run: what it reads, what it makes, and how.

    Args:
      output: the run directory; if it holds checkpoints, training goes on from the newest.
      config: the network's shape; its vocab_size becomes the vocabulary's.
      recipe: the hyper-parameters.
      train: text files, a prepared directory or TFRecords to train on.
      eval: the same for evaluation; None holds a part of the training text back, about 1 %.
      vocabulary: SentencePiece model.
      lowercase: whether the tokenizer folds case.
      strip_accents: whether the tokenizer drops accents.
      seed: of everything random.
      init_from: run of the same widths to take the weights from; None: random ones.
      extend_positions: start further positions than the run has as copies of those.
      execution: how updates are computed.
      loop: when the loop logs, evaluates and saves.
      budget: the time that decides config, and the updates of recipe; None: they are as they stand.
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
    execution: Execution = dataclasses.field(default_factory=Execution)
    loop: LoopSettings = dataclasses.field(default_factory=LoopSettings)
    budget: Budget | None = None
    command: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**31:
            raise InputError(f"seed={self.seed} must be at least 0 and below 2^31")
        if self.extend_positions and self.init_from is None:
            raise InputError("extend_positions is about the run to start from: name it by init_from")
        if self.recipe.word_embeddings == "cooccurrence" and self.init_from is not None:
            raise InputError(
                f"word_embeddings='cooccurrence' and init_from={os.fspath(self.init_from)!r} both say where "
                "word embeddings come from: leave one of them out, such as by word_embeddings=random"
            )

    @property
    def task(self) -> dict[str, Any]:
        """What task.json says."""
        return {"model": "pretrainer", "sentence_objective": self.recipe.examples.sentence_objective}

    @property
    def tokenizer(self) -> dict[str, Any]:
        """What tokenizer.json says."""
        return {"lowercase": self.lowercase, "strip_accents": self.strip_accents}

    @functools.cached_property
    def files(self) -> list[dict[str, Any]]:
        """What tells whether the text to train on is the same, wherever it lies."""
        return file_identities(corpus_files(self.train))

    @functools.cached_property
    def eval_files(self) -> list[dict[str, Any]]:
        """The same of text to evaluate on, given or held out by `prepare`; empty where a run holds it out."""
        inputs = held_out_shards(self.train) if self.eval is None else to_evaluate_on(self.eval)
        return file_identities(corpus_files(inputs)) if inputs else []

    def record(self) -> dict[str, Any]:
        """What recipe.json says of all that decides the weights."""
        return {
            **flat(self.recipe),
            "seed": self.seed,
            "train": list(self.train),
            FILES: self.files,
            "eval": None if self.eval is None else list(self.eval),
            EVAL_FILES: self.eval_files or None,
            "vocabulary": Vocabulary.from_file(self.vocabulary).fingerprint,
            **origin_record(self.output, self.init_from),
            "extend_positions": self.extend_positions,
            "budget": None if self.budget is None else self.budget.seconds,
            "command": self.command,
        }


def check_same_run(run: Path, config: AlbertConfig, settings: Pretraining) -> None:
    """ValueError, with what differs, unless a run directory is of these settings and this text, and whole."""
    unsaid = {**defaults(Pretraining), **flat(read_recipe(run))}
    asked = {**config.to_dict(), **settings.task, **settings.tokenizer, **settings.record()}
    there = read_json(run / RECIPE)
    files, eval_files = there.get(FILES), there.get(EVAL_FILES)
    changeable = _CHANGEABLE if files is None else (*_CHANGEABLE, "train")  # older runs: paths are compared
    check_same_settings(run, asked, unsaid, (*changeable, FILES, EVAL_FILES))
    if files is not None and (what := difference(files, settings.files)):
        raise InputError(
            f"{run} was begun with other text: {what}. Bring back what it was, or name another --output"
        )
    # Who names other text means it. Under the same name it must not have changed, or losses do not compare.
    if (
        eval_files
        and there["eval"] == asked["eval"]
        and (what := difference(eval_files, settings.eval_files))
    ):
        raise InputError(
            f"{run} was evaluated on other text: {what}. Bring back what it was, or name other text by eval"
        )
    _check_same_updates(run, settings.recipe)


def _check_same_updates(run: Path, recipe: PretrainingRecipe) -> None:
    """ValueError where the updates that a run has done would belong to other stages with other steps."""
    there, done = read_recipe(run), newest_checkpoint(run) or 0
    ends, ends_there = ([stage.end for stage in each.resolved_stages] for each in (recipe, there))
    # The last of them is where the run ends, which says nothing of what is done.
    borders = zip(ends[:-1], ends_there[:-1], strict=True)
    if any(min(here, done) != min(before, done) for here, before in borders):
        raise InputError(
            f"{run} is at step {done}, and its stages end after {ends_there}: with --steps {recipe.steps} "
            f"they would end after {ends}. Resume with --steps {there.steps}, or go on by --init_from "
            "in another --output"
        )


def read_recipe(run: Path) -> PretrainingRecipe:
    """The hyper-parameters of a run; the paper's where its recipe.json, if it has one, does not say.

    Raises:
      ValueError: it holds a value of another type, or an impossible one; the message names file and value.
    """
    path = run / RECIPE
    values = read_json(path) if path.exists() else {}
    try:
        stages = stages_from(values.get("stages", []))
        return from_flat(PretrainingRecipe, {**values, "stages": stages})
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
