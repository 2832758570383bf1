"""`python -m hub_export`: the modules of a run directory."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from albert_tf.startup import OneLineParser, quiet_start, run_program
from albert_tf.startup.exits import TERMINATED
from albert_tf.startup.signals import end_in_order
from albert_tf.utils.choices import EXPORTED_DTYPES
from albert_tf.utils.files import check_place

DESCRIPTION = (
    "Writes OUTPUT/preprocessor and OUTPUT/encoder, modules for hub.KerasLayer, OUTPUT/serving/VERSION, "
    "a model for TF Serving, and OUTPUT/README.md, a model card."
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Exports what the command line says; None reads the process's own.

    SystemExit, with one line on stderr: status 2 where the export is impossible, 1 where what was exported
    fails its check, 143 on SIGTERM. Nothing is left half-written.
    """
    run_program("hub_export", DESCRIPTION, add_flags, run, arguments)


def add_flags(parser: OneLineParser) -> None:
    """The flags of the program."""
    add = parser.add_argument
    add("--run", required=True, help="run directory")
    add("--step", type=int, help="of the checkpoint to export (the newest; of a fine-tuned run the best)")
    add("--output", required=True, help="folder of the modules, each replaced as a whole")
    length = "of the preprocessor unless told otherwise, and of the serving model's longest input, in tokens"
    add("--seq_length", type=int, help=f"{length} (a fine-tuned run's own, else 128)")
    add("--version", type=int, default=1, help="of the serving model; a new one (1)")
    add("--dtype", choices=EXPORTED_DTYPES, default="float32", help="of variables and computation (float32)")
    add("--encoder_only", action="store_true", help="the encoder alone; a run without vocabulary needs it")
    xla = "encoders that XLA compiles where they run, for GPUs (off: such a module loads anywhere)"
    add("--xla", action="store_true", help=xla)
    add("--license", metavar="NAME", help="of the weights, for the model card (the card says: none is named)")


def run(flags: argparse.Namespace) -> None:
    """Writes the modules, and prints their folders."""
    settings = vars(flags)
    check_place(Path(flags.output), is_folder=True)  # before anybody waits for TensorFlow
    with quiet_start():
        import tensorflow as tf

        from albert_tf.checkpoints.directory import best_run
        from hub_export.export import export
    tf.get_logger().setLevel("ERROR")  # the loader of TensorFlow 1 is deprecated, but it is what servers run
    for folder in export(best_run(settings.pop("run")), **settings):
        print(folder)


if __name__ == "__main__":
    end_in_order(TERMINATED)
    main()
