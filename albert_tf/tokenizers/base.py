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
from albert_tf.tokenizers.bounded_texts import LEAST_BYTES, keep_ends
from albert_tf.tokenizers.input_format import InputFormat, SpecialIds
from albert_tf.utils.choices import HEAD_TAIL, TRUNCATE, WINDOWS
from albert_tf.utils.errors import InputError

Tokenize = Callable[[tf.Tensor], tf.RaggedTensor]  # string [B] → int32 [B, (tokens)]
# Ids, int32 [B, (tokens)], and of each the first byte in its text and the one after its last, int64.
TokensWithOffsets = tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]

TAIL = "tail"  # what stays of a text whose last tokens are read

_ENDS = (".", "!", "?", "…", "。", "！", "？")


def ensure_text_batch(text: tf.Tensor) -> tf.Tensor:
    """Texts as string [B]: [B, 1] loses its second axis, and a scalar is a batch of one.

    It is for graphs that are made for string [B], which a signature does not check. Another shape raises an
    InvalidArgumentError.
    """
    # Grappler would drop a reshape from [B] to [B], and with it the other shapes.
    column = tf.expand_dims(text, -1)
    return tf.reshape(column, tf.shape(column)[:1])


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
    bytes_per_token = 64  # of a text that `shorten_text` cuts: four times the longest tokens' 16 characters

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

    def detokenize(self, tokens: tf.RaggedTensor) -> tf.Tensor:
        """The texts of tokens, int32 [B, (tokens)] without special ones around segments: string [B]."""
        raise NotImplementedError

    def tokenize_words(self, text: tf.Tensor) -> tf.RaggedTensor:
        """A call's tokens, by words where the published modules of this kind have it so.

        That is WordPiece: string [B] to int32 [B, (words), (tokens)].
        """
        return self(text)

    def tokenize_words_with_offsets(self, text: tf.Tensor) -> TokensWithOffsets:
        """The tokens of `tokenize_words`, and their bytes as of `tokenize_with_offsets`."""
        return self.tokenize_with_offsets(text)

    def shorten_text(self, text: tf.Tensor, num_tokens: int, keep: str = TRUNCATE) -> tf.Tensor:
        """Texts cut by bytes to what their first, or last, tokens are made of: string [B] to string [B].

        So the time of an answer does not depend on what is not read. A text of up to 16 KiB, or of as many
        bytes as num_tokens of the longest tokens have, stays as it is. A longer one is cut before a word;
        rows of spaces, and characters that normalisation removes, do not count.

        Args:
          text: the texts.
          num_tokens: how many tokens of a text are read, at most.
          keep: "truncate" for the first tokens, "tail" for the last ones, "head_tail" for both, "windows" for
            the whole text.
        Note: of a longer text, fewer tokens than num_tokens are left where many bytes become one token: a row
        of characters that the vocabulary lacks. Where it has no spaces, tokens next to the cut may be others;
        they are far beyond num_tokens, unless one character is repeated so often.
        """
        if keep == WINDOWS:
            return text
        num_bytes = max(num_tokens * self.bytes_per_token, LEAST_BYTES)
        return keep_ends(text, num_bytes, self._squeeze, keep != TAIL, keep in (TAIL, HEAD_TAIL))

    def _squeeze(self, text: tf.Tensor) -> tf.Tensor:
        """Texts without what makes no difference to their tokens."""
        for pattern, replacement in self.squeezed:
            text = tf.strings.regex_replace(text, pattern, replacement)
        return text

    @property
    def squeezed(self) -> Iterable[tuple[str, str]]:
        """Regular expressions of what makes no difference to tokens, and what stays of each match."""
        return ()

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
