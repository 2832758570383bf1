"""`albert-tf pretrain`: trains a model on text or prepared documents, and writes a run directory."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import logging

from albert_tf.cli import flags as shared
from albert_tf.config import PRESETS, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.recipes import DEFAULT_RECIPE, PRETRAINING_RECIPES, PretrainingRecipe, read_stages
from albert_tf.signals import quiet_start
from albert_tf.text.tokenizer_config import TOKENIZER_DEFAULTS, read_vocabulary, resolve_settings
from albert_tf.training.compute_settings import LoopSettings

if TYPE_CHECKING:
    from albert_tf.pretraining.budget import ModelSize

SUMMARY = "train a model, or resume"

# Settings that finished examples keep.
_OF_EXAMPLES = ("input_format", "masked_lm_prob", "max_ngram", "short_seq_prob", "whole_word")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of the command."""
    add, presets = parser.add_argument, ", ".join(PRESETS)
    add("--config", help=f"a JSON file, or one of {presets}; not needed with --recipe one_machine")
    shared.add_paths_flag(parser, "--train", shared.TEXT_HELP)
    held_out = "text to evaluate on (the part that prepare held out, or else about 1 %% of the text)"
    shared.add_paths_flag(parser, "--eval", held_out, required=False)
    add("--vocabulary", required=True, help="SentencePiece model; it sets vocab_size")
    recipes = f"hyper-parameters (the preset's, of a file {DEFAULT_RECIPE}): {', '.join(PRETRAINING_RECIPES)}"
    add("--recipe", choices=PRETRAINING_RECIPES, metavar="NAME", help=recipes)
    budget = "time to train, such as 60m or 24h: it decides --steps, by the measured time of a step"
    add("--budget", metavar="TIME", help=budget)
    shared.add_field_flags(parser, PretrainingRecipe, default="the recipe's")
    origin = "run of the same widths to take the weights from, or a published name"
    add("--init_from", metavar="RUN", help=origin)
    positions = "start the positions that RUN lacks as copies of its positions"
    add("--extend_positions", action="store_true", help=positions)
    shared.add_run_flags(parser)


def run(flags: argparse.Namespace) -> None:
    """Trains the model."""
    if flags.budget is not None and hasattr(flags, "steps"):
        raise InputError("--budget decides the steps: leave --steps out")
    if flags.budget is not None and hasattr(flags, "warmup_steps"):
        raise InputError(
            "--budget decides the warm-up, a tenth of the steps at most: leave --warmup_steps out"
        )
    read_vocabulary(flags.vocabulary)  # raises if it is missing
    tokenizer = shared.provided(flags, TOKENIZER_DEFAULTS)
    with quiet_start():
        from albert_tf.pretraining.budget import TimeBudget, parse_duration, size_for_steps, size_of_run
        from albert_tf.pretraining.pretrain import pretrain
        from albert_tf.pretraining.pretraining_settings import Pretraining
        from albert_tf.runs.run_directory import TASK_FILE, RunDirectory
    output = RunDirectory(flags.output, "output")
    origin = output if output.has_recipe or flags.init_from is None else RunDirectory(flags.init_from)
    # By default texts are tokenised as for it. `pretrain` converts other checkpoints, once hosts have met.
    if origin.has(TASK_FILE):
        tokenizer = {**origin.tokenizer_of(origin.resolve_vocabulary(flags.vocabulary)), **tokenizer}
        tokenizer = {name: tokenizer[name] for name in TOKENIZER_DEFAULTS}
    tokenizer = resolve_settings(flags.vocabulary, tokenizer)
    config = None if flags.config is None else shared.resolve_config(flags.config)
    sizes = candidate_sizes(flags, config, is_begun=output.has_recipe)
    size = size_of_run(sizes, output.config) if output.has_recipe else size_for_steps(sizes)
    given = [name for name in _OF_EXAMPLES if hasattr(flags, name) and not output.has_recipe]
    settings = Pretraining(
        **shared.provided_run_settings(flags),
        **{name: tokenizer[name] for name in TOKENIZER_DEFAULTS},  # type: ignore[arg-type]
        **{name: getattr(flags, name) for name in ("train", "eval", "vocabulary", "extend_positions")},
        config=size.config,
        recipe=size.recipe,
        budget=None
        if flags.budget is None
        else TimeBudget(seconds=parse_duration(flags.budget), sizes=sizes),
        loop=LoopSettings(**shared.provided_fields(flags, LoopSettings)),
    )
    pretrain(settings, given=given)


def family_warning(config: AlbertConfig, recipe: str) -> str | None:
    """A warning if the recipe is for another family of networks (BERT's for an ALBERT); else None."""
    families = {name: PRESETS[name].family for name in PRETRAINING_RECIPES if name in PRESETS}
    recipe_family = families.get(recipe, config.family)  # one_machine fits every family
    if config.family == recipe_family:
        return None
    alternatives = ", ".join(name for name, family in families.items() if family == config.family)
    families_differ = f"the network is {config.family}'s and --recipe {recipe} is {recipe_family}'s"
    return f"{families_differ}: there is {alternatives}"


def candidate_sizes(
    flags: argparse.Namespace, config: AlbertConfig | None, *, is_begun: bool, warns: bool = True
) -> Sequence[ModelSize]:
    """The networks that may be trained, with their recipes, from the smallest to the largest.

    Without a config they are those of the recipe `one_machine`. `warns` is False to log no warning if the
    recipe is for another family of networks.
    """
    from albert_tf.conversion.init_from import resolve_run
    from albert_tf.pretraining.budget import ONE_MACHINE, ModelSize, sizes_at_least, warmup_steps_for
    from albert_tf.runs.run_directory import RunDirectory

    changes = shared.provided_fields(flags, PretrainingRecipe)
    if "stages" in changes:
        changes["stages"] = read_stages(changes["stages"]) if changes["stages"] else ()

    def apply_changes(size: ModelSize) -> ModelSize:
        fields = changes
        if flags.recipe != "one_machine" and "seq_length" in changes:  # it then holds for all steps
            fields = {"stages": (), **changes}
        steps, warmup = changes.get("steps"), size.recipe.warmup_steps
        if is_begun and steps is not None:  # more steps leave the warm-up as it was
            fields = {"warmup_steps": RunDirectory(flags.output).recipe.get("warmup_steps", warmup), **fields}
        elif steps is not None and (flags.recipe == "one_machine" or warmup > steps):
            fields = {"warmup_steps": warmup_steps_for(size.recipe, steps), **fields}
        return dataclasses.replace(size, recipe=size.recipe.replace(**fields))

    if config is not None:
        name = flags.recipe or (flags.config if flags.config in PRETRAINING_RECIPES else DEFAULT_RECIPE)
        if warns and (line := family_warning(config, name)):
            logging.warning(line)
        if config.pooler == "none":  # a sentence objective needs a pooler
            changes = {"sentence_objective": "none", **changes}
        return [apply_changes(ModelSize(config=config, recipe=PRETRAINING_RECIPES[name]))]
    if flags.recipe != "one_machine":
        raise InputError(
            "--config is missing: name a preset or a file, or --recipe one_machine, as the run was begun"
        )
    sizes = ONE_MACHINE
    if flags.init_from is not None and not is_begun:  # a run that has begun has its own weights
        sizes = sizes_at_least(sizes, resolve_run(flags.init_from, flags.vocabulary).config)
    return [apply_changes(size) for size in sizes]
