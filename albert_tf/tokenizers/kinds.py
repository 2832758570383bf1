"""The interface of tokenizers, and its kinds by their names in tokenizer.json."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from albert_tf.tokenizer_settings import remembered_kind, resolved_settings
from albert_tf.tokenizers.byte_level_bpe import BytePairTokenizer
from albert_tf.tokenizers.input_format import InputFormat, SpecialIds
from albert_tf.tokenizers.sentencepiece import PieceTokenizer, Tokenize
from albert_tf.tokenizers.wordpiece import WordPieceTokenizer

PathLike = str | os.PathLike[str]


class TokenIds(Protocol):
    """The meaning of token ids."""

    @property
    def special_ids(self) -> SpecialIds:
        """The ids of the special tokens."""

    @property
    def input_format(self) -> InputFormat:
        """The special tokens around segments."""

    @property
    def starts_word(self) -> np.ndarray:
        """True for ids that begin a word, bool [V]; the first token of a segment always does."""

    @property
    def ordinary_ids(self) -> np.ndarray:
        """The ids that text consists of, ascending int32."""

    @property
    def texts(self) -> np.ndarray:
        """The text that each id stands for, without the space before a word, string [V]; none is empty."""

    @property
    def space_id(self) -> int:
        """The id of the space that begins a text as a token of its own; -1 where there is none."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the vocabulary, in hexadecimal: tells whether data was made with it."""

    def __len__(self) -> int:
        """The number of ids, V."""


class TextTokenizer(Protocol):
    """Text to token ids inside the graph."""

    kind: str  # its name in tokenizer.json

    @property
    def vocabulary(self) -> TokenIds:
        """The meaning of its ids."""

    @property
    def settings(self) -> Mapping[str, bool]:
        """Settings of the normalisation, as in tokenizer.json."""

    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        """The token ids of each text, without special tokens: string [B] to int32 [B, (tokens)]."""

    def tokenize_with_offsets(
        self, text: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """The token ids, and of each the first byte in the text and the one after its last."""

    def for_corpora(self) -> Tokenize:
        """The same tokens by the fastest implementation, for pipelines that read a whole corpus."""

    def files(self) -> Mapping[str, bytes]:
        """The content of the files that a run directory and exported modules keep, by name."""

    @staticmethod
    def read(path: PathLike) -> Mapping[str, bytes]:
        """What `files` gives, from a vocabulary's path; InputError if it is none of this kind."""

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], **settings: bool) -> TextTokenizer:
        """The tokenizer of such files, with settings of the normalisation."""


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
    """The tokenizer of a vocabulary.

    Args:
      vocabulary: its file. A `tokenizer.json` beside it names the kind; without one it is that of
        `vocab.txt`, or of `vocab.json` with `merges.txt`, or SentencePiece.
      **settings: `lowercase` and `strip_accents`; what is not given is as the vocabulary remembers it.
        They mean nothing to byte-level BPE.
    Raises:
      FileNotFoundError: the file does not exist.
      InputError: it is not a vocabulary of its kind, or remembers other settings.
    """
    kind = remembered_kind(vocabulary, KINDS)
    files, resolved = KINDS[kind].read(vocabulary), resolved_settings(vocabulary, settings)
    return SavedTokenizer(kind, tuple(files.items()), tuple(resolved.items()))


def open_tokenizer(vocabulary: PathLike, **settings: Any) -> TextTokenizer:
    """The tokenizer of a vocabulary; arguments and errors as those of `saved_tokenizer`."""
    return saved_tokenizer(vocabulary, **settings).open()
