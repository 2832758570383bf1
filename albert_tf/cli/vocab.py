"""`albert-tf vocab`: trains a vocabulary on text."""

from __future__ import annotations

import argparse

from albert_tf.cli import flags as shared
from albert_tf.signals import quiet_start
from albert_tf.text.tokenizer_config import SENTENCEPIECE, TOKENIZER_DEFAULTS, VOCABULARY_FILES

SUMMARY = "train a vocabulary"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of the command."""
    shared.add_paths_flag(parser, "--input", "text files or globs, .gz too")
    add, kind = parser.add_argument, "ALBERT's, BERT's or RoBERTa's (sentencepiece)"
    add("--vocab_size", type=int, default=30000, help="pieces (30000)")
    add("--output", required=True, help="the .model file to write, or vocab.txt, or byte-level BPE's folder")
    add("--kind", choices=VOCABULARY_FILES, default=SENTENCEPIECE, help=kind)
    add("--max_sentences", type=int, help="lines sampled of a larger corpus, by sentencepiece (10000000)")
    shared.add_tokenizer_flags(parser)


def run(flags: argparse.Namespace) -> None:
    """Writes the vocabulary."""
    with quiet_start():
        from albert_tf.text.vocabulary_training import train_vocabulary
    if flags.kind != SENTENCEPIECE:
        shared.check_unused(flags, ["max_sentences"], f"--kind {flags.kind}")
    options = shared.provided(flags, ("vocab_size", "max_sentences", "kind", *TOKENIZER_DEFAULTS))
    vocabulary = train_vocabulary(flags.input, flags.output, **options)
    print(f"{flags.output}: {len(vocabulary)} pieces")
