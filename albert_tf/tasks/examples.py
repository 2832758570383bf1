"""Tokenised examples in memory: spans of one run of tokens, with what is to be learnt of each."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.constants import HEAD_TAIL
from albert_tf.errors import InputError
from albert_tf.text.tokenizer import Vocabulary

TEXTS_AT_ONCE = 1024

# Share of unknown pieces above which a vocabulary is likely made for other texts.
MAX_UNKNOWN = 0.05


class TokenizedTexts(NamedTuple):
    """Sequences of one or two segments (G), as spans of one run of tokens."""

    tokens: tf.Tensor  # all texts one after the other, int32 [T]
    starts: tf.Tensor  # the first token of each segment, int64 [R, G]
    lengths: tf.Tensor  # the tokens of each segment, int32 [R, G]


@dataclasses.dataclass(frozen=True, eq=False)
class TokenizedExamples:
    """N examples, each a sequence (or C of them, one a choice) of one or two segments (G).

    Texts are stored once, however many examples have them: a passage for all of its questions. Tokens,
    starts and lengths are as in `TokenizedTexts`; of choices starts and lengths are [N, C, G], and where an
    example has fewer than C, the starts are -1.
    """

    tokens: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    features: Mapping[str, np.ndarray]  # further tensors of a batch by name, [N] each
    vocabulary: Vocabulary
    token_labels: np.ndarray | None = None  # int32 [T], -1 for none; None where labels are not of tokens
    dropped: np.ndarray | int = 0  # tokens of each example that were left out already, int64 [N]
    records: np.ndarray | None = None  # record of each example, int32 [N], where one has several: its windows

    def __len__(self) -> int:
        """The number of examples, N."""
        return len(self.starts)

    @property
    def num_special_tokens(self) -> int:
        """The number of special tokens in a sequence."""
        return self.vocabulary.input_format.num_special_tokens(self.lengths.shape[-1])

    @property
    def sequence_lengths(self) -> np.ndarray:
        """The length of each sequence with its special tokens, int64 [N, 1] or [N, C]; not trimmed."""
        lengths = self.lengths.sum(axis=-1, dtype=np.int64) + self.num_special_tokens
        return lengths.reshape(len(self), -1)


def tokenize_examples(
    spans: TokenizedTexts, vocabulary: Vocabulary, features: Mapping[str, np.ndarray], **further: Any
) -> TokenizedExamples:
    """Examples of spans; arguments are those of `TokenizedExamples`."""
    tokens, starts, lengths = (tensor.numpy() for tensor in spans)
    return TokenizedExamples(tokens, starts, lengths, features, vocabulary, **further)


def truncation_report(rows: TokenizedExamples, seq_length: int, long: str | None = None) -> list[str]:
    """Lines about empty texts, and tokens that a model does not read or know; none where there are few.

    `long` is what is read of longer texts, as task.json has it.
    """
    lines = []
    lengths = rows.lengths
    if rows.records is not None:  # the first window of each
        lengths = lengths[np.unique(rows.records, return_index=True)[1]]
    empty = (lengths == 0).sum()
    if empty and lengths.ndim == 2:  # choices share their texts
        lines.append(f"{empty:,} of {lengths.size:,} texts {_are(empty)} empty")
    dropped = np.maximum(rows.sequence_lengths - seq_length, 0).sum(axis=1) + rows.dropped  # [N]
    if dropped.any():
        num_tokens = rows.lengths.sum(dtype=np.int64) + np.sum(rows.dropped)
        count, share = (dropped > 0).sum(), dropped.sum() / num_tokens
        examples = f"{count:,} of {len(rows):,} example{'s' * (len(rows) > 1)} {_are(count)} longer"
        kept = "; the beginning and the end of each are read" if long == HEAD_TAIL else ""
        lines.append(f"{examples} than seq_length={seq_length}: {share:.1%} of all tokens are dropped{kept}")
    unknown = (rows.tokens == rows.vocabulary.special_ids.unknown).sum() / max(len(rows.tokens), 1)
    if unknown > MAX_UNKNOWN:
        language = "was it made for this language?"
        lines.append(f"{unknown:.1%} of all tokens are unknown to the vocabulary: {language}")
    return lines


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def tokenize_texts(tokenize: Callable[..., Any], *texts: Sequence[str], at_once: int = TEXTS_AT_ONCE) -> Any:
    """Tokens of texts, [texts, (tokens)], many texts at a time.

    Args:
      tokenize: string [B] (or several of them) → one or several ragged tensors [B, (tokens)].
      *texts: one sequence for each argument of `tokenize`; at least one text.
      at_once: texts of a block, B.
    """
    with tf.device("CPU:0"):
        columns = tuple(tf.constant([utf8(text) for text in column], tf.string) for column in texts)
        blocks = tf.data.Dataset.from_tensor_slices(columns).batch(at_once)
        found = list(blocks.map(tokenize, tf.data.AUTOTUNE).prefetch(1))
        if isinstance(found[0], tuple):
            return tuple(tf.concat(part, axis=0) for part in zip(*found, strict=True))
        return tf.concat(found, axis=0)


def row_lengths(texts: tf.RaggedTensor) -> tf.Tensor:
    """Tokens of each text, int32 [B]."""
    return tf.cast(texts.row_lengths(), tf.int32)


def concat_rows(texts: Sequence[tf.RaggedTensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """All tokens one after the other, int32 [T], and where each group's texts start there, int64 [B]."""
    starts, before = [], tf.constant(0, tf.int64)
    for group in texts:
        starts.append(before + tf.cast(group.row_starts(), tf.int64))
        before += tf.size(group.flat_values, tf.int64)
    return tf.concat([group.flat_values for group in texts], axis=0), starts


def utf8(text: str) -> bytes:
    """The bytes of a text; what UTF-8 has none for (JSON's lone surrogates) becomes ?."""
    return text.encode("utf-8", "replace")


def characters(text: str, *places: int) -> list[int]:
    """Places in a text, from bytes in UTF-8 to characters.

    >>> characters("für", 1, 3)
    [1, 2]
    """
    encoded = np.frombuffer(utf8(text), np.uint8)
    begins = np.append((encoded & 0xC0) != 0x80, True)
    return (np.cumsum(begins)[list(places)] - 1).tolist()


def check_length(name: str, value: int, least: int) -> int:
    """A length in tokens; an InputError where it is not one, or below the least that it can be."""
    if not isinstance(value, numbers.Integral) or value < least:
        raise InputError(f"{name}={value!r} must be a whole number of at least {least} tokens")
    return value
