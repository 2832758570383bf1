"""`albert-tf evaluate`: the figures of a run on data that it has not seen."""

from __future__ import annotations

import argparse

from albert_tf.cli import flags as shared
from albert_tf.errors import InputError
from albert_tf.io import dump_json
from albert_tf.process import quiet_start
from albert_tf.recipes import ExampleSettings

SUMMARY = "losses and accuracies on held-out text, or a task's figures"

_OF_PRETRAINED = ("seq_length", "masked_lm_prob", "max_ngram", "max_examples", "passes")
_OF_FINETUNED = ("data", "eval", "text", "text_pair", "label", "json", "report", *shared.EXIT_FLAGS)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    parser.add_argument("--run", required=True, help=shared.RUN_HELP)
    shared.checkpoint_flags(parser)
    pretrained = parser.add_argument_group("of a pre-trained run")
    shared.paths_flag(pretrained, "--input", shared.TEXT_HELP + ", for what is held out", required=False)
    shared.field_flags(pretrained, ExampleSettings, "as the run was trained", only=_OF_PRETRAINED)
    pretrained.add_argument("--max_examples", type=int, help="stop after so many, in whole batches")
    pretrained.add_argument("--passes", type=int, help="times over the text, with other masks (1)")
    finetuned = parser.add_argument_group("of a fine-tuned run", shared.METRICS_HELP)
    finetuned.add_argument("--data", metavar="DIR", help=shared.DATA_HELP)
    shared.paths_flag(finetuned, "--eval", "files with labels, or globs (of all tasks)", required=False)
    shared.column_flags(finetuned, " (as the run was trained)")
    everything = "print all figures and tables instead of the official figures"
    finetuned.add_argument("--json", action="store_true", default=None, help=everything)
    shared.exit_flags(finetuned)
    shared.report_flag(finetuned)


def run(flags: argparse.Namespace) -> None:
    """Prints the figures as JSON."""
    with quiet_start():
        import tensorflow as tf
    if flags.deterministic:
        tf.config.experimental.enable_op_determinism()
    flags.run = shared.run_named(flags.run)
    _ = flags.run.config  # which says so if there is no such run
    if flags.run.task.get("model") not in ("pretrainer", "encoder"):
        from albert_tf.finetuning.evaluation import evaluate_trained

        shared.check_unused(flags, ("input", *_OF_PRETRAINED), f"{flags.run}, which is fine-tuned")
        shared.check_report(flags)
        options = {name: getattr(flags, name) for name in ("step", "batch_size", "xla", *shared.EXIT_FLAGS)}
        columns = shared.provided_columns(flags)
        found = evaluate_trained(flags.run, flags.data, flags.eval, columns=columns, **options)
        report = found.report(flags.run)
        content = report.content()  # in which what is undefined is null
        figures = content if flags.json else {name: content[name] for name in found.figures}
        data = flags.data or ", ".join(flags.eval)
        shared.give_report(report, flags.report, f"Evaluation of {flags.run} on {data}")
    else:
        from albert_tf.pretraining.evaluation import evaluate_run

        shared.check_unused(flags, _OF_FINETUNED, f"{flags.run}, which is pre-trained: fine-tune it first")
        if flags.input is None:
            raise InputError("what is to be evaluated on is missing: name it by --input")
        asked = {name: value for name in _OF_PRETRAINED if (value := getattr(flags, name, None)) is not None}
        figures = evaluate_run(
            flags.run, flags.input, flags.batch_size, step=flags.step, xla=flags.xla, **asked
        )
    print(dump_json(figures, indent=2))
