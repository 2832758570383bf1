"""Settings of a pre-training run, and their record in recipe.json."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Sequence
from typing import Any, ClassVar

from albert_tf.checkpoints.directory import RECIPE, RunDirectory
from albert_tf.checkpoints.run import opened_run
from albert_tf.config import AlbertConfig
from albert_tf.data.sources import corpus_files, held_out_shards, to_evaluate_on
from albert_tf.pretraining.budget import Budget
from albert_tf.raw_text.identity import difference, file_identities
from albert_tf.recipes import PretrainingRecipe
from albert_tf.stages import stages_from
from albert_tf.tokenizers import Vocabulary
from albert_tf.training.run_settings import PathLike, RunSettings
from albert_tf.training.settings import LoopSettings
from albert_tf.utils.errors import InputError
from albert_tf.utils.records import defaults, flat, from_flat

FILES, EVAL_FILES = "train_files", "eval_files"  # in recipe.json


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pretraining(RunSettings):
    """Settings of a pre-training run, besides those of every run.

    Args:
      config: the network's shape; its vocab_size becomes the vocabulary's.
      recipe: the hyper-parameters.
      train: text files, a prepared directory or TFRecords to train on.
      eval: the same for evaluation; None holds a part of the training text back, about 1 %.
      vocabulary: SentencePiece model.
      lowercase: fold case.
      strip_accents: drop accents.
      extend_positions: start further positions than the run `init_from` has as copies of those.
      loop: when the loop logs, evaluates and saves.
      budget: the time that decides config, and the updates of recipe; None: they are as they stand.
    Raises:
      ValueError: a setting is impossible.
    """

    CHANGEABLE: ClassVar = (*RunSettings.CHANGEABLE, "eval", FILES, EVAL_FILES)

    config: AlbertConfig
    recipe: PretrainingRecipe
    train: Sequence[str]
    vocabulary: PathLike
    eval: Sequence[str] | None = None
    lowercase: bool = True
    strip_accents: bool = True
    extend_positions: bool = False
    loop: LoopSettings = dataclasses.field(default_factory=LoopSettings)
    budget: Budget | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.extend_positions and self.init_from is None:
            raise InputError("extend_positions is about the run to start from: name it by init_from")
        if self.recipe.word_embeddings == "cooccurrence" and self.init_from is not None:
            raise InputError(
                f"word_embeddings='cooccurrence' and init_from={os.fspath(self.init_from)!r} both say where "
                "word embeddings come from: leave one of them out, such as by word_embeddings=random"
            )

    @property
    def task(self) -> dict[str, Any]:
        """The entries of task.json."""
        return {"model": "pretrainer", "sentence_objective": self.recipe.examples.sentence_objective}

    @property
    def tokenizer(self) -> dict[str, Any]:
        """The entries of tokenizer.json."""
        return {"lowercase": self.lowercase, "strip_accents": self.strip_accents}

    @functools.cached_property
    def pieces(self) -> Vocabulary:
        """The vocabulary, read from its file."""
        return Vocabulary.from_file(self.vocabulary)

    @functools.cached_property
    def eval_inputs(self) -> list[str]:
        """Files to evaluate on, given or held out by `prepare`; empty where the run holds a part out."""
        return held_out_shards(self.train) if self.eval is None else to_evaluate_on(self.eval)

    @functools.cached_property
    def files(self) -> list[dict[str, Any]]:
        """The identity of the text to train on, wherever it lies."""
        return file_identities(corpus_files(self.train))

    @functools.cached_property
    def eval_files(self) -> list[dict[str, Any]]:
        """The identity of `eval_inputs`."""
        return file_identities(corpus_files(self.eval_inputs)) if self.eval_inputs else []

    def record(self, run: RunDirectory) -> dict[str, Any]:
        """The entries of recipe.json that decide the weights."""
        return {
            **flat(self.recipe),
            "train": list(self.train),
            FILES: self.files,
            "eval": None if self.eval is None else list(self.eval),
            EVAL_FILES: self.eval_files or None,
            "vocabulary": self.pieces.fingerprint,
            **self.run_record(run),
            "extend_positions": self.extend_positions,
            "budget": None if self.budget is None else self.budget.seconds,
        }


def check_same_run(run: RunDirectory, config: AlbertConfig, settings: Pretraining) -> None:
    """ValueError, with what differs, unless a run directory is of these settings and this text, and whole."""
    there = read_recipe(run)
    unsaid = {**defaults(Pretraining), **flat(there)}
    asked = {**config.to_dict(), **settings.task, **settings.tokenizer, **settings.record(run)}
    files, eval_files = run.recipe.get(FILES), run.recipe.get(EVAL_FILES)
    # The text is compared by its content; older runs know the paths alone.
    settings.check_same(run, asked, unsaid, but=() if files is None else ["train"])
    if files is not None and (what := difference(files, settings.files)):
        raise InputError(
            f"{run} was begun with other text: {what}. Bring back what it was, or name another --output"
        )
    # Who names other text means it. Under the same name it must not have changed, or losses do not compare.
    if (
        eval_files
        and run.recipe["eval"] == asked["eval"]
        and (what := difference(eval_files, settings.eval_files))
    ):
        raise InputError(
            f"{run} was evaluated on other text: {what}. Bring back what it was, or name other text by eval"
        )
    _check_same_updates(run, there, settings.recipe)


def _check_same_updates(run: RunDirectory, there: PretrainingRecipe, recipe: PretrainingRecipe) -> None:
    """ValueError if the updates that a run has done would belong to other stages with other steps."""
    done = max(run.steps(), default=0)
    # The last end is where the run ends, which says nothing of what is done.
    borders = zip(recipe.stage_ends[:-1], there.stage_ends[:-1], strict=True)
    if any(min(here, done) != min(before, done) for here, before in borders):
        raise InputError(
            f"{run} is at step {done}, and its stages end after {there.stage_ends}: with --steps "
            f"{recipe.steps} they would end after {recipe.stage_ends}. Resume with --steps {there.steps}, or "
            "go on by --init_from in another --output"
        )


def read_recipe(path: PathLike) -> PretrainingRecipe:
    """The hyper-parameters of a run; the paper's where its recipe.json, if it has one, does not say.

    Raises:
      ValueError: it holds a value of another type, or an impossible one; the message names file and value.
    """
    run = opened_run(path)
    try:
        stages = stages_from(run.recipe.get("stages", []))
        return from_flat(PretrainingRecipe, {**run.recipe, "stages": stages})
    except InputError as error:
        raise InputError(f"{run.file(RECIPE)}: {error}") from error
