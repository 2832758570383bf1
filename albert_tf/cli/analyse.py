"""`albert-tf analyse`: what a model is made of, how it learned, and where texts may leave it."""

from __future__ import annotations

import argparse
from pathlib import Path

from albert_tf.cli import flags as shared
from albert_tf.config import PRESETS
from albert_tf.startup import quiet_start
from albert_tf.utils.files import check_new

SUMMARY = "what a model is made of and how it learned"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The kinds of analysis, and the flags of each."""
    kinds = parser.add_subparsers(dest="analysis", required=True, metavar="WHAT")
    kinds.add_parser("parameters", help="a table of the presets' parameters")
    curve = kinds.add_parser("curve", help="the learning curve of a run")
    curve.add_argument("--run", required=True, help="run directory")
    curve.add_argument("--output", help="picture to write, .png, .svg or .pdf (curve.png of the run)")
    exits = kinds.add_parser("exits", help="metrics, layers and time of a run with --early_exit by patience")
    exits.add_argument("--run", required=True, help=shared.RUN)
    exits.add_argument("--data", metavar="DIR", help="folder of the task's original files (GLUE, race)")
    exits.add_argument("--eval", metavar="FILE", help="a file with labels (of all other tasks)")
    shared.column_flags(exits, " (as the run was trained)")
    exits.add_argument("--output", required=True, metavar="FOLDER", help="new folder for the table and plots")
    shared.checkpoint_flags(exits)


def run(flags: argparse.Namespace) -> None:
    """Prints a table, or draws a picture and prints its path."""
    {"parameters": _parameters, "curve": _curve, "exits": _exits}[flags.analysis](flags)


def _parameters(flags: argparse.Namespace) -> None:
    from albert_tf.analysis.parameters import parameter_count

    width = max(map(len, PRESETS)) + 2
    for name, config in PRESETS.items():
        counts = parameter_count(config)
        print(
            f"{name:{width}}" + "".join(f"{part} {count:>13,}  " for part, count in counts.items()).rstrip()
        )


def _curve(flags: argparse.Namespace) -> None:
    with quiet_start():
        from albert_tf.analysis.curve import draw_curve
    run = shared.run_named(flags.run)
    output = flags.output or Path(run.path) / "curve.png"
    draw_curve(run.path, output)
    print(output)


def _exits(flags: argparse.Namespace) -> None:
    check_new(Path(flags.output))
    with quiet_start():
        from albert_tf.finetuning.exits import exit_report
        from albert_tf.reports.folder import write_report
    run = shared.run_named(flags.run)
    options = {name: getattr(flags, name) for name in ("step", "batch_size")}
    report = exit_report(run, flags.data, flags.eval, columns=shared.columns_given(flags), **options)
    print("\n".join(report.tables[0].text()))
    print(write_report(Path(flags.output), f"Early exit of {run}", report))
