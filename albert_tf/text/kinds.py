"""The kinds of tokenizers, by their names in tokenizer.json."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from albert_tf.text.interface import TextTokenizer
from albert_tf.text.tokenizer import PieceTokenizer
from albert_tf.text.vocabulary import Vocabulary
from albert_tf.tokenizer_settings import SENTENCEPIECE, remembered_kind, resolved_settings

PathLike = str | os.PathLike[str]


def _sentencepiece(vocabulary: PathLike, settings: Mapping[str, bool]) -> TextTokenizer:
    return PieceTokenizer(Vocabulary.from_file(vocabulary), **settings)


KINDS: dict[str, Callable[[PathLike, Mapping[str, bool]], TextTokenizer]] = {SENTENCEPIECE: _sentencepiece}


def open_tokenizer(vocabulary: PathLike, **settings: Any) -> TextTokenizer:
    """The tokenizer of a vocabulary.

    Args:
      vocabulary: its file; a `tokenizer.json` beside it may name the kind, which is SentencePiece otherwise.
      **settings: `lowercase` and `strip_accents`; what is not given is as the vocabulary remembers it.
    Raises:
      FileNotFoundError: the file does not exist.
      InputError: it is not a vocabulary of its kind, or remembers other settings.
    """
    return KINDS[remembered_kind(vocabulary, KINDS)](vocabulary, resolved_settings(vocabulary, settings))
