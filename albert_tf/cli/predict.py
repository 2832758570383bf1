"""`albert-tf predict`: what a fine-tuned run says of data, as files."""

from __future__ import annotations

import argparse

from absl import logging

from albert_tf.cli.flags import column_flags, columns_given
from albert_tf.errors import InputError
from albert_tf.startup import quiet_start

SUMMARY = "predictions of a fine-tuned run"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    parser.add_argument(
        "--run", required=True, nargs="+", action="extend", help="run directory; with --submission one a task"
    )
    parser.add_argument("--input", required=True, help="a file, or the folder of a task's original files")
    parser.add_argument("--output", help="a file of predictions, or a new folder of them")
    parser.add_argument(
        "--submission", metavar="ZIP", help="what GLUE's server takes, of all tasks in the folder --input"
    )
    parser.add_argument("--task", help="another task that the run predicts for: ax, of an MNLI run")
    column_flags(parser, " (as the run was trained)")
    parser.add_argument("--step", type=int, help="of the checkpoint (the best)")
    parser.add_argument("--batch_size", type=int, default=32, help="examples at a time, for the memory (32)")


def run(flags: argparse.Namespace) -> None:
    """Writes the files."""
    if (flags.output is None) == (flags.submission is None):
        raise InputError("where the predictions go: name it by --output or --submission, one of them")
    if flags.submission is None and len(flags.run) > 1:
        raise InputError(f"--run {' '.join(flags.run)}: one run predicts; several do for --submission")
    heeded = ("task", "step", "text", "text_pair", "label")
    unused = [f"--{name}" for name in heeded if getattr(flags, name) is not None]
    if flags.submission is not None and unused:
        raise InputError(f"{', '.join(unused)}: of no use to --submission, leave it out")
    with quiet_start():
        from albert_tf.finetuning.predict import predict, submit
    if flags.submission is not None:
        submit(flags.run, flags.input, flags.submission, flags.batch_size)
        logging.info("wrote %s", flags.submission)
        return
    written = predict(
        flags.run[0],
        flags.input,
        flags.output,
        task=flags.task,
        columns=columns_given(flags),
        step=flags.step,
        batch_size=flags.batch_size,
    )
    logging.info("wrote %s to %s", ", ".join(written[:3]) + (", …" if len(written) > 3 else ""), flags.output)
