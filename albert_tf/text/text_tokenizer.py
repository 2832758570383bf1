"""What all tokenizers have in common: texts as tensors, vocabulary, special tokens, ids with offsets."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import tensorflow as tf

from albert_tf.constants import HEAD_TAIL, TRUNCATE, WINDOWS
from albert_tf.errors import InputError, check_json, shorten
from albert_tf.io import PathLike
from albert_tf.text.bounded_texts import LEAST_BYTES, keep_ends
from albert_tf.text.tokenizer_config import (
    KIND_DEFAULTS,
    TOKENIZER_KIND,
    VOCABULARY_FILES,
    check_tokenizer_settings,
    fingerprint_of,
    read_vocabulary,
)


def as_list(values: Any) -> list[Any]:
    """The values of a sequence of any kind; those of tensors, datasets and arrays of bytes as str."""
    if hasattr(values, "to_numpy"):  # pandas
        values = values.to_numpy()
    if tf.is_tensor(values):
        values = values.numpy()
    if isinstance(values, tf.data.Dataset):
        if values.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise InputError(f"{shorten(values)} goes on for ever: give a part of it, dataset.take(100)")
        return [decode_texts(value) for value in values.as_numpy_iterator()]
    if isinstance(values, set | frozenset):
        raise InputError(f"{shorten(values)} is a set, which has no order: give a list")
    if not isinstance(values, np.ndarray):
        return (
            list(values) if isinstance(values, Iterable) and not isinstance(values, str | bytes) else [values]
        )
    return [decode_texts(value) for value in np.atleast_1d(values).tolist()]


def decode_texts(value: Any) -> Any:
    """The value, or the values in a list, tuple or dict, those of bytes as str."""
    if isinstance(value, list | tuple):
        return type(value)([decode_texts(part) for part in value])
    if isinstance(value, dict):
        return {name: decode_texts(part) for name, part in value.items()}
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def check_text(value: Any, where: str) -> str:
    """The value, a text; an InputError says where it stands, and what it is instead or holds half of."""
    if not isinstance(value, str):
        raise InputError(f"{where}={shorten(value)} is not a text (a str)")
    check_json(value, where)
    return value


def text_tensor(texts: Any, argument: str) -> tf.Tensor:
    """Texts as a string tensor, which may be symbolic; an InputError names the first that is not a text.

    They are a tensor, which stays as it is; a str; or a list, array or pandas Series of str or bytes.
    """
    if hasattr(texts, "to_numpy"):  # pandas
        texts = texts.to_numpy()
    if tf.is_tensor(texts):
        if texts.dtype != tf.string:
            raise InputError(f"{argument} is a tensor of {texts.dtype.name}: texts are tf.string")
        return texts
    if isinstance(texts, np.ndarray):
        texts = texts.tolist()
    if not isinstance(texts, str | bytes | list | tuple):
        raise InputError(f"{argument}={shorten(texts)} is neither a text nor a list of them")
    for number, value in enumerate(texts if isinstance(texts, list | tuple) else ()):
        if not isinstance(value, bytes):
            check_text(value, f"{argument}[{number}]")
    return tf.constant(texts, tf.string)


class SpecialIds(NamedTuple):
    """The ids of the special tokens of a vocabulary."""

    padding: int
    unknown: int
    start: int  # [CLS]
    separator: int  # [SEP]
    mask: int


ALBERT_IDS = SpecialIds(padding=0, unknown=1, start=2, separator=3, mask=4)


@dataclasses.dataclass(frozen=True)
class InputFormat:
    """The special tokens of an input, as ids.

    ALBERT's and BERT's inputs are `[CLS] a [SEP]` and `[CLS] a [SEP] b [SEP]`, RoBERTa's are `<s> a </s>` and
    `<s> a </s></s> b </s>` without type ids.

    Args:
      start: before the first segment.
      between: between two segments.
      end: after the last segment.
      padding: after the input.
      has_type_ids: True if the segments after the first one, with what follows them, have type 1.
    """

    start: tuple[int, ...]
    between: tuple[int, ...]
    end: tuple[int, ...]
    padding: int = 0
    has_type_ids: bool = True

    @classmethod
    def of_bert(cls, ids: SpecialIds) -> InputFormat:
        """`[CLS] a [SEP] b [SEP]` with these special ids."""
        return cls((ids.start,), (ids.separator,), (ids.separator,), ids.padding)

    def num_special_tokens(self, num_segments: int) -> int:
        """The number of special tokens in an input of some segments."""
        return len(self.start) + (num_segments - 1) * len(self.between) + len(self.end)

    @property
    def framing_ids(self) -> tuple[int, ...]:
        """The ids that stand around segments."""
        return *self.start, *self.between, *self.end

    def bounds(self, lengths: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The column of the first token of each segment, and the one after its last.

        Args:
          lengths: tokens of each segment: numbers, arrays or tensors of one shape.
        """
        begins: list[Any] = []
        ends: list[Any] = []
        for length in lengths:
            begins.append(ends[-1] + len(self.between) if ends else len(self.start))
            ends.append(begins[-1] + length)
        return begins, ends


ALBERT_FORMAT = InputFormat.of_bert(ALBERT_IDS)


Tokenize = Callable[[tf.Tensor], tf.RaggedTensor]  # string [B] → int32 [B, (tokens)]
# Ids, int32 [B, (tokens)], and of each the first byte in its text and the one after its last, int64.
TokensWithOffsets = tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]

Function = TypeVar("Function", bound=Callable[..., Any])


def traced_once(function: Function) -> Function:
    """A function of tensors that all graphs of a process call, instead of each having it traced again.

    Its other arguments tell its traces apart, by identity those that are no numbers and strings. Eagerly the
    function itself is called.
    """
    traced = tf.function(function, autograph=False)

    # A plain function: a SavedModel would have each `tf.function` that is an attribute among its own.
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (function if tf.executing_eagerly() else traced)(*args, **kwargs)

    return call  # type: ignore[return-value]


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


class Vocabulary:
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
    def from_file(cls, path: PathLike) -> Vocabulary:
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
    vocabulary_class: ClassVar[type[Vocabulary]]
    lowercase: bool
    strip_accents: bool
    bytes_per_token = 64  # of a text that `shorten_text` cuts: four times the longest tokens' 16 characters

    def __init__(self, vocabulary: Vocabulary, **settings: bool):
        super().__init__()
        self.vocabulary = vocabulary
        for name, value in check_tokenizer_settings({TOKENIZER_KIND: self.kind, **settings}).items():
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

    @traced_once
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
        num_bytes = self._bytes_of(num_tokens)
        return keep_ends(text, num_bytes, self._squeeze, keep != TAIL, keep in (TAIL, HEAD_TAIL))

    def _bytes_of(self, num_tokens: int) -> int:
        """The bytes that `shorten_text` leaves of each end of a text, at most."""
        return max(num_tokens * self.bytes_per_token, LEAST_BYTES)

    def tokenize_shortened(self, text: tf.Tensor, num_tokens: int, keep: str = TRUNCATE) -> tf.RaggedTensor:
        """The tokens of what `shorten_text` leaves: string [B] to int32 [B, (tokens)]."""
        return self(self.shorten_text(text, num_tokens, keep))

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

    def _normalized(self, text: tf.Tensor) -> tf.Tensor:
        return self.normalize(text, **self.settings)
