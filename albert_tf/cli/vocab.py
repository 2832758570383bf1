"""`albert-tf vocab`: text to a vocabulary."""

from __future__ import annotations

import argparse

from albert_tf.cli.flags import paths_flag, tokenizer_flags, tokenizer_given
from albert_tf.startup import quiet_start
from albert_tf.tokenizer_settings import SENTENCEPIECE, VOCABULARY_FILES

SUMMARY = "train a vocabulary"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    paths_flag(parser, "--input", "text files or globs, .gz too")
    parser.add_argument("--vocab_size", type=int, default=30000, help="pieces (30000)")
    parser.add_argument(
        "--output", required=True, help="the .model file to write, or vocab.txt, or byte-level BPE's folder"
    )
    parser.add_argument(
        "--kind",
        choices=VOCABULARY_FILES,
        default=SENTENCEPIECE,
        help="ALBERT's, BERT's or RoBERTa's (sentencepiece)",
    )
    parser.add_argument(
        "--max_sentences", type=int, default=10_000_000, help="lines sampled of a larger corpus"
    )
    tokenizer_flags(parser)


def run(flags: argparse.Namespace) -> None:
    """Writes the vocabulary."""
    with quiet_start():
        from albert_tf.tokenizers import train_vocabulary
    vocabulary = train_vocabulary(
        flags.input,
        flags.output,
        vocab_size=flags.vocab_size,
        max_sentences=flags.max_sentences,
        kind=flags.kind,
        **tokenizer_given(flags),
    )
    print(f"{flags.output}: {len(vocabulary)} pieces")
