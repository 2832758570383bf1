"""Settings of a pre-training run, and their record in recipe.json."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.io import PathLike
from albert_tf.pretraining.budget import TimeBudget
from albert_tf.recipes import PretrainingRecipe, stages_from
from albert_tf.runs.run_directory import RECIPE_FILE, RunDirectory, open_run
from albert_tf.settings import defaults, flatten_record, unflatten_record
from albert_tf.text.files import describe_difference
from albert_tf.training.compute_settings import LoopSettings
from albert_tf.training.run_settings import RunSettings


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

    CHANGEABLE: ClassVar[Collection[str]] = (
        *RunSettings.CHANGEABLE,
        "eval",
        "train_files",
        "eval_files",
        "held_out",
    )

    config: AlbertConfig
    recipe: PretrainingRecipe
    train: Sequence[str]
    vocabulary: PathLike
    eval: Sequence[str] | None = None
    lowercase: bool = True
    strip_accents: bool = True
    extend_positions: bool = False
    loop: LoopSettings = dataclasses.field(default_factory=LoopSettings)
    budget: TimeBudget | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.extend_positions and self.init_from is None:
            raise InputError("extend_positions is about the run to start from: name it by init_from")
        if self.recipe.word_embeddings == "cooccurrence" and self.init_from is not None:
            raise InputError(
                f"word_embeddings='cooccurrence' and init_from={os.fspath(self.init_from)!r} both say where "
                "word embeddings come from: leave one of them out, such as by word_embeddings=random"
            )
        objective = self.recipe.examples.sentence_objective
        if objective != "none" and self.config.pooler == "none":
            raise InputError(
                f"sentence_objective={objective!r} reads the pooled output, and the config has no pooler: "
                "choose sentence_objective=none"
            )


def check_same_run(run: RunDirectory, asked: Mapping[str, Any], recipe: PretrainingRecipe) -> None:
    """ValueError, with what differs, unless a run is of these settings and this text, and whole.

    What is asked are the entries of its JSON files by name, the recipe the hyper-parameters among them.
    """
    begun, there = run.recipe, read_recipe(run)
    # The text is compared by its files; older runs know the paths alone.
    but = ["train"] if begun.get("train_files") else []
    Pretraining.check_same(run, asked, {**defaults(Pretraining), **flatten_record(there)}, but)
    for text, other in (("train", "--output"), ("eval", "text by --eval")):
        before, now = begun.get(f"{text}_files") or [], asked[f"{text}_files"] or []
        # Who names other text to evaluate on means it. Under its name it must not have changed.
        is_compared = before and (text == "train" or begun["eval"] == asked["eval"])
        if is_compared and (what := describe_difference(before, now)):
            raise InputError(
                f"{run} was begun with --{text} of other text: {what}. Bring back what it was, or name "
                f"another {other}"
            )
    # The last end is where the run ends, which says nothing of what is done.
    done_steps = max(run.steps(), default=0)
    borders = zip(recipe.stage_ends[:-1], there.stage_ends[:-1], strict=True)
    if any(min(here, done_steps) != min(before, done_steps) for here, before in borders):
        raise InputError(
            f"{run} is at step {done_steps}, and its stages end after {there.stage_ends}: with --steps "
            f"{recipe.steps} they would end after {recipe.stage_ends}. Resume with --steps {there.steps}, or "
            "go on by --init_from in another --output"
        )


def read_recipe(path: PathLike) -> PretrainingRecipe:
    """The hyper-parameters of a run; the paper's where its recipe.json, if it has one, does not say."""
    run = open_run(path)
    try:
        stages = stages_from(run.recipe.get("stages", []))
        return unflatten_record(PretrainingRecipe, {**run.recipe, "stages": stages})
    except InputError as error:
        raise InputError(f"{run.file(RECIPE_FILE)}: {error}") from error
