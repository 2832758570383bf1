"""`albert-tf pretrain`: text or prepared documents to a run directory."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from albert_tf.cli.flags import (
    TEXT,
    config_named,
    field_flags,
    given,
    paths_flag,
    run_flags,
    run_given,
    tokenizer_given,
)
from albert_tf.config import PRESETS
from albert_tf.recipes import DEFAULT_RECIPE, RECIPES, PretrainingRecipe
from albert_tf.stages import read_stages
from albert_tf.startup import quiet_start
from albert_tf.tokenizer_settings import resolved_settings
from albert_tf.training.settings import LoopSettings
from albert_tf.utils.errors import InputError

if TYPE_CHECKING:
    from albert_tf.pretraining.budget import Size

SUMMARY = "train a model, or resume"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    parser.add_argument(
        "--config",
        help=f"a JSON file, or one of {', '.join(PRESETS)}; --recipe one_machine has networks of its own",
    )
    paths_flag(parser, "--train", TEXT)
    held_out = "to evaluate on (what prepare has held out, or else about 1 %% of the text)"
    paths_flag(parser, "--eval", held_out, required=False)
    parser.add_argument("--vocabulary", required=True, help="SentencePiece model; it sets vocab_size")
    parser.add_argument(
        "--recipe",
        choices=RECIPES,
        metavar="NAME",
        help=f"hyper-parameters (the preset's, else {DEFAULT_RECIPE}): {', '.join(RECIPES)}",
    )
    parser.add_argument(
        "--budget",
        metavar="TIME",
        help="time to train, such as 60m or 24h: it decides --steps, by the measured time of an update",
    )
    field_flags(parser, PretrainingRecipe, default="the recipe's")
    parser.add_argument(
        "--init_from",
        metavar="RUN",
        help="run of the same widths to take the weights from, or a published name",
    )
    parser.add_argument(
        "--extend_positions", action="store_true", help="start further positions than RUN has as copies"
    )
    run_flags(parser)


def run(flags: argparse.Namespace) -> None:
    """Trains."""
    with quiet_start():
        from albert_tf.checkpoints.directory import RunDirectory
        from albert_tf.pretraining.budget import Budget, as_begun, for_its_steps, seconds_from
        from albert_tf.pretraining.run import pretrain
        from albert_tf.pretraining.settings import Pretraining
    changes = given(flags, PretrainingRecipe)
    if "stages" in changes:
        changes["stages"] = read_stages(changes["stages"]) if changes["stages"] else ()
    if flags.budget is not None and "steps" in changes:
        raise InputError("--budget decides the updates: leave --steps out")
    there = RunDirectory(flags.output, "output")
    sizes = _sizes(flags, changes, is_begun=there.is_begun)
    size = as_begun(sizes, there.config) if there.is_begun else for_its_steps(sizes)
    alike = ("train", "eval", "vocabulary", "extend_positions")
    text: dict[str, Any] = resolved_settings(flags.vocabulary, tokenizer_given(flags))
    settings = Pretraining(
        **run_given(flags),
        **text,
        **{name: getattr(flags, name) for name in alike},
        config=size.config,
        recipe=size.recipe,
        budget=None if flags.budget is None else Budget(seconds=seconds_from(flags.budget), sizes=sizes),
        loop=LoopSettings(**given(flags, LoopSettings)),
    )
    pretrain(settings)


def _sizes(flags: argparse.Namespace, changes: Mapping[str, Any], *, is_begun: bool) -> tuple[Size, ...]:
    """The networks that may be trained, from the smallest to the largest."""
    from albert_tf.pretraining.budget import ONE_MACHINE, WARMUP_SHARE, Size

    if flags.recipe == "one_machine" and "steps" in changes:
        warmup = min(RECIPES["one_machine"].warmup_steps, int(WARMUP_SHARE * changes["steps"]))
        changes = {"warmup_steps": warmup, **changes}
    if flags.config is not None:
        name = flags.recipe or (flags.config if flags.config in RECIPES else DEFAULT_RECIPE)
        recipe = RECIPES[name].replace(**changes)
        return (Size(least_updates=1, config=config_named(flags.config), recipe=recipe),)
    if flags.recipe != "one_machine":
        raise InputError(
            "--config is missing: name a preset or a file, or --recipe one_machine, as the run was begun"
        )
    # A run that is begun has its weights: where they came from may be gone.
    is_all = is_begun or flags.init_from is None
    sizes = ONE_MACHINE if is_all else _no_smaller(ONE_MACHINE, flags.init_from)
    return tuple(dataclasses.replace(size, recipe=size.recipe.replace(**changes)) for size in sizes)


def _no_smaller(sizes: tuple[Size, ...], origin: str) -> tuple[Size, ...]:
    """The networks as wide as the run whose weights they begin with, and as deep.

    Where none is as deep, the deepest; where none is as wide, all, which are then refused.
    """
    from albert_tf.conversion.start import run_at

    config = run_at(origin).config
    wide = tuple(size for size in sizes if size.config.hidden_size == config.hidden_size)
    deep = tuple(size for size in wide if size.config.num_hidden_layers >= config.num_hidden_layers)
    return deep or wide[-1:] or sizes
