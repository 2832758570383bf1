"""Checks that a vocabulary goes with a network."""

from __future__ import annotations

import os
from pathlib import Path

import sentencepiece

from albert_tf.tokenizer_settings import (
    BYTE_LEVEL_BPE,
    VOCABULARY_FILES,
    WORDPIECE,
    lines_of_vocabulary,
    read_vocabulary,
    remembered_kind,
)
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import json_object


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
    kind = remembered_kind(path, VOCABULARY_FILES)
    content, *_ = read_vocabulary(path, kind).values()
    if kind == WORDPIECE:
        return len(lines_of_vocabulary(content))
    if kind == BYTE_LEVEL_BPE:
        return len(json_object(content, path))
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(content)
        return processor.get_piece_size()
    except (RuntimeError, OSError):
        raise InputError(f"{path} is not a SentencePiece model, or damaged") from None
