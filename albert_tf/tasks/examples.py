"""Records of tasks, and the rows of tokens that are made of them."""

from __future__ import annotations

import dataclasses
import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.constants import HEAD_TAIL
from albert_tf.errors import InputError, shorten
from albert_tf.text.tokenizer import Vocabulary


class TextRecord(NamedTuple):
    """A text or a pair of texts, and perhaps a label."""

    file: str
    line: int  # where the row begins, from 1
    id: str  # of the file's id column, or the row's number from 0
    text: str
    text_pair: str | None
    label: str | tuple[str, ...] | None  # as the file spells it; of a list a tuple

    @property
    def where(self) -> str:
        """The place in the file."""
        return f"{self.file}:{self.line}"


class TaggedRecord(NamedTuple):
    """A sentence of words, and perhaps a tag for each."""

    file: str
    line: int  # of the first word, from 1
    words: tuple[str, ...]
    tags: tuple[str, ...] | None

    @property
    def where(self) -> str:
        """The place in the file."""
        return f"{self.file}:{self.line}"


class ChoiceRecord(NamedTuple):
    """A question on a context with options to choose from."""

    where: str  # the place in the file
    id: str
    group: str  # "middle" or "high" of RACE, else ""
    context: str
    question: str
    options: tuple[str, ...]
    label: int | None  # the right option, from 0


class Answer(NamedTuple):
    """A span of a context."""

    text: str
    start: int  # its first character


class QuestionRecord(NamedTuple):
    """A question on a context that perhaps holds its answer."""

    where: str  # the place in the file
    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]  # none where the question is impossible or the file has no answers
    is_impossible: bool


# Whole numbers with a fraction of zeros, as tables write a column that also has missing values.
_WHOLE = re.compile(r"(-?)(0|[1-9]\d*)\.0+", re.ASCII)

# Numbers as programs write them; leading zeros are those of a code.
_LARGEST = 1e18  # whose square is a float32
_FINITE = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)  # float() reads 1_000, too
_NUMBER = re.compile(r"[-+]?(?!0\d)\d*\.?\d+([eE][-+]?\d+)?", re.ASCII)

# Between several labels of one row.
SEPARATOR = "|"

# More different numbers than these are something measured, unless they number classes from 0 or 1.
MAX_NUMBERS = 50


def label_names(records: Sequence[TextRecord]) -> tuple[str, ...]:
    """The labels there are, sorted, whole numbers by their value.

    An InputError says if a row has none, all have the same, or they are numbers to learn by regression.
    """
    file, names = records[0].file, sorted({label_of(record) for record in records})
    if len(names) == 1:
        raise InputError(f"{file}: the only label is {names[0]!r}: there is nothing to learn")
    numbers = [name for name in names if _NUMBER.fullmatch(name)]
    if numbers and len(numbers) < len(names) and {"nan"}.issuperset(map(str.lower, {*names} - {*numbers})):
        raise InputError(f"{file}: the label 'nan' among numbers is a missing one: leave out its rows")
    if len(numbers) == len(names):
        broken, values = [name for name in names if not float(name).is_integer()], sorted(map(float, names))
        is_numbered = values[0] in (0, 1) and values[-1] - values[0] == len(names) - 1  # each once
        if broken or (len(names) > MAX_NUMBERS and not is_numbered):
            found = f"{len(names)} labels such as {(broken or names)[0]} look continuous"
            raise InputError(f"{file}: {found}: train with `task` regression, or name classes such as c7")
    if all(name.removeprefix("-").isdecimal() for name in names):
        names.sort(key=int)
    return tuple(names)


def label_ids(found: Iterable[tuple[str, str]], labels: Iterable[str]) -> list[int]:
    """Numbers of labels, each with its place in a file, among all; an InputError names one that is none."""
    numbers = {label: number for number, label in enumerate(labels)}
    ids = []
    for label, where in found:
        if label not in numbers:
            known = ", ".join(map(repr, numbers))
            raise InputError(
                f"{where}: label {shorten(label)} is none of {known}: correct it or train with it"
            )
        ids.append(numbers[label])
    return ids


def scores(records: Sequence[TextRecord]) -> list[float]:
    """The labels of regression; an InputError where one is missing or not a finite number."""
    found = []
    for record in records:
        label = record.label if isinstance(record.label, str) else ""
        score = float(label) if _FINITE.fullmatch(label) else math.nan
        if not math.isfinite(score):
            raise InputError(f"{record.where}: label {shorten(record.label)} is not a finite number")
        if abs(score) > _LARGEST:
            wrong = f"label {shorten(record.label)} is beyond {_LARGEST:g}"
            raise InputError(f"{record.where}: {wrong}: divide all labels by a number")
        found.append(score)
    return found


def tag_names(records: Sequence[TaggedRecord]) -> tuple[str, ...]:
    """The tags there are, sorted, but "O" (no entity) first; an InputError where a sentence has none."""
    names = {tag for record in records for tag in tags_of(record)}
    return tuple(sorted(names, key=lambda name: (name != "O", name)))


def tags_of(record: TaggedRecord) -> tuple[str, ...]:
    """The tags of a sentence; an InputError names the place of one without."""
    if record.tags is None:
        raise InputError(f"{record.where}: words without tags: a column of tags must be the last")
    return record.tags


def label_of(record: TextRecord) -> str:
    """The label of a row, as `same_label` spells it; an InputError names the place of one without."""
    if not record.label or isinstance(record.label, tuple):
        raise InputError(f"{record.where}: the row has no label")
    return same_label(record.label)


def label_set(record: TextRecord) -> tuple[str, ...]:
    """The labels of a row that may have any number of them, as `same_label` spells them."""
    found = record.label or ()
    labels = map(str.strip, found if isinstance(found, tuple) else found.split(SEPARATOR))
    return tuple(dict.fromkeys(same_label(label) for label in labels if label))


def same_label(label: str) -> str:
    """A label as it is compared with others: 1.0 is 1, True and TRUE are true; others stay as they are."""
    if label in ("True", "TRUE", "False", "FALSE"):  # of Python and of spreadsheets
        return label.lower()
    match = _WHOLE.fullmatch(label)
    return label if match is None else str(int(match[1] + match[2]))


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
        lines.append(f"{empty:,} of {lengths.size:,} texts {'is' if empty == 1 else 'are'} empty")
    dropped = np.maximum(rows.sequence_lengths - seq_length, 0).sum(axis=1) + rows.dropped  # [N]
    if dropped.any():
        num_tokens = rows.lengths.sum(dtype=np.int64) + np.sum(rows.dropped)
        count, share = (dropped > 0).sum(), dropped.sum() / num_tokens
        are = "is longer" if count == 1 else "are longer"
        examples = f"{count:,} of {len(rows):,} example{'s' * (len(rows) > 1)} {are}"
        kept = "; the beginning and the end of each are read" if long == HEAD_TAIL else ""
        lines.append(f"{examples} than seq_length={seq_length}: {share:.1%} of all tokens are dropped{kept}")
    unknown = (rows.tokens == rows.vocabulary.special_ids.unknown).sum() / max(len(rows.tokens), 1)
    if unknown > MAX_UNKNOWN:
        language = "was it made for this language?"
        lines.append(f"{unknown:.1%} of all tokens are unknown to the vocabulary: {language}")
    return lines


@tf.autograph.experimental.do_not_convert
def tokenize_texts(tokenize: Callable[..., Any], *texts: Sequence[str], at_once: int = TEXTS_AT_ONCE) -> Any:
    """Tokens of texts, [texts, (tokens)], many texts at a time.

    Args:
      tokenize: string [B] (or several of them) → one or several ragged tensors [B, (tokens)].
      *texts: one sequence for each argument of `tokenize`; at least one text.
      at_once: texts of a block, B.
    """
    with tf.device("CPU:0"):
        columns = tuple(tf.constant([utf8(text) for text in column], tf.string) for column in texts)
        if len(texts[0]) <= at_once:
            return tokenize(*columns)
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


def characters(text: str, places: Any) -> np.ndarray:
    """Places in a text, from bytes in UTF-8 to characters, int64 of the same shape.

    >>> characters("für", [1, 3]).tolist()
    [1, 2]
    """
    encoded = np.frombuffer(utf8(text), np.uint8)
    begins = np.append((encoded & 0xC0) != 0x80, True)
    return np.cumsum(begins)[np.array(places, np.int64)] - 1


def check_length(name: str, value: int, least: int) -> int:
    """A length in tokens; an InputError where it is not one, or below the least that it can be."""
    if not isinstance(value, numbers.Integral) or value < least:
        raise InputError(f"{name}={value!r} must be a whole number of at least {least} tokens")
    return value
