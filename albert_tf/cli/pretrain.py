"""`albert-tf pretrain`: text or prepared documents to a run directory."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import logging

from albert_tf.cli import flags as shared
from albert_tf.config import PRESETS, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.process import quiet_start
from albert_tf.recipes import DEFAULT_RECIPE, PRETRAINING_RECIPES, PretrainingRecipe, read_stages
from albert_tf.text.tokenizer_config import TOKENIZER_DEFAULTS, read_vocabulary, resolve_settings
from albert_tf.training.compute_settings import LoopSettings

if TYPE_CHECKING:
    from albert_tf.pretraining.budget import ModelSize

SUMMARY = "train a model, or resume"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    add, presets = parser.add_argument, ", ".join(PRESETS)
    own = "--recipe one_machine has networks of its own"
    add("--config", help=f"a JSON file, or one of {presets}; {own}")
    shared.paths_flag(parser, "--train", shared.TEXT_HELP)
    held_out = "to evaluate on (what prepare has held out, or else about 1 %% of the text)"
    shared.paths_flag(parser, "--eval", held_out, required=False)
    add("--vocabulary", required=True, help="SentencePiece model; it sets vocab_size")
    recipes = f"hyper-parameters (the preset's, of a file {DEFAULT_RECIPE}): {', '.join(PRETRAINING_RECIPES)}"
    add("--recipe", choices=PRETRAINING_RECIPES, metavar="NAME", help=recipes)
    budget = "time to train, such as 60m or 24h: it decides --steps, by the measured time of an update"
    add("--budget", metavar="TIME", help=budget)
    shared.field_flags(parser, PretrainingRecipe, default="the recipe's")
    origin = "run of the same widths to take the weights from, or a published name"
    add("--init_from", metavar="RUN", help=origin)
    positions = "start further positions than RUN has as copies"
    add("--extend_positions", action="store_true", help=positions)
    shared.run_flags(parser)


def run(flags: argparse.Namespace) -> None:
    """Trains."""
    if flags.budget is not None and hasattr(flags, "steps"):
        raise InputError("--budget decides the updates: leave --steps out")
    read_vocabulary(flags.vocabulary)  # which says so if it is missing
    tokenizer = resolve_settings(flags.vocabulary, shared.provided_tokenizer(flags))
    with quiet_start():
        from albert_tf.pretraining.budget import TimeBudget, seconds_from, size_for_steps, size_of_run
        from albert_tf.pretraining.pretrain import pretrain
        from albert_tf.pretraining.pretraining_settings import Pretraining
        from albert_tf.runs.run_directory import RunDirectory
    there = RunDirectory(flags.output, "output")
    sizes = provided_sizes(flags, is_begun=there.is_begun)
    size = size_of_run(sizes, there.config) if there.is_begun else size_for_steps(sizes)
    settings = Pretraining(
        **shared.provided_run(flags),
        **{name: tokenizer[name] for name in TOKENIZER_DEFAULTS},  # type: ignore[arg-type]
        **{name: getattr(flags, name) for name in ("train", "eval", "vocabulary", "extend_positions")},
        config=size.config,
        recipe=size.recipe,
        budget=None if flags.budget is None else TimeBudget(seconds=seconds_from(flags.budget), sizes=sizes),
        loop=LoopSettings(**shared.provided(flags, LoopSettings)),
    )
    pretrain(settings)


def family_line(config: AlbertConfig, recipe: str) -> str | None:
    """The line about a recipe of another family than the network; None where it is of the same."""
    families = {name: PRESETS[name].family for name in PRETRAINING_RECIPES if name in PRESETS}
    there = families.get(recipe, config.family)  # that of one_machine is any
    if config.family == there:
        return None
    known = [name for name, family in families.items() if family == config.family]
    return f"the network is {config.family}'s and --recipe {recipe} is {there}'s: there is {', '.join(known)}"


def provided_sizes(flags: argparse.Namespace, *, is_begun: bool) -> Sequence[ModelSize]:
    """The networks that may be trained, from the smallest to the largest, by their recipes."""
    from albert_tf.conversion.init_from import resolve_run
    from albert_tf.pretraining.budget import ONE_MACHINE, ModelSize, sizes_at_least, warmup_of
    from albert_tf.runs.run_directory import RunDirectory

    changes = shared.provided(flags, PretrainingRecipe)
    if "stages" in changes:
        changes["stages"] = read_stages(changes["stages"]) if changes["stages"] else ()

    def changed(size: ModelSize) -> ModelSize:
        own = changes
        if flags.recipe != "one_machine" and "seq_length" in changes:  # that of all updates, not of the last
            own = {"stages": (), **changes}
        steps, warmup = changes.get("steps"), size.recipe.warmup_steps
        if is_begun and steps is not None:  # more steps leave the warm-up as it was
            own = {"warmup_steps": RunDirectory(flags.output).recipe.get("warmup_steps", warmup), **own}
        elif steps is not None and (flags.recipe == "one_machine" or warmup > steps):
            own = {"warmup_steps": warmup_of(size.recipe, steps), **own}
        return dataclasses.replace(size, recipe=size.recipe.replace(**own))

    if flags.config is not None:
        name = flags.recipe or (flags.config if flags.config in PRETRAINING_RECIPES else DEFAULT_RECIPE)
        config = shared.config_named(flags.config)
        if line := family_line(config, name):
            logging.warning(line)
        if config.pooler == "none":  # which a sentence objective reads
            changes = {"sentence_objective": "none", **changes}
        return [changed(ModelSize(config=config, recipe=PRETRAINING_RECIPES[name]))]
    if flags.recipe != "one_machine":
        raise InputError(
            "--config is missing: name a preset or a file, or --recipe one_machine, as the run was begun"
        )
    sizes = ONE_MACHINE
    if flags.init_from is not None and not is_begun:  # a run that is begun has its weights
        sizes = sizes_at_least(sizes, resolve_run(flags.init_from).config)
    return [changed(size) for size in sizes]
