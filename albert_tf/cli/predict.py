"""`albert-tf predict`: writes the predictions of a fine-tuned run to files."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from absl import logging

from albert_tf.cli import flags as shared
from albert_tf.constants import PRECISIONS
from albert_tf.errors import InputError

SUMMARY = "predictions of a fine-tuned run"

STDIN, STDOUT = ("-", "/dev/stdin"), ("-", "/dev/stdout")
# --submission takes none of these flags.
_SINGLE_RUN_FLAGS = ["task", "step", "prediction_column", "score_column", "probabilities", "top_k"]
_SINGLE_RUN_FLAGS += ["precision", "patience"]
TABLE_FORMATS = ("csv", "tsv", "jsonl", "parquet")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of the command."""
    parser.epilog = "Texts are read as the run was trained: its task.json has seq_length and long."
    add = parser.add_argument
    shared.add_paths_flag(parser, "--run", shared.RUN_HELP + "; with --submission one for each task")
    source = "files or globs, the folder of a task's original files, or - for standard input, a table in CSV"
    shared.add_paths_flag(parser, "--input", source)
    add("--input_format", choices=TABLE_FORMATS, help="of a table from standard input (csv)")
    place = parser.add_mutually_exclusive_group(required=True).add_argument
    place(
        "--output",
        help="a file of predictions, whose ending is its format (.csv, .tsv, .jsonl, .parquet, and .gz), and "
        "which replaces an existing file; a new folder; or - for standard output, in the format of the input",
    )
    submission = "zip file for GLUE's server, with predictions for all tasks in the folder --input"
    place("--submission", metavar="ZIP", help=submission)
    add("--task", help="another task that the run predicts for: ax, of an MNLI run")
    shared.add_column_flags(parser, " (as the run was trained)")
    score = "score: the probability of the prediction, which can be below 0.5 with a --threshold"
    for name, what in (("prediction", "prediction"), ("score", score)):
        add(f"--{name}_column", metavar="COLUMN", help=f"column to write the {what} ({name})")
    probabilities = "add a column probability_LABEL for each label"
    add("--probabilities", action="store_true", default=None, help=probabilities)
    top_k = "write K labels and their probabilities: the predicted one, then the likeliest others"
    add("--top_k", type=int, metavar="K", help=top_k)
    shared.add_checkpoint_flags(parser)
    shared.add_patience_flag(parser)
    add("--precision", choices=PRECISIONS, help="of the computation (float32)")


def run(flags: argparse.Namespace) -> None:
    """Writes the files."""
    if flags.submission is None:
        _single_path("run", flags.run, "without --submission there is")
    else:
        unused = (*_SINGLE_RUN_FLAGS, *shared.COLUMN_FLAGS, "input_format")
        shared.check_unused(flags, unused, "--submission")
    shared.start_computing(flags)
    from albert_tf.finetuning.predict import predict, submit

    runs = [shared.open_best_run(name) for name in flags.run]
    if flags.submission is not None:
        folder = _single_path("input", flags.input, "--submission reads")
        submit(runs, folder, flags.submission, flags.batch_size, flags.xla)
        logging.info("wrote %s", flags.submission)
        return
    options = shared.provided(flags, (*_SINGLE_RUN_FLAGS, "batch_size", "xla"))
    output = sys.stdout.buffer if flags.output in STDOUT else flags.output
    is_replaced = flags.output not in STDOUT and Path(flags.output).is_file()
    with _input_files(flags.input, flags.input_format) as source:
        written = predict(runs[0], source, output, columns=shared.provided_columns(flags), **options)
    if written:
        what = written[0] if len(written) == 1 else f"{len(written)} files to {flags.output}"
        logging.info("%s %s", "replaced" if is_replaced else "wrote", what)


@contextlib.contextmanager
def _input_files(names: Sequence[str], table_format: str | None) -> Iterator[Sequence[str]]:
    """The paths of files to read. Standard input is copied to a file, but errors call it standard input."""
    if not {*STDIN} & {*names}:
        if table_format is not None:
            problem = f"`input_format`: of no use to {names[0]}, whose ending is its format"
            raise InputError(f"{problem}: leave it out")
        yield names
        return
    _single_path("input", names, "standard input is")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"stdin.{table_format or TABLE_FORMATS[0]}"
        content = sys.stdin.buffer.read()
        file.write_bytes(content)
        try:
            yield [str(file)]
        except InputError as error:
            is_json = table_format is None and content.lstrip().startswith(b"{")
            remedy = ". These look like JSON lines: add --input_format jsonl" if is_json else ""
            raise InputError(str(error).replace(str(file), "standard input") + remedy) from None


def _single_path(flag: str, names: Sequence[str], what: str) -> str:
    """The only path of a flag. Raises InputError if there are several."""
    if len(names) > 1:
        raise InputError(f"--{flag} {' '.join(names)}: {what} one {flag} alone")
    return names[0]
