"""Checks that a vocabulary goes with a network."""

from __future__ import annotations

import os
from pathlib import Path

import sentencepiece

from albert_tf.utils.errors import InputError, Missing


def vocabulary_problems(path: Path, vocab_size: int) -> list[str]:
    """The reasons why a published vocabulary does not go with its network; empty if it does."""
    try:
        pieces = _piece_count(path)
    except ValueError as error:
        return [str(error)]
    if pieces == vocab_size:
        return []
    return [f"{path} has {pieces} pieces, the config says vocab_size={vocab_size}"]


def check_vocabulary(path: str | os.PathLike[str], vocab_size: int) -> None:
    """ValueError for a vocabulary that has more pieces than a network has embeddings; it may use fewer."""
    pieces = _piece_count(Path(path))
    if pieces > vocab_size:
        raise InputError(f"{path} has {pieces} pieces, but the model has vocab_size={vocab_size}")


def _piece_count(path: Path) -> int:
    if not path.is_file():
        raise Missing(f"{path} is not a file: the vocabulary is missing")
    try:
        return sentencepiece.SentencePieceProcessor(model_file=str(path)).get_piece_size()
    except (RuntimeError, OSError):
        raise InputError(f"{path} is not a SentencePiece model, or damaged") from None
