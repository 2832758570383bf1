"""`albert-tf prepare`: converts text to tokenised documents, on Apache Beam."""

from __future__ import annotations

import argparse
import logging

from albert_tf.cli import flags as shared
from albert_tf.program import OneLineParser
from albert_tf.recipes import PreparationSettings
from albert_tf.signals import quiet_start
from albert_tf.text.tokenizer_config import TOKENIZER_DEFAULTS, read_vocabulary

_EXAMPLE_FLAGS = ("seq_length", "max_predictions", "dupe_factor")

SUMMARY = "text to tokenised documents, on Apache Beam"


def add_flags(parser: OneLineParser) -> None:
    """Adds the flags of the command. All other flags are Beam's."""
    shared.add_paths_flag(parser, "--input", "text files or globs, .gz too")
    parser.add_argument("--vocabulary", required=True, help="SentencePiece model")
    parser.add_argument("--output", required=True, help="folder to write")
    shared.add_field_flags(parser, PreparationSettings)
    shared.add_tokenizer_flags(parser)
    parser.epilog = "Any option of Apache Beam as well: --runner, --direct_running_mode, …"


def run(flags: argparse.Namespace) -> None:
    """Writes the folder."""
    # When Beam is imported, it warns about missing packages that only Google's cloud needs.
    logging.getLogger().addFilter(lambda record: "apitools" not in str(record.msg))
    read_vocabulary(flags.vocabulary)  # raises if it is missing
    with quiet_start():
        from albert_tf.data.prepare import prepare
    if getattr(flags, "format", PreparationSettings.format) == "documents":
        shared.check_unused(flags, _EXAMPLE_FLAGS, "documents, without --format examples")
    options = {
        **shared.provided_fields(flags, PreparationSettings),
        **shared.provided(flags, TOKENIZER_DEFAULTS),
    }
    prepare(flags.input, flags.output, flags.vocabulary, beam_options=flags.others, **options)
