"""Settings of a pre-training run, and their record in recipe.json."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, add_place
from albert_tf.io import PathLike
from albert_tf.models.task_models import check_pooler
from albert_tf.pretraining.budget import TimeBudget
from albert_tf.recipes import PretrainingRecipe, parse_stages
from albert_tf.runs.run_directory import RECIPE_FILE, RunDirectory, open_run
from albert_tf.settings import unflatten_record
from albert_tf.text.files import describe_difference
from albert_tf.training.compute_settings import LoopSettings
from albert_tf.training.run_settings import RunSettings

# Entries of recipe.json about the text. Text is compared by the content of its files.
TEXT_ENTRIES = ("train", "train_files", "eval", "eval_files", "held_out")
TRAINED_POSITIONS = "trained_positions"  # entry: the number of positions that were trained before the run
EVAL_SINCE = "eval_since"  # entry of recipe.json: the step since which the run evaluates on its present text


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pretraining(RunSettings):
    """Settings of a pre-training run. See `RunSettings` for the settings that every run has.

    Args:
      config: shape of the network. The vocabulary sets vocab_size.
      recipe: the hyper-parameters.
      train: text files, a prepared directory or TFRecords to train on.
      eval: the same to evaluate on. None: about 1 % of the training text is held out.
      vocabulary: file or folder of the vocabulary.
      lowercase: fold case.
      strip_accents: drop accents.
      extend_positions: allow more positions than the run `init_from` has. They start as copies of its own.
      loop: when to log, evaluate and save.
      budget: training time, which decides config and the number of steps. None: config and recipe do.
    Raises:
      InputError: a setting is impossible; the message names it.
    """

    CHANGEABLE: ClassVar[Collection[str]] = (
        *RunSettings.CHANGEABLE,
        *TEXT_ENTRIES,
        EVAL_SINCE,
        TRAINED_POSITIONS,
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
        if (objective := self.recipe.examples.sentence_objective) != "none":
            check_pooler(self.config, f"sentence_objective={objective!r}", "sentence_objective=none")


def check_same_run(run: RunDirectory, requested: Mapping[str, Any], recipe: PretrainingRecipe) -> None:
    """Raises InputError, with the differences, unless a run can resume with these settings and text.

    Args:
      run: run directory.
      requested: entries of its JSON files by name, with the hyper-parameters.
      recipe: the same hyper-parameters.
    """
    record, stored = run.recipe, read_recipe(run)
    Pretraining.check_same(run, requested)
    for text, other in (("train", "`output`"), ("eval", "text by `eval`")):
        before, now = record[f"{text}_files"] or [], requested[f"{text}_files"] or []
        # Another --eval path is allowed. The same path with changed content is an error.
        is_compared = before and (text == "train" or record["eval"] == requested["eval"])
        if is_compared and (difference := describe_difference(before, now)):
            raise InputError(
                f"{run} was begun with `{text}` of other text: {difference}. Bring back what it was, or "
                f"name another {other}"
            )
    # The end of the last stage is the end of the run, which may change.
    done_steps = max(run.steps(), default=0)
    ends = zip(recipe.stage_ends[:-1], stored.stage_ends[:-1], strict=True)
    if any(min(new, done_steps) != min(old, done_steps) for new, old in ends):
        raise InputError(
            f"{run} is at step {done_steps}, and its stages end after {stored.stage_ends}: with `steps` "
            f"{recipe.steps} they would end after {recipe.stage_ends}. Resume with `steps` {stored.steps}, "
            "or go on by `init_from` in another `output`"
        )


def evaluated_since(run: RunDirectory, eval_files: Sequence[Any] | None) -> int:
    """The step since which a run evaluates on this text; -1 for a new run, and from the beginning."""
    if not run.has_recipe:
        return -1
    if run.recipe["eval_files"] == eval_files:
        return run.recipe.get(EVAL_SINCE, -1)
    return max(run.steps(), default=-1)


def trained_positions(run: RunDirectory) -> int:
    """The number of positions that a run has trained: all, unless its pre-training had shorter sequences."""
    most = run.config.max_position_embeddings
    if "train_files" not in run.recipe:  # converted or fine-tuned
        return most
    recipe, step = read_recipe(run), run.default_step() or 0
    begins = (0, *recipe.stage_ends)
    lengths = [
        recipe.for_stage(stage).examples.seq_length
        for stage, begin in zip(recipe.all_stages, begins, strict=False)
        if begin < step
    ]
    return min(max([positions_before(run), *lengths]), most)


def positions_before(run: RunDirectory, origin: RunDirectory | None = None) -> int:
    """The number of positions that were trained before a run began. A new one starts from `origin`."""
    if not run.has_recipe:
        return 0 if origin is None else trained_positions(origin)
    is_new = run.recipe.get("init_from") is None
    return run.recipe.get(TRAINED_POSITIONS, 0 if is_new else run.config.max_position_embeddings)


def text_record(run: RunDirectory) -> Mapping[str, Any] | None:
    """Returns the entries of recipe.json about the text of a run; None if the run is new.

    Raises:
      InputError: one of the entries is missing.
    """
    if not run.has_recipe:
        return None
    if missing := [name for name in TEXT_ENTRIES if name not in run.recipe]:
        raise InputError(
            f"{run.file(RECIPE_FILE)} lacks {', '.join(missing)}: it is damaged, or not of pre-training: "
            "name another `output`"
        )
    return {name: run.recipe[name] for name in TEXT_ENTRIES}


def read_recipe(path: PathLike) -> PretrainingRecipe:
    """Reads the hyper-parameters of a run. Those missing from its recipe.json are the paper's."""
    run = open_run(path)
    recipe = run.recipe
    with add_place(run.file(RECIPE_FILE)):
        stages = parse_stages(recipe.get("stages", []))
        return unflatten_record(PretrainingRecipe, {**recipe, "stages": stages})
