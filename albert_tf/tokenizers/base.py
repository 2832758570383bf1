"""The interface of tokenizers and vocabularies, and what all kinds have in common."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

import numpy as np
import tensorflow as tf

from albert_tf.tokenizer_settings import (
    KIND,
    KIND_DEFAULTS,
    VOCABULARY_FILES,
    PathLike,
    checked_settings,
    fingerprint_of,
    read_vocabulary,
)
from albert_tf.tokenizers.input_format import InputFormat, SpecialIds
from albert_tf.utils.errors import InputError

Tokenize = Callable[[tf.Tensor], tf.RaggedTensor]  # string [B] → int32 [B, (tokens)]
# Ids, int32 [B, (tokens)], and of each the first byte in its text and the one after its last, int64.
TokensWithOffsets = tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]

_ENDS = (".", "!", "?", "…", "。", "！", "？")


class TokenIds:
    """Meaning of token ids.

    It is made of the contents of the vocabulary's files, by their names in a run directory; `name` stands in
    errors. An InputError says that they are not of this kind.
    """

    kind: ClassVar[str]  # in tokenizer.json
    special_pieces: ClassVar[tuple[str, ...]]  # padding, unknown, start, separator, mask
    starts_word: np.ndarray  # bool [V], True for ids that begin a word; a segment's first token always does
    ordinary_ids: np.ndarray  # ascending int32, the ids that text consists of
    space_id = -1  # the id of the space that begins a text as a token of its own; -1: there is none

    def __init__(self, files: Mapping[str, bytes], name: str = "the vocabulary"):
        self.files = {file: files[file] for file in VOCABULARY_FILES[self.kind]}
        self.name = name
        self.pieces = tuple(self._read())  # in the order of their ids

    def _read(self) -> Iterable[str]:
        """The pieces in the files; sets what else an id means."""
        raise NotImplementedError

    @classmethod
    def from_file(cls, path: PathLike) -> TokenIds:
        """The vocabulary in a file or, for a kind of several files, in a folder or one of them.

        FileNotFoundError if a file does not exist, InputError if it is not a vocabulary of this kind.
        """
        return cls(read_vocabulary(path, cls.kind), os.fspath(path))

    def __len__(self) -> int:
        """The number of ids, V."""
        return len(self.pieces)

    @functools.cached_property
    def special_ids(self) -> SpecialIds:
        """The ids of the special tokens; InputError if one is missing."""
        if missing := [piece for piece in self.special_pieces if piece not in self.pieces]:
            raise InputError(f"{self.name} has no {', '.join(missing)}, which inputs need")
        return SpecialIds(*map(self.pieces.index, self.special_pieces))

    @functools.cached_property
    def input_format(self) -> InputFormat:
        """The special tokens around segments."""
        return InputFormat.of_bert(self.special_ids)

    @functools.cached_property
    def fingerprint(self) -> str:
        """That of `fingerprint_of`."""
        return fingerprint_of(self.files)

    @functools.cached_property
    def ends_sentence(self) -> np.ndarray:
        """True for ids that end with a mark that ends sentences, bool [V]."""
        return np.array([piece.endswith(_ENDS) for piece in self.pieces])

    @property
    def texts(self) -> np.ndarray:
        """The text of each id without the space before a word, string [V]; none is empty."""
        return np.array(self.pieces, object)


class TextTokenizer(tf.Module):
    """Text to token ids inside the graph: the form for pipelines and exported modules.

    Its vocabulary's bytes go into whatever graph this is exported with; the settings are those of its kind
    in `KIND_DEFAULTS`. An InputError says which one is none.
    """

    kind: ClassVar[str]  # in tokenizer.json
    vocabulary_class: ClassVar[type[TokenIds]]
    lowercase: bool
    strip_accents: bool

    def __init__(self, vocabulary: TokenIds, **settings: bool):
        super().__init__()
        self.vocabulary = vocabulary
        for name, value in checked_settings({KIND: self.kind, **settings}).items():
            setattr(self, name, value)

    @staticmethod
    def normalize(text: tf.Tensor, lowercase: bool = True, strip_accents: bool = True) -> tf.Tensor:
        """Texts as they are tokenised, and as a vocabulary's training sees them."""
        return text

    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        """The token ids of each text, without special tokens: string [B] to int32 [B, (tokens)]."""
        raise NotImplementedError

    def tokenize_with_offsets(self, text: tf.Tensor) -> TokensWithOffsets:
        """The token ids of each text, and the bytes of each with the space before it; slower than a call."""
        raise NotImplementedError

    def for_corpora(self) -> Tokenize:
        """The same tokens by the fastest implementation, for pipelines that read a whole corpus."""
        return self

    @property
    def settings(self) -> Mapping[str, bool]:
        """The settings, as in tokenizer.json."""
        return {name: getattr(self, name) for name in KIND_DEFAULTS[self.kind]}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], **settings: bool) -> TextTokenizer:
        """The tokenizer of such files, with settings."""
        return cls(cls.vocabulary_class(files), **settings)

    def _normalized(self, text: tf.Tensor) -> tf.Tensor:
        return self.normalize(text, **self.settings)
