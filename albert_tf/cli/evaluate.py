"""`albert-tf evaluate`: the losses and accuracies of a run on other text."""

from __future__ import annotations

import argparse
import json

from albert_tf.cli.flags import TEXT, paths_flag
from albert_tf.startup import quiet_start

SUMMARY = "losses and accuracies on held-out text"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    parser.add_argument("--run", required=True, help="run directory")
    paths_flag(parser, "--input", TEXT + ", for what is held out")
    parser.add_argument("--step", type=int, help="of the checkpoint (the newest)")
    parser.add_argument("--seq_length", type=int, help="tokens of an example (as the run was trained)")
    parser.add_argument("--batch_size", type=int, default=32, help="examples at a time, for the memory (32)")
    parser.add_argument("--max_examples", type=int, help="stop after so many, in whole batches")
    parser.add_argument("--passes", type=int, default=1, help="times over the text, with other masks (1)")


def run(flags: argparse.Namespace) -> None:
    """Prints the figures as JSON."""
    with quiet_start():
        from albert_tf.pretraining.evaluation import evaluate_run
    figures = evaluate_run(
        flags.run,
        flags.input,
        flags.batch_size,
        flags.max_examples,
        flags.passes,
        step=flags.step,
        seq_length=flags.seq_length,
    )
    print(json.dumps(figures, indent=2))
