"""The kinds of tokenizers, by their names in tokenizer.json."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from albert_tf.text.interface import TextTokenizer
from albert_tf.text.tokenizer import PieceTokenizer
from albert_tf.text.vocabulary import FILE_OF_RUN, Vocabulary
from albert_tf.tokenizer_settings import SENTENCEPIECE, remembered_kind, resolved_settings

PathLike = str | os.PathLike[str]


class Kind(NamedTuple):
    """A kind of tokenizer: how its files are read, and how it is made of their content."""

    read: Callable[[PathLike], Mapping[str, bytes]]  # a vocabulary's path to `TextTokenizer.files`
    build: Callable[[Mapping[str, bytes], Mapping[str, bool]], TextTokenizer]  # of these, and settings


KINDS = {
    SENTENCEPIECE: Kind(
        lambda path: {FILE_OF_RUN: Vocabulary.from_file(path).model},
        lambda files, settings: PieceTokenizer(Vocabulary.from_bytes(files[FILE_OF_RUN]), **settings),
    )
}


@dataclasses.dataclass(frozen=True)
class SavedTokenizer:
    """A tokenizer in a form that travels to other machines."""

    kind: str
    files: tuple[tuple[str, bytes], ...] = dataclasses.field(repr=False)  # names and contents
    settings: tuple[tuple[str, bool], ...]  # of tokenizer.json

    @functools.lru_cache(maxsize=4)  # noqa: B019, one a process
    def open(self) -> TextTokenizer:
        """The tokenizer, the same one at each call."""
        return KINDS[self.kind].build(dict(self.files), dict(self.settings))


def read_tokenizer(vocabulary: PathLike, **settings: Any) -> SavedTokenizer:
    """Reads the tokenizer of a vocabulary.

    Args:
      vocabulary: its file; a `tokenizer.json` beside it may name the kind, which is SentencePiece otherwise.
      **settings: `lowercase` and `strip_accents`; what is not given is as the vocabulary remembers it.
    Raises:
      FileNotFoundError: the file does not exist.
      InputError: it is not a vocabulary of its kind, or remembers other settings.
    """
    kind = remembered_kind(vocabulary, KINDS)
    files, resolved = KINDS[kind].read(vocabulary), resolved_settings(vocabulary, settings)
    return SavedTokenizer(kind, tuple(files.items()), tuple(resolved.items()))


def open_tokenizer(vocabulary: PathLike, **settings: Any) -> TextTokenizer:
    """The tokenizer of a vocabulary; arguments and errors as those of `read_tokenizer`."""
    return read_tokenizer(vocabulary, **settings).open()
