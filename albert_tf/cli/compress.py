"""`albert-tf compress`: converts the run of a BERT or RoBERTa to an ALBERT that is to be trained further."""

from __future__ import annotations

import argparse

from albert_tf.cli import flags as shared
from albert_tf.config import published_format
from albert_tf.signals import quiet_start

SUMMARY = "turn the run of a BERT or RoBERTa into an ALBERT to train further"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of the command."""
    add = parser.add_argument
    add("--run", required=True, help="run directory, or a published name")
    add("--output", required=True, help="directory to write, a new or an empty one")
    add("--embedding_size", type=int, default=128, help="width of the embeddings, E (%(default)s)")
    add("--num_hidden_groups", type=int, default=1, help="groups of layers that share a block (%(default)s)")
    blocks = "how a group's block starts: mean of its layers' blocks, or the first, middle or last one"
    add("--blocks", default="mean", help=f"{blocks} (%(default)s)")
    add("--step", type=int, help=shared.STEP_HELP)


def run(flags: argparse.Namespace) -> None:
    """Writes the run, and prints the errors of its approximations and the next command."""
    published_format(flags.run)  # raises if it neither exists nor is published
    with quiet_start():
        from albert_tf.conversion.compress import compress
        from albert_tf.conversion.init_from import resolve_run
    options = ("embedding_size", "num_hidden_groups", "blocks", "step")
    result = compress(
        resolve_run(flags.run),
        flags.output,
        command=flags.command_line,
        **{name: getattr(flags, name) for name in options},
    )
    before, after = result.parameters
    print(f"parameters: {before:,} to {after:,}")
    for name, error in result.errors.items():
        print(f"{name}: relative error {error:.4f}")
    for name in result.newly_initialized:
        print(f"fresh: {name}")
    print(f"wrote {flags.output}; next: albert-tf distill --teacher {flags.run} --init_from {flags.output} …")
