"""`python -m hub_export`: the modules of a run directory."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from albert_tf.constants import EXPORT_RUNTIMES, PRECISIONS
from albert_tf.errors import InputError
from albert_tf.io import check_place, check_there
from albert_tf.process import end_in_order, quiet_start
from albert_tf.program import TERMINATED, OneLineParser, run_program

PROGRAM_DESCRIPTION = (
    "Writes OUTPUT/preprocessor and OUTPUT/encoder, modules for hub.KerasLayer, OUTPUT/serving/VERSION, "
    "a model for TF Serving, and OUTPUT/README.md, a model card. With --to a network for another runtime."
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Exports what the command line says; None reads the process's own.

    SystemExit, with one line on stderr: status 2 where the export is impossible, 1 where what was exported
    fails its check, 143 on SIGTERM. Nothing is left half-written.
    """
    run_program("hub_export", PROGRAM_DESCRIPTION, add_export_flags, run_export, arguments)


def add_export_flags(parser: OneLineParser) -> None:
    """The flags of the program."""
    add = parser.add_argument
    add("--run", required=True, help="run directory")
    add("--step", type=int, help="of the checkpoint to export (the newest; of a fine-tuned run the best)")
    add("--output", required=True, help="folder of the modules, each replaced as a whole")
    length = "of the preprocessor unless told otherwise, and of the serving model's longest input, in tokens"
    add("--seq_length", type=int, help=f"{length} (a fine-tuned run's own, else 128)")
    add("--version", type=int, default=1, help="of the serving model; a new one (1)")
    add("--dtype", choices=PRECISIONS, default="float32", help="of variables and computation (float32)")
    add("--encoder_only", action="store_true", help="the encoder alone; a run without vocabulary needs it")
    xla = "encoders that XLA compiles where they run, for GPUs (off: such a module loads anywhere)"
    add("--xla", action="store_true", help=xla)
    to = "a network from token ids for another runtime, in a new folder, in place of the modules"
    add("--to", choices=EXPORT_RUNTIMES, help=to)
    calibrate = "texts, one a line, or two with a tab between: with --to, int8 besides, and a comparison"
    add("--calibrate", metavar="FILE", help=calibrate)
    add("--license", metavar="NAME", help="of the weights, for the model card (the card says: none is named)")


def run_export(flags: argparse.Namespace) -> None:
    """Writes the modules, and prints their folders; with --to the folder, and prints its card's table."""
    settings = vars(flags)
    runtime, texts = settings.pop("to"), settings.pop("calibrate")
    if texts is not None and runtime is None:
        raise InputError(f"--calibrate {texts}: of no use without --to")
    modules = {"version": 1, "dtype": "float32", "encoder_only": False, "xla": False}
    if runtime is not None and (
        given := [f"--{name}" for name in modules if settings[name] != modules[name]]
    ):
        raise InputError(f"{', '.join(given)}: of no use with --to {runtime}, leave it out")
    check_place(Path(flags.output), is_folder=True)  # before anybody waits for TensorFlow
    check_there(flags.run, "no such folder: name a run")
    with quiet_start():
        import tensorflow as tf

        from albert_tf.runs.run_directory import best_run
        from hub_export.export import export
    tf.get_logger().setLevel("ERROR")  # the loader of TensorFlow 1 is deprecated, but it is what servers run
    if runtime is not None:
        from hub_export.other_runtimes import export_to

        others = {name: settings[name] for name in settings.keys() - modules.keys() - {"run"}}
        card = export_to(best_run(settings["run"]), runtime=runtime, calibrate=texts, **others)
        print(*(line for line in card.read_text("utf-8").splitlines() if line.startswith("|")), sep="\n")
        print(card.parent)
        return
    for folder in export(best_run(settings.pop("run")), **settings):
        print(folder)


if __name__ == "__main__":
    end_in_order(TERMINATED)
    main()
