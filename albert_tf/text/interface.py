"""The interface of tokenizers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import tensorflow as tf

from albert_tf.text.input_format import InputFormat, SpecialIds

Tokenize = Callable[[tf.Tensor], tf.RaggedTensor]  # string [B] → int32 [B, (tokens)]


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
    def fingerprint(self) -> str:
        """SHA-256 of the vocabulary, in hexadecimal: tells whether data was made with it."""

    def __len__(self) -> int:
        """The number of ids, V."""


class TextTokenizer(Protocol):
    """Text to token ids inside the graph.

    Attributes:
      kind: its name in tokenizer.json.
    """

    kind: str

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
