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


def check_vocabulary(path: str | os.PathLike[str], vocab_size: int, *, exactly: bool = False) -> None:
    """InputError for a vocabulary that does not go with a network.

    Args:
      path: its file.
      vocab_size: the network's embeddings, V, of which the vocabulary may use fewer.
      exactly: True if it has to use all of them, as it does in what is published.
    """
    pieces = _piece_count(Path(path))
    if pieces > vocab_size or (exactly and pieces < vocab_size):
        raise InputError(f"{path} has {pieces} pieces, the config says vocab_size={vocab_size}")


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
