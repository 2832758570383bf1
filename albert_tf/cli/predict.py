"""`albert-tf predict`: what a fine-tuned run says of data, as files."""

from __future__ import annotations

import argparse

from absl import logging

from albert_tf.cli.flags import column_flags, columns_given, run_named
from albert_tf.cli.streams import FORMATS, input_file, output_place
from albert_tf.startup import quiet_start
from albert_tf.utils.errors import InputError

SUMMARY = "predictions of a fine-tuned run"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    parser.add_argument(
        "--run",
        required=True,
        nargs="+",
        action="extend",
        help="run directory, or a folder of several seeds, whose best is taken; with --submission one a task",
    )
    parser.add_argument(
        "--input",
        required=True,
        help="a file, the folder of a task's original files, or - for standard input, a table in CSV",
    )
    parser.add_argument("--input_format", choices=FORMATS, help="of a table from standard input (csv)")
    parser.add_argument(
        "--output",
        help="a file of predictions, whose ending is its format (of tables .csv, .tsv, .jsonl, .gz of them); "
        "a new folder; or - for standard output, in the format of the input",
    )
    parser.add_argument(
        "--submission", metavar="ZIP", help="what GLUE's server takes, of all tasks in the folder --input"
    )
    parser.add_argument("--task", help="another task that the run predicts for: ax, of an MNLI run")
    column_flags(parser, " (as the run was trained)")
    for name in ("prediction", "score"):
        parser.add_argument(
            f"--{name}_column", metavar="COLUMN", help=f"column to write the {name} to ({name})"
        )
    parser.add_argument("--step", type=int, help="of the checkpoint (the best)")
    parser.add_argument("--batch_size", type=int, default=32, help="examples at a time, for the memory (32)")


def run(flags: argparse.Namespace) -> None:
    """Writes the files."""
    if (flags.output is None) == (flags.submission is None):
        raise InputError("where the predictions go: name it by --output or --submission, one of them")
    if flags.submission is None and len(flags.run) > 1:
        raise InputError(f"--run {' '.join(flags.run)}: one run predicts; several do for --submission")
    heeded = (
        "task",
        "step",
        "text",
        "text_pair",
        "label",
        "prediction_column",
        "score_column",
        "input_format",
    )
    unused = [f"--{name}" for name in heeded if getattr(flags, name) is not None]
    if flags.submission is not None and unused:
        raise InputError(f"{', '.join(unused)}: of no use to --submission, leave it out")
    with quiet_start():
        from albert_tf.finetuning.predict import predict, submit
    runs = [run_named(name) for name in flags.run]
    if flags.submission is not None:
        submit(runs, flags.input, flags.submission, flags.batch_size)
        logging.info("wrote %s", flags.submission)
        return
    with input_file(flags.input, flags.input_format) as source:
        written = predict(
            runs[0],
            source,
            output_place(flags.output),
            task=flags.task,
            columns=columns_given(flags),
            prediction_column=flags.prediction_column,
            score_column=flags.score_column,
            step=flags.step,
            batch_size=flags.batch_size,
        )
    if written:
        logging.info("wrote %s", ", ".join(map(str, written[:3])) + (", …" if len(written) > 3 else ""))
