"""`albert-tf evaluate`: prints the metrics of a run on data that it has not seen."""

from __future__ import annotations

import argparse

from albert_tf.cli import flags as shared
from albert_tf.errors import InputError
from albert_tf.io import dump_json
from albert_tf.recipes import ExampleSettings

SUMMARY = "losses and accuracies on held-out text, or a task's figures"

_PRETRAINED_FLAGS = ("seq_length", "masked_lm_prob", "max_ngram", "max_examples", "passes")
_FINETUNED_FLAGS = ("data", "eval", *shared.COLUMN_FLAGS, "json", "report", "patience")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of the command."""
    parser.add_argument("--run", required=True, help=shared.RUN_HELP)
    shared.add_checkpoint_flags(parser)
    pretrained = parser.add_argument_group("of a pre-trained run")
    shared.add_paths_flag(pretrained, "--input", shared.TEXT_HELP + ", for what is held out", required=False)
    shared.add_field_flags(pretrained, ExampleSettings, "as the run was trained", only=_PRETRAINED_FLAGS)
    pretrained.add_argument("--max_examples", type=int, help="evaluate at most this many examples")
    pretrained.add_argument("--passes", type=int, help="times over the text, with other masks (1)")
    finetuned = parser.add_argument_group("of a fine-tuned run", shared.METRICS_HELP)
    finetuned.add_argument("--data", metavar="DIR", help=shared.DATA_HELP)
    shared.add_paths_flag(finetuned, "--eval", "files with labels, or globs (of all tasks)", required=False)
    shared.add_column_flags(finetuned, " (as the run was trained)")
    everything = "print all figures and tables instead of the official figures"
    finetuned.add_argument("--json", action="store_true", default=None, help=everything)
    shared.add_patience_flag(finetuned)
    shared.add_report_flag(finetuned)


def run(flags: argparse.Namespace) -> None:
    """Prints the metrics as JSON."""
    shared.start_computing(flags)
    flags.run = shared.open_best_run(flags.run)
    _ = flags.run.config  # raises if there is no such run
    if flags.run.task.get("model") not in ("pretrainer", "encoder"):
        from albert_tf.finetuning.evaluation import evaluate_finetuned

        shared.check_unused(flags, ("input", *_PRETRAINED_FLAGS), f"{flags.run}, which is fine-tuned")
        shared.check_report(flags)
        options = {name: getattr(flags, name) for name in ("step", "batch_size", "xla", "patience")}
        columns = shared.provided_columns(flags)
        evaluation = evaluate_finetuned(flags.run, flags.data, flags.eval, columns=columns, **options)
        report = evaluation.report(flags.run)
        metrics = report.to_dict() if flags.json else {x: report.metrics[x] for x in evaluation.metrics}
        data = flags.data or ", ".join(flags.eval)
        shared.output_report(report, flags.report, f"Evaluation of {flags.run} on {data}")
    else:
        from albert_tf.pretraining.evaluation import evaluate_run

        shared.check_unused(flags, _FINETUNED_FLAGS, f"{flags.run}, which is pre-trained: fine-tune it first")
        if flags.input is None:
            raise InputError("what is to be evaluated on is missing: name it by --input")
        options = shared.provided(flags, _PRETRAINED_FLAGS)
        metrics = evaluate_run(
            flags.run, flags.input, flags.batch_size, step=flags.step, xla=flags.xla, **options
        )
    print(dump_json(metrics, indent=2))
