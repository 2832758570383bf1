"""`albert-tf convert`: converts checkpoints of other implementations to run directories, and back."""

from __future__ import annotations

import argparse

from albert_tf.cli import flags as shared
from albert_tf.config import published_format
from albert_tf.constants import READ_FORMATS, WRITTEN_FORMATS
from albert_tf.signals import quiet_start

SUMMARY = "checkpoints of other implementations to run directories, and back"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of the command."""
    add = parser.add_argument
    add("--from", dest="source", required=True, choices=[*READ_FORMATS, "run"], help="format of the input")
    add("--to", dest="target", required=True, choices=["run", *WRITTEN_FORMATS], help="format of the output")
    add(
        "--input",
        required=True,
        help="checkpoint: a folder, a .tar.gz, the weights' file, or a name by which it is published: "
        "albert_base_v2 and the like (google), albert/albert-base-v2 (huggingface), https://… (hub)",
    )
    add("--revision", help="of a repository of Hugging Face: branch, tag or commit (main)")
    add("--output", required=True, help="directory to write, a new or an empty one")
    add("--vocabulary", help="SentencePiece model (the one beside the checkpoint)")
    add("--config", help="JSON file with the config (the one beside the checkpoint)")
    partial = "read only the encoder, and list the variables that start at random"
    add("--partial", action="store_true", help=partial)
    add("--step", type=int, help=shared.STEP_HELP)


def run(flags: argparse.Namespace) -> None:
    """Writes the checkpoint. Prints the weights that were not read or are new, and the files written."""
    if flags.source != "run":
        published_format(flags.input)  # raises if it neither exists nor is published
    with quiet_start():
        from albert_tf.conversion.convert import convert
        from albert_tf.filesystem import list_entries
    options = {name: getattr(flags, name) for name in ("vocabulary", "config", "partial", "step", "revision")}
    formats_and_paths = flags.source, flags.target, flags.input, flags.output
    result = convert(*formats_and_paths, command=flags.command_line, **options)
    for what, names in (("not read", result.unused), ("fresh", result.newly_initialized)):
        for name in names:
            print(f"{what}: {name}")
    if result.vocabulary:
        print(f"vocabulary: {result.vocabulary}")
    print(f"wrote {flags.output}: {', '.join(sorted(list_entries(flags.output)))}")
