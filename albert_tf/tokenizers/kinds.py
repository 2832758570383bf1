"""The kinds of tokenizers by their names in tokenizer.json, and the tokenizer of a vocabulary's files."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from albert_tf.tokenizer_settings import PathLike, read_vocabulary, remembered_kind, resolved_settings
from albert_tf.tokenizers.base import TextTokenizer, TokenIds
from albert_tf.tokenizers.byte_level_bpe import BytePairTokenizer
from albert_tf.tokenizers.sentencepiece import PieceTokenizer
from albert_tf.tokenizers.wordpiece import WordPieceTokenizer

__all__ = ["KINDS", "SavedTokenizer", "TextTokenizer", "TokenIds", "open_tokenizer", "saved_tokenizer"]

KINDS: dict[str, type[TextTokenizer]] = {
    kind.kind: kind for kind in (PieceTokenizer, WordPieceTokenizer, BytePairTokenizer)
}


@dataclasses.dataclass(frozen=True)
class SavedTokenizer:
    """A tokenizer in a form that travels to other machines."""

    kind: str
    files: tuple[tuple[str, bytes], ...] = dataclasses.field(repr=False)  # names and contents
    settings: tuple[tuple[str, bool], ...]  # of tokenizer.json

    def open(self) -> TextTokenizer:
        """The tokenizer."""
        return KINDS[self.kind].from_files(dict(self.files), **dict(self.settings))


def saved_tokenizer(vocabulary: PathLike, **settings: Any) -> SavedTokenizer:
    """The tokenizer of a vocabulary, named by its file.

    A `tokenizer.json` beside it names the kind; without one it is that of `vocab.txt`, or of `vocab.json`
    with `merges.txt`, or SentencePiece. Settings, `lowercase` and `strip_accents`, that are not given are as
    the vocabulary remembers them; they mean nothing to byte-level BPE.

    Raises:
      FileNotFoundError: the file does not exist.
      InputError: it is not a vocabulary of its kind, or remembers other settings.
    """
    kind, resolved = remembered_kind(vocabulary, KINDS), resolved_settings(vocabulary, settings)
    files = read_vocabulary(vocabulary, kind)
    KINDS[kind].vocabulary_class(files, os.fspath(vocabulary))  # or an error now
    return SavedTokenizer(kind, tuple(files.items()), tuple(resolved.items()))


def open_tokenizer(vocabulary: PathLike, **settings: Any) -> TextTokenizer:
    """The tokenizer of a vocabulary; arguments and errors as those of `saved_tokenizer`."""
    return saved_tokenizer(vocabulary, **settings).open()
