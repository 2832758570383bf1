"""`albert-tf prepare`: text to tokenised documents, on Apache Beam."""

from __future__ import annotations

import argparse
import logging

from albert_tf.choices import INPUT_FORMATS, OUTPUT_FORMATS
from albert_tf.cli.flags import given, paths_flag, tokenizer_flags
from albert_tf.startup import quiet_start

SUMMARY = "text to tokenised documents, on Apache Beam"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command; all others are Beam's."""
    paths_flag(parser, "--input", "text files or globs, .gz too")
    parser.add_argument("--input_format", default="lines", choices=INPUT_FORMATS, help="of the text (lines)")
    parser.add_argument("--text_field", default="text", help="of jsonl, where the text is (text)")
    parser.add_argument("--vocabulary", required=True, help="SentencePiece model")
    parser.add_argument("--output", required=True, help="folder to write")
    parser.add_argument("--shards", type=int, default=16, help="training files (16)")
    parser.add_argument("--eval_share", type=float, default=0.0, help="of the documents, held out (0)")
    parser.add_argument("--dedup", action="store_true", help="drop repeated documents")
    parser.add_argument("--seed", type=int, default=0, help="of the order and of examples (0)")
    parser.add_argument(
        "--format", default="documents", choices=OUTPUT_FORMATS, help="what is stored (documents)"
    )
    parser.add_argument("--seq_length", type=int, default=512, help="of examples (512)")
    parser.add_argument("--max_predictions", type=int, help="of examples (15 %% of seq_length)")
    parser.add_argument("--dupe_factor", type=int, default=10, help="examples of the same text (10)")
    tokenizer_flags(parser)
    parser.epilog = (
        "Any option of Apache Beam as well: --runner, --direct_running_mode, --direct_num_workers, …"
    )


def run(flags: argparse.Namespace) -> None:
    """Writes the folder."""
    # Beam says at its import that it has not got what only Google's cloud needs.
    logging.getLogger().addFilter(lambda record: "apitools" not in str(record.msg))
    with quiet_start():
        from albert_tf.corpus.plan import Preparation
        from albert_tf.corpus.prepare import prepare
    settings = given(flags, Preparation)
    del settings["output"]
    prepare(
        flags.input,
        flags.output,
        flags.vocabulary,
        beam_options=flags.others,
        **settings,
    )
