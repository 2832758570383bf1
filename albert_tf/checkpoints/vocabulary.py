"""Checks that a vocabulary goes with a network."""

from __future__ import annotations

import os
from pathlib import Path

import sentencepiece

from albert_tf.tokenizer_settings import (
    BYTE_LEVEL_BPE,
    WORDPIECE,
    lines_of_vocabulary,
    remembered_kind,
    vocabulary_files,
)
from albert_tf.utils.errors import InputError, Missing
from albert_tf.utils.files import read_json


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
    files = list(vocabulary_files(path).values())
    if missing := [file for file in files if not file.is_file()]:
        raise Missing(f"{missing[0]} is not a file: the vocabulary is missing")
    kind = remembered_kind(path)
    if kind == WORDPIECE:
        return len(lines_of_vocabulary(files[0].read_bytes()))
    if kind == BYTE_LEVEL_BPE:
        return len(read_json(files[0]))
    try:
        return sentencepiece.SentencePieceProcessor(model_file=str(path)).get_piece_size()
    except (RuntimeError, OSError):
        raise InputError(f"{path} is not a SentencePiece model, or damaged") from None
