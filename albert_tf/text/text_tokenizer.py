"""The base of all tokenizers: texts as tensors, vocabulary, special tokens, ids with offsets."""

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
    """The values of a sequence of any kind, as a list. Bytes in tensors, datasets and arrays become str."""
    if hasattr(values, "to_pylist"):  # pyarrow
        values = values.to_pylist()
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
    if isinstance(values, np.ndarray):
        return [decode_texts(value) for value in np.atleast_1d(values).tolist()]
    is_sequence = isinstance(values, Iterable) and not isinstance(values, str | bytes)
    return list(values) if is_sequence else [values]


def decode_texts(value: Any) -> Any:
    """The value with bytes decoded to str, also inside lists, tuples and dicts."""
    if isinstance(value, list | tuple):
        kind = list if isinstance(value, list) else tuple  # a namedtuple takes no list
        return kind([decode_texts(part) for part in value])
    if isinstance(value, dict):
        return {name: decode_texts(part) for name, part in value.items()}
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def check_text(value: Any, where: str) -> str:
    """Returns the value if it is a str of whole characters; else an InputError names it by `where`."""
    if not isinstance(value, str):
        raise InputError(f"{where}={shorten(value)} is not a text (a str)")
    check_json(value, where)
    return value


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
      start: ids before the first segment.
      between: ids between two segments.
      end: ids after the last segment.
      padding: the id after the input.
      has_type_ids: True if all tokens from the second segment on have type 1, False if all types are 0.
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
        """The number of special tokens in an input of num_segments segments."""
        return len(self.start) + (num_segments - 1) * len(self.between) + len(self.end)

    @property
    def framing_ids(self) -> tuple[int, ...]:
        """The ids of the special tokens around segments."""
        return *self.start, *self.between, *self.end

    def bounds(self, lengths: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The first column of each segment, and the column after its last one.

        Args:
          lengths: the number of tokens of each segment: numbers, arrays or tensors of one shape.
        """
        begins: list[Any] = []
        ends: list[Any] = []
        for length in lengths:
            begins.append(ends[-1] + len(self.between) if ends else len(self.start))
            ends.append(begins[-1] + length)
        return begins, ends


ALBERT_FORMAT = InputFormat.of_bert(ALBERT_IDS)


Tokenize = Callable[[tf.Tensor], tf.RaggedTensor]  # string [B] → int32 [B, (tokens)]
# Ids, int32; the first byte of each token in its text, and the byte after its last one, int64; [B, (tokens)].
TokensWithOffsets = tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]

Function = TypeVar("Function", bound=Callable[..., Any])


def trace_once(function: Function) -> Function:
    """Decorates a function of tensors, so that all graphs of a process share one trace of it.

    Other values of arguments that are not tensors make another trace; numbers and strings are compared by
    value, other objects by identity. In eager mode the function itself runs.
    """
    traced = tf.function(function, autograph=False)

    # A plain function, since a SavedModel would save every `tf.function` that is an attribute.
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (function if tf.executing_eagerly() else traced)(*args, **kwargs)

    return call  # type: ignore[return-value]


TAIL = "tail"  # keeps the last tokens of a text

_ENDS = (".", "!", "?", "…", "。", "！", "？")


def ensure_text_batch(text: tf.Tensor) -> tf.Tensor:
    """Texts as string [B]: [B, 1] loses its second axis, and a scalar becomes a batch of one.

    Use it in graphs for string [B], whose signature does not check the shape. Another shape raises
    InvalidArgumentError.
    """
    # Grappler would drop a reshape from [B] to [B], and the graph would then refuse the other shapes.
    column = tf.expand_dims(text, -1)
    return tf.reshape(column, tf.shape(column)[:1])


class Vocabulary:
    """The meaning of each token id.

    Args:
      files: the contents of the vocabulary's files, by their names in a run directory.
      name: the vocabulary's name in errors.
    Raises:
      InputError: the files are not a vocabulary of this kind.
    """

    kind: ClassVar[str]  # in tokenizer.json
    special_pieces: ClassVar[tuple[str, ...]]  # padding, unknown, start, separator, mask
    starts_word: np.ndarray  # bool [V], True for ids that begin a word; a segment's first token always does
    ordinary_ids: np.ndarray  # ascending int32, the ids of tokens that stand for text
    space_id = -1  # the id of the space that begins a text as a token of its own; -1: there is none

    def __init__(self, files: Mapping[str, bytes], name: str = "the vocabulary"):
        self.files = {file: files[file] for file in VOCABULARY_FILES[self.kind]}
        self.name = name
        self.pieces = tuple(self._read())  # in the order of their ids

    def _read(self) -> Iterable[str]:
        """Returns the pieces in the files, and sets `starts_word`, `ordinary_ids` and perhaps `space_id`."""
        raise NotImplementedError

    @classmethod
    def from_file(cls, path: PathLike) -> Vocabulary:
        """The vocabulary in a file. A kind of several files takes their folder or one of the files.

        Raises FileNotFoundError if a file does not exist, InputError if it is no vocabulary of this kind.
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
        """SHA-256 of the vocabulary's files, in hexadecimal."""
        return fingerprint_of(self.files)

    @functools.cached_property
    def ends_sentence(self) -> np.ndarray:
        """True for tokens whose last character ends sentences, bool [V]."""
        return np.array([piece.endswith(_ENDS) for piece in self.pieces])

    @property
    def texts(self) -> np.ndarray:
        """The text of each id without the space before a word, string [V]; none is empty."""
        return np.array(self.pieces, object)


class TextTokenizer(tf.Module):
    """Text to token ids inside the graph: the form for pipelines and exported modules.

    An exported graph contains the bytes of the vocabulary.

    Args:
      vocabulary: a vocabulary of this kind.
      **settings: the normalisation; `KIND_DEFAULTS` lists the settings of each kind. Default: its values.
    Raises:
      InputError: this kind has no such setting, or a value is not a bool.
    """

    kind: ClassVar[str]  # in tokenizer.json
    vocabulary_class: ClassVar[type[Vocabulary]]
    lowercase: bool
    strip_accents: bool
    bytes_per_token = 64  # for `shorten_text`: the longest tokens have 16 characters of four bytes

    def __init__(self, vocabulary: Vocabulary, **settings: bool):
        super().__init__()
        self.vocabulary = vocabulary
        for name, value in check_tokenizer_settings({TOKENIZER_KIND: self.kind, **settings}).items():
            setattr(self, name, value)

    @staticmethod
    def normalize(text: tf.Tensor, lowercase: bool = True, strip_accents: bool = True) -> tf.Tensor:
        """Normalises texts, both for tokenising and for training a vocabulary."""
        return text

    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        """The token ids of each text, without special tokens: string [B] to int32 [B, (tokens)]."""
        raise NotImplementedError

    def tokenize_with_offsets(self, text: tf.Tensor) -> TokensWithOffsets:
        """The token ids of each text, with the bytes of each token and of the space before it.

        This is slower than a call. See `TokensWithOffsets` for the shapes.
        """
        raise NotImplementedError

    def detokenize(self, tokens: tf.RaggedTensor) -> tf.Tensor:
        """The texts, string [B], of tokens without special tokens around segments, int32 [B, (tokens)]."""
        raise NotImplementedError

    def prepend_space(self, words: tf.Tensor) -> tf.Tensor:
        """Words as they stand within a text, string [N] to string [N]: a kind that reads spaces adds one."""
        return words

    def tokenize_words(self, text: tf.Tensor) -> tf.RaggedTensor:
        """The token ids of each text; WordPiece groups them by words, as BERT's published modules do.

        WordPiece: string [B] to int32 [B, (words), (tokens)]. Other kinds: int32 [B, (tokens)].
        """
        return self(text)

    def tokenize_words_with_offsets(self, text: tf.Tensor) -> TokensWithOffsets:
        """The tokens of `tokenize_words`, with the bytes of each. See `tokenize_with_offsets`."""
        return self.tokenize_with_offsets(text)

    @trace_once
    def shorten_text(self, text: tf.Tensor, num_tokens: int, long: str = TRUNCATE) -> tf.Tensor:
        """Cuts long texts to the bytes of their first or last tokens, string [B] to string [B].

        The time of a prediction then does not depend on text that the model does not read. A text of up to 16
        KiB, or of num_tokens times the bytes of the longest tokens, is unchanged. A longer one is cut before
        a word. Repeated spaces, and characters that normalisation removes, do not count.

        Args:
          text: the texts, string [B].
          num_tokens: the most tokens of a text that are read.
          long: "truncate" for the first tokens, "tail" for the last ones, "head_tail" for both, "windows" for
            the whole text.
        Note: a longer text may keep fewer than num_tokens tokens if many of its bytes become one token, as a
        row of characters that the vocabulary lacks does. In a text without spaces, tokens next to the cut may
        differ; they are far beyond num_tokens, unless one character is repeated that often.
        """
        if long == WINDOWS:
            return text
        num_bytes = self._max_bytes(num_tokens)
        return keep_ends(text, num_bytes, self._squeeze, long != TAIL, long in (TAIL, HEAD_TAIL))

    def _max_bytes(self, num_tokens: int) -> int:
        """The most bytes that `shorten_text` keeps at each end of a text."""
        return max(num_tokens * self.bytes_per_token, LEAST_BYTES)

    def tokenize_shortened(self, text: tf.Tensor, num_tokens: int, long: str = TRUNCATE) -> tf.RaggedTensor:
        """The tokens of `shorten_text(text, num_tokens, long)`: string [B] to int32 [B, (tokens)]."""
        return self(self.shorten_text(text, num_tokens, long))

    def _squeeze(self, text: tf.Tensor) -> tf.Tensor:
        """Replaces the matches of `squeeze_patterns`, which changes no token."""
        for pattern, replacement in self.squeeze_patterns:
            text = tf.strings.regex_replace(text, pattern, replacement)
        return text

    @property
    def squeeze_patterns(self) -> Iterable[tuple[str, str]]:
        """Regular expressions with their replacements, which make texts shorter and change no token."""
        return ()

    def fast_tokenizer(self) -> Tokenize:
        """The fastest implementation of the same tokens, for pipelines that read a whole corpus."""
        return self

    @property
    def settings(self) -> Mapping[str, bool]:
        """The settings, as in tokenizer.json."""
        return {name: getattr(self, name) for name in KIND_DEFAULTS[self.kind]}

    def _normalize(self, text: tf.Tensor) -> tf.Tensor:
        return self.normalize(text, **self.settings)
