"""`albert-tf plan`: estimates memory, traffic, time and data of a pre-training run before it begins."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from albert_tf.cli import flags as shared
from albert_tf.config import PRESETS
from albert_tf.errors import check_range
from albert_tf.io import dump_json
from albert_tf.recipes import DEFAULT_RECIPE, PRETRAINING_RECIPES, PretrainingRecipe
from albert_tf.signals import quiet_start
from albert_tf.training.compute_settings import ComputeConfig

if TYPE_CHECKING:
    from albert_tf.analysis.run_plan import StepSettings

SUMMARY = "memory, traffic, time and data of a pre-training run, before it begins"

_TIMED_ROWS = 8  # maximum batch size of --time
_SIZES = ("batch_size", "seq_length", "max_predictions", "steps")

# Rows of the table: the key in the result of `estimate_run`, the title, and the size of its unit.
_TABLE = (
    ("parameters", "parameters, million", 1e6),
    ("memory_parameters", "parameters, GB", 1e9),
    ("memory_slots", "slots of the optimizer, GB", 1e9),
    ("memory_gradients", "gradients at most, GB", 1e9),
    ("memory_activations", "activations at most, GB", 1e9),
    ("memory_peak", "peak of a device, GB", 1e9),
    ("accumulate", "smallest --accumulate", 1),
    ("accumulate_with_remat", "the same with --remat", 1),
    ("bytes_reduced", "gradients of a step, MB", 1e6),
    ("bytes_sent", "sent by each device, MB", 1e6),
    ("steps", "steps", 1),
    ("tokens", "tokens of these, billion", 1e9),
    ("days", "days", 1),
    ("prepared_bytes", "prepared text, GB", 1e9),
    ("passes", "passes over it", 1),
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of the command."""
    add = parser.add_argument
    add(
        "--config",
        required=True,
        help="a preset or a JSON file; its recipe has the defaults of the other flags",
    )
    other = "a second network, with the same steps; none: no second network (bert_large)"
    add("--against", metavar="CONFIG", help=other)
    shared.add_field_flags(parser, PretrainingRecipe, "the recipe's", only=_SIZES)
    add("--devices", type=int, default=1, help="devices that divide the batch (1)")
    add("--memory", type=float, metavar="GB", help="of a device: find the smallest --accumulate that fits")
    shared.add_field_flags(parser, ComputeConfig, only=("precision", "remat", "accumulate"))
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
    plans = {flags.config: _plan_network(flags, "--config")}
    if flags.against is None:  # unless it has too few positions
        fits = getattr(flags, "seq_length", 0) <= PRESETS["bert_large"].max_position_embeddings
        flags.against = "bert_large" if fits else "none"
    if flags.against not in ("none", flags.config):
        plans[flags.against] = _plan_network(flags, "--against")
    if flags.json:
        print(dump_json(plans, indent=2))
        return
    from albert_tf.report import ReportTable

    rows = [
        (title, *(_format_figure(plan[name], name, unit) for plan in plans.values()))
        for name, title, unit in _TABLE
        if (flags.memory and name.startswith("accumulate"))
        or any(plan[name] is not None for plan in plans.values())
    ]
    print("\n".join(ReportTable("plan", "", ("", *plans), rows).text()))


def _plan_network(flags: argparse.Namespace, flag: str) -> Mapping[str, float | None]:
    """The plan of the network that a flag names, as `estimate_run` returns it."""
    from albert_tf.analysis.run_plan import StepSettings, estimate_run

    config = shared.resolve_config(getattr(flags, flag[2:]), flag)
    recipe = PRETRAINING_RECIPES[flags.config if flags.config in PRETRAINING_RECIPES else DEFAULT_RECIPE]
    recipe = recipe.replace(stages=(), warmup_steps=0, **shared.provided_fields(flags, PretrainingRecipe))
    settings = StepSettings(
        config=config,
        batch_size=recipe.batch_size,
        seq_length=recipe.examples.seq_length,
        predictions=recipe.examples.predictions,
        devices=flags.devices,
        compute=ComputeConfig(**shared.provided_fields(flags, ComputeConfig)),
    )
    return estimate_run(
        settings,
        recipe.steps,
        memory=flags.memory and flags.memory * 1e9,
        rate=_measured_rate(settings) if flags.time else flags.rate if flag == "--config" else None,
        text=flags.text and flags.text * 1e9,
    )


def _measured_rate(settings: StepSettings) -> float:
    """Measures the rate of one device of this machine, in examples/s."""
    with quiet_start():
        from albert_tf.pretraining.budget import measure_examples_per_second
    compute = dataclasses.replace(settings.compute, accumulate=1)
    rows = min(settings.rows, _TIMED_ROWS)
    return measure_examples_per_second(
        settings.config, rows, settings.seq_length, settings.predictions, compute
    )


def _format_figure(figure: float | None, name: str, unit: float) -> str:
    if figure is None:
        return "none fits" if name.startswith("accumulate") else ""
    figure /= unit
    return f"{figure:,.0f}" if figure >= 100 or figure == int(figure) else f"{figure:,.3g}"
