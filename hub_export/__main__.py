"""`python -m hub_export`: the modules of a run directory."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from pathlib import Path

from albert_tf.startup import Command, OneLineParser, quiet_start, run_command
from albert_tf.startup.exits import TERMINATED
from albert_tf.startup.signals import end_in_order
from albert_tf.utils.choices import EXPORTED_DTYPES
from albert_tf.utils.files import check_place


def main(arguments: Sequence[str] | None = None) -> None:
    """Exports what the command line says.

    Args:
      arguments: the command line without the program's name; None reads the process's own.
    Raises:
      SystemExit: with one line on stderr and status 2 where the export is impossible, 1 where what was
        exported fails its check; with 143 on SIGTERM. Nothing is left half-written.
    """
    if status := run_command(_command, sys.argv[1:] if arguments is None else arguments):
        sys.exit(status)


def _command(arguments: Sequence[str]) -> Command:
    return "hub_export", functools.partial(run, _parser().parse_args(arguments))


def run(flags: argparse.Namespace) -> None:
    """Writes the modules, and prints their folders."""
    check_place(Path(flags.output), is_folder=True)  # before anybody waits for TensorFlow
    with quiet_start():
        from albert_tf.checkpoints.directory import best_run
        from hub_export.export import export
    folders = export(
        best_run(flags.run).path,
        flags.output,
        flags.seq_length,
        encoder_only=flags.encoder_only,
        version=flags.version,
        dtype=flags.dtype,
        step=flags.step,
        license=flags.license,
    )
    for folder in folders:
        print(folder)


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog="python -m hub_export",
        description="Writes OUTPUT/preprocessor and OUTPUT/encoder, modules for hub.KerasLayer, "
        "OUTPUT/serving/VERSION, a model for TF Serving, and OUTPUT/README.md, a model card.",
    )
    parser.add_argument("--run", required=True, help="run directory")
    parser.add_argument(
        "--step", type=int, help="of the checkpoint to export (the newest; of a fine-tuned run the best)"
    )
    parser.add_argument("--output", required=True, help="folder of the modules, each replaced as a whole")
    parser.add_argument(
        "--seq_length",
        type=int,
        help="the preprocessor's default length and the serving model's longest input, in tokens "
        "(a fine-tuned run's own, else 128)",
    )
    parser.add_argument("--version", type=int, default=1, help="of the serving model; a new one (1)")
    parser.add_argument(
        "--dtype", choices=EXPORTED_DTYPES, default="float32", help="of variables and computation (float32)"
    )
    parser.add_argument(
        "--encoder_only", action="store_true", help="the encoder alone; a run without vocabulary needs it"
    )
    parser.add_argument(
        "--license", metavar="NAME", help="of the weights, for the model card (the card says: none is named)"
    )
    return parser


if __name__ == "__main__":
    end_in_order(TERMINATED)
    main()
