"""`albert-tf plan`: memory, traffic, time and data of a pre-training run, before it begins."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from albert_tf.cli import flags as shared
from albert_tf.errors import check_range
from albert_tf.io import dump_json
from albert_tf.process import quiet_start
from albert_tf.recipes import DEFAULT_RECIPE, PRETRAINING_RECIPES, PretrainingRecipe
from albert_tf.training.compute_settings import ComputeConfig

if TYPE_CHECKING:
    from albert_tf.analysis.run_plan import Update

SUMMARY = "memory, traffic, time and data of a pre-training run, before it begins"

_TIMED_ROWS = 8  # examples that --time takes at once, at most
_SIZES = ("batch_size", "seq_length", "max_predictions", "steps")

# Rows of the table: figures of `plan_figures`, their titles, and how many are one of the unit there.
_TABLE = (
    ("parameters", "parameters, million", 1e6),
    ("memory_parameters", "parameters, GB", 1e9),
    ("memory_slots", "slots of the optimizer, GB", 1e9),
    ("memory_gradients", "gradients at most, GB", 1e9),
    ("memory_activations", "activations at most, GB", 1e9),
    ("memory_peak", "peak of a device, GB", 1e9),
    ("accumulate", "smallest --accumulate", 1),
    ("accumulate_with_remat", "the same with --remat", 1),
    ("bytes_reduced", "gradients of an update, MB", 1e6),
    ("bytes_sent", "sent by each device, MB", 1e6),
    ("steps", "updates", 1),
    ("tokens", "tokens of these, billion", 1e9),
    ("days", "days", 1),
    ("prepared_bytes", "prepared text, GB", 1e9),
    ("passes", "passes over it", 1),
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    add = parser.add_argument
    add("--config", required=True, help="a preset or a JSON file; what is not given is as its recipe has it")
    other = "a second network, of the same updates; none: no other (bert_large)"
    add("--against", metavar="CONFIG", default="bert_large", help=other)
    shared.field_flags(parser, PretrainingRecipe, "the recipe's", only=_SIZES)
    add("--devices", type=int, default=1, help="devices that divide the batch (1)")
    add("--memory", type=float, metavar="GB", help="of a device: find the smallest --accumulate that fits")
    shared.field_flags(parser, ComputeConfig, only=("precision", "remat", "accumulate"))
    rate = parser.add_mutually_exclusive_group()
    rate.add_argument("--rate", type=float, help="examples a second of a device, for the days of --config")
    timed = f"measure the rate here, of at most {_TIMED_ROWS} examples at once, in the same precision"
    rate.add_argument("--time", action="store_true", help=timed)
    add("--text", type=float, metavar="GB", help="of the corpus, as plain text: its size once prepared")
    add("--json", action="store_true", help="print all figures, in bytes, as JSON")


def run(flags: argparse.Namespace) -> None:
    """Prints a table, or JSON."""
    for name in ("memory", "rate", "text"):
        if (value := getattr(flags, name)) is not None:
            check_range(f"`{name}`", value, above=0, below=float("inf"))
    found = {flags.config: _figures(flags, "--config")}
    if flags.against not in ("none", flags.config):
        found[flags.against] = _figures(flags, "--against")
    if flags.json:
        print(dump_json(found, indent=2))
        return
    from albert_tf.report import ReportTable

    rows = [
        (title, *(_shown(figures[name], name, unit) for figures in found.values()))
        for name, title, unit in _TABLE
        if any(figures[name] is not None for figures in found.values())
    ]
    print("\n".join(ReportTable("plan", "", ("", *found), rows).text()))


def _figures(flags: argparse.Namespace, flag: str) -> Mapping[str, float | None]:
    """The figures of the network that a flag names."""
    from albert_tf.analysis.run_plan import Update, plan_figures

    config = shared.config_named(getattr(flags, flag[2:]), flag)
    recipe = PRETRAINING_RECIPES[flags.config if flags.config in PRETRAINING_RECIPES else DEFAULT_RECIPE]
    recipe = recipe.replace(stages=(), warmup_steps=0, **shared.provided(flags, PretrainingRecipe))
    update = Update(
        config=config,
        batch_size=recipe.batch_size,
        seq_length=recipe.examples.seq_length,
        predictions=recipe.examples.predictions,
        devices=flags.devices,
        **shared.provided(flags, ComputeConfig),
    )
    return plan_figures(
        update,
        recipe.steps,
        memory=flags.memory and flags.memory * 1e9,
        rate=_measured_rate(update) if flags.time else flags.rate if flag == "--config" else None,
        text=flags.text and flags.text * 1e9,
    )


def _measured_rate(update: Update) -> float:
    """Examples a second of a device of this machine."""
    with quiet_start():
        from albert_tf.pretraining.budget import examples_per_second
    execution = ComputeConfig(precision=update.precision, remat=update.remat)
    rows = min(update.rows, _TIMED_ROWS)
    return examples_per_second(update.config, rows, update.seq_length, update.predictions, execution)


def _shown(figure: float | None, name: str, unit: float) -> str:
    if figure is None:
        return "none fits" if name.startswith("accumulate") else ""
    figure /= unit
    return f"{figure:,.0f}" if figure >= 100 or figure == int(figure) else f"{figure:,.3g}"
