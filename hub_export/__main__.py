"""`python -m hub_export`: exports a run directory as modules."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from albert_tf.constants import EXPORT_RUNTIMES, PRECISIONS
from albert_tf.errors import InputError
from albert_tf.io import check_exists, check_output_path
from albert_tf.program import TERMINATED, OneLineParser, run_program
from albert_tf.signals import quiet_start, raise_on_termination

PROGRAM_DESCRIPTION = (
    "Writes OUTPUT/preprocessor and OUTPUT/encoder, modules for hub.KerasLayer, OUTPUT/serving/VERSION, "
    "a model for TF Serving, and OUTPUT/README.md, a model card. With --to a network for another runtime."
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the export that the arguments ask for. None: the arguments of this process.

    An error raises SystemExit with one line on stderr: status 2 if the export is impossible, 1 if an exported
    module fails its check, 143 on SIGTERM. No file is left half-written.
    """
    run_program("hub_export", PROGRAM_DESCRIPTION, add_export_flags, run_export, arguments)


def add_export_flags(parser: OneLineParser) -> None:
    """Adds the flags of the program to a parser."""
    add = parser.add_argument
    add("--run", required=True, help="run directory")
    step = "training step of the checkpoint (default: the newest; for a fine-tuned run the best)"
    add("--step", type=int, help=step)
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
    calibrate = (
        "texts, one on each line, or two with a tab between: with --to, int8 besides, and a comparison"
    )
    add("--calibrate", metavar="FILE", help=calibrate)
    add("--license", metavar="NAME", help="of the weights, for the model card (the card says: none is named)")


def run_export(flags: argparse.Namespace) -> None:
    """Writes the modules and prints their folders; with --to, writes a folder and prints its card's table."""
    settings = vars(flags)
    runtime, texts = settings.pop("to"), settings.pop("calibrate")
    if texts is not None and runtime is None:
        raise InputError(f"--calibrate {texts}: of no use without --to")
    module_defaults = {"version": 1, "dtype": "float32", "encoder_only": False, "xla": False}
    unused = [f"--{name}" for name, default in module_defaults.items() if settings[name] != default]
    if runtime is not None and unused:
        raise InputError(f"{', '.join(unused)}: of no use with --to {runtime}, leave it out")
    if flags.encoder_only and flags.version > 1:
        raise InputError("--version: of no use with --encoder_only, which writes no serving model")
    check_output_path(Path(flags.output), is_folder=True)  # before anybody waits for TensorFlow
    check_exists(flags.run, "no such folder: name a run")
    if texts is not None:
        check_exists(texts, "no such file: correct the path")
    with quiet_start():
        import tensorflow as tf

        from albert_tf.runs.run_directory import best_run
        from hub_export.export import export
    tf.get_logger().setLevel("ERROR")  # the loader of TensorFlow 1 is deprecated, but it is what servers run
    if runtime is not None:
        from hub_export.other_runtimes import export_to

        options = {name: settings[name] for name in settings.keys() - module_defaults.keys() - {"run"}}
        card = export_to(best_run(settings["run"]), runtime=runtime, calibrate=texts, **options)
        print(*(line for line in card.read_text("utf-8").splitlines() if line.startswith("|")), sep="\n")
        print(card.parent)
        return
    for folder in export(best_run(settings.pop("run")), **settings):
        print(folder)


if __name__ == "__main__":
    raise_on_termination(TERMINATED)
    main()
