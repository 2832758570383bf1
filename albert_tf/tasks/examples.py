"""Records of tasks, their labels, and their tokenised examples."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.constants import HEAD_TAIL
from albert_tf.errors import InputError, shorten
from albert_tf.text.lines import without_autotuning
from albert_tf.text.tokenizer import Vocabulary


class TextRecord(NamedTuple):
    """A text or a pair of texts, with or without a label."""

    file: str
    line: int  # where the row begins, from 1
    id: str  # of the file's id column, or the row's number from 0
    text: str
    text_pair: str | None
    label: str | tuple[str, ...] | None  # as the file spells it; a tuple for a list of labels

    @property
    def where(self) -> str:
        """The place in the file."""
        return f"{self.file}:{self.line}"


class TaggedRecord(NamedTuple):
    """A sentence of words, with or without a tag for each word."""

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
    """A question on a context that may hold its answer."""

    where: str  # the place in the file
    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]  # none where the question is impossible or the file has no answers
    is_impossible: bool


# Whole numbers with a fraction of zeros: tables write them in a column that also has missing values.
_WHOLE = re.compile(r"(-?)(0|[1-9]\d*)\.0+", re.ASCII)

# Numbers as programs write them. Numbers with leading zeros are codes.
_LARGEST = 1e18  # its square is finite in float32
_FINITE = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)  # float() reads 1_000, too
_NUMBER = re.compile(r"[-+]?(?!0\d)\d*\.?\d+([eE][-+]?\d+)?", re.ASCII)

# More different numbers than these are measurements, unless they number classes from 0 or 1.
MAX_NUMBERS = 50


def label_names(records: Sequence[TextRecord]) -> tuple[str, ...]:
    """The different labels of the records, sorted; whole numbers are sorted by value.

    Raises an InputError if a row has no label, all rows have the same, or the labels are for regression.
    """
    file, names = records[0].file, sorted({label_of(record) for record in records})
    if len(names) == 1:
        raise InputError(f"{file}: the only label is {names[0]!r}: there is nothing to learn")
    numbers = [name for name in names if _NUMBER.fullmatch(name)]
    if numbers and len(numbers) < len(names) and {"nan"}.issuperset(map(str.lower, {*names} - {*numbers})):
        raise InputError(f"{file}: the label 'nan' among numbers is a missing one: leave out its rows")
    if len(numbers) == len(names):
        values = sorted(map(float, names))
        fractions = [name for name in names if not float(name).is_integer()]
        is_numbered = values[0] in (0, 1) and values[-1] - values[0] == len(names) - 1  # each once
        if fractions or (len(names) > MAX_NUMBERS and not is_numbered):
            problem = f"{len(names)} labels such as {(fractions or names)[0]} look continuous"
            raise InputError(f"{file}: {problem}: train with `task` regression, or name classes such as c7")
    if all(name.removeprefix("-").isdecimal() for name in names):
        names.sort(key=int)
    return tuple(names)


def label_ids(labels_and_places: Iterable[tuple[str, str]], labels: Iterable[str]) -> list[int]:
    """The indices in `labels` of labels, which come with their places in a file.

    Raises an InputError that names the place of a label that is not in `labels`.
    """
    id_of = {label: number for number, label in enumerate(labels)}
    ids = []
    for label, where in labels_and_places:
        if label not in id_of:
            known = ", ".join(map(repr, id_of))
            raise InputError(
                f"{where}: label {shorten(label)} is none of {known}: correct it or train with it"
            )
        ids.append(id_of[label])
    return ids


def regression_labels(records: Sequence[TextRecord]) -> list[float]:
    """The labels as numbers; an InputError if one is missing or not a finite number."""
    values = []
    for record in records:
        label = record.label if isinstance(record.label, str) else ""
        value = float(label) if _FINITE.fullmatch(label) else math.nan
        if not math.isfinite(value):
            raise InputError(f"{record.where}: label {shorten(record.label)} is not a finite number")
        if abs(value) > _LARGEST:
            problem = f"label {shorten(record.label)} is beyond {_LARGEST:g}"
            raise InputError(f"{record.where}: {problem}: divide all labels by a number")
        values.append(value)
    return values


def tag_names(records: Sequence[TaggedRecord]) -> tuple[str, ...]:
    """The different tags, sorted, but "O" (no entity) first; an InputError if a sentence has no tags."""
    names = {tag for record in records for tag in tags_of(record)}
    return tuple(sorted(names, key=lambda name: (name != "O", name)))


def tags_of(record: TaggedRecord) -> tuple[str, ...]:
    """The tags of a sentence; an InputError with its place if it has none."""
    if record.tags is None:
        raise InputError(f"{record.where}: words without tags: a column of tags must be the last")
    return record.tags


def label_of(record: TextRecord) -> str:
    """The label of a row, as `normalize_label` spells it; an InputError with its place if it has none."""
    if not record.label or isinstance(record.label, tuple):
        raise InputError(f"{record.where}: the row has no label")
    return normalize_label(record.label)


def label_set(record: TextRecord) -> tuple[str, ...]:
    """The labels of a multi-label row, any number of them, as `normalize_label` spells them."""
    labels = (record.label,) if isinstance(record.label, str) else record.label or ()
    return tuple(dict.fromkeys(normalize_label(label) for label in map(str.strip, labels) if label))


def normalize_label(label: str) -> str:
    """The common spelling of a label: 1.0 becomes 1, True and TRUE become true; others stay unchanged."""
    if label in ("True", "TRUE", "False", "FALSE"):  # of Python and of spreadsheets
        return label.lower()
    match = _WHOLE.fullmatch(label)
    return label if match is None else str(int(match[1] + match[2]))


def check_forms(records: Sequence[TextRecord], takes_pairs: bool | None = None) -> bool:
    """Returns True if all records are pairs of texts, False if all are single texts.

    Raises an InputError that names the first record of another form than the model takes; if that is None,
    not known, of another form than the first record.
    """
    are_pairs = records[0].text_pair is not None if takes_pairs is None else takes_pairs
    for record in records:
        if (record.text_pair is not None) != are_pairs:
            forms = ("a single text", "a pair (text, text_pair)")[:: 1 if are_pairs else -1]
            other = "the first is" if takes_pairs is None else "the model takes"
            raise InputError(f"{record.file} holds {forms[0]}, and {other} {forms[1]}")
    return are_pairs


TEXTS_AT_ONCE = 1024

# Share of unknown tokens above which a vocabulary was likely made for other texts.
MAX_UNKNOWN = 0.05


class TokenizedTexts(NamedTuple):
    """R sequences of one or two segments (G), as spans of the tokens of all texts."""

    tokens: tf.Tensor  # of all texts, one after the other, int32 [T]
    starts: tf.Tensor  # index of the first token of each segment, int64 [R, G]
    lengths: tf.Tensor  # number of tokens of each segment, int32 [R, G]


@dataclasses.dataclass(frozen=True, eq=False)
class TokenizedExamples:
    """N examples, each a sequence of one or two segments (G), or C such sequences for C choices.

    A text is stored once, however many examples share it, such as a passage with several questions. See
    `TokenizedTexts` for tokens, starts and lengths. With choices starts and lengths are [N, C, G]; the starts
    of a choice that an example does not have are -1.
    """

    tokens: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    features: Mapping[str, np.ndarray]  # further tensors of a batch by name, [N] each
    vocabulary: Vocabulary
    token_labels: np.ndarray | None = None  # int32 [T], -1 for none; None if tokens have no labels
    dropped: np.ndarray | int = 0  # number of tokens of each example that were cut off before, int64 [N]
    records: np.ndarray | None = None  # record of each example, int32 [N], if examples are windows of records

    def __len__(self) -> int:
        """The number of examples, N."""
        return len(self.starts)

    @property
    def num_special_tokens(self) -> int:
        """The number of special tokens in a sequence."""
        return self.vocabulary.input_format.num_special_tokens(self.lengths.shape[-1])

    @property
    def sequence_lengths(self) -> np.ndarray:
        """The untrimmed length of each sequence with its special tokens, int64 [N, 1] or [N, C]."""
        lengths = self.lengths.sum(axis=-1, dtype=np.int64) + self.num_special_tokens
        return lengths.reshape(len(self), -1)


def examples_from_spans(
    spans: TokenizedTexts, vocabulary: Vocabulary, features: Mapping[str, np.ndarray], **further: Any
) -> TokenizedExamples:
    """Creates the examples of spans of tokens; `further` are further fields of `TokenizedExamples`."""
    tokens, starts, lengths = (tensor.numpy() for tensor in spans)
    return TokenizedExamples(tokens, starts, lengths, features, vocabulary, **further)


def truncation_report(rows: TokenizedExamples, seq_length: int, long: str | None = None) -> list[str]:
    """Log lines about empty texts, truncated tokens and unknown tokens. Rare cases have no line.

    `long` is the setting of task.json for texts that are too long.
    """
    lines = []
    lengths = rows.lengths
    if rows.records is not None:  # the first window of each
        lengths = lengths[np.unique(rows.records, return_index=True)[1]]
    empty = (lengths == 0).sum()
    if empty and lengths.ndim == 2:  # not choices, which share their texts
        lines.append(f"{empty:,} of {lengths.size:,} texts {'is' if empty == 1 else 'are'} empty")
    dropped = np.maximum(rows.sequence_lengths - seq_length, 0).sum(axis=1) + rows.dropped  # [N]
    if dropped.any():
        num_tokens = rows.lengths.sum(dtype=np.int64) + np.sum(rows.dropped)
        count, share = (dropped > 0).sum(), dropped.sum() / num_tokens
        are = "is longer" if count == 1 else "are longer"
        examples = f"{count:,} of {len(rows):,} example{'s' * (len(rows) > 1)} {are}"
        ends = "; the beginning and the end of each are read" if long == HEAD_TAIL else ""
        lines.append(f"{examples} than seq_length={seq_length}: {share:.1%} of all tokens are dropped{ends}")
    unknown = (rows.tokens == rows.vocabulary.special_ids.unknown).sum() / max(len(rows.tokens), 1)
    if unknown > MAX_UNKNOWN:
        language = "was it made for this language?"
        lines.append(f"{unknown:.1%} of all tokens are unknown to the vocabulary: {language}")
    return lines


@tf.autograph.experimental.do_not_convert
def tokenize_texts(tokenize: Callable[..., Any], *texts: Sequence[str], at_once: int = TEXTS_AT_ONCE) -> Any:
    """The tokens of texts, [texts, (tokens)]; it tokenises them in blocks of `at_once` texts.

    Args:
      tokenize: function of one or more tensors of texts, string [B], that returns a ragged tensor
        [B, (tokens)] or a tuple of them.
      *texts: one sequence for each argument of `tokenize`; at least one text.
      at_once: number of texts of a block, B.
    """
    with tf.device("CPU:0"):
        columns = tuple(tf.constant([utf8(text) for text in column], tf.string) for column in texts)
        if len(texts[0]) <= at_once:
            return tokenize(*columns)
        blocks = tf.data.Dataset.from_tensor_slices(columns).batch(at_once)
        tokens = list(without_autotuning(blocks.map(tokenize, tf.data.AUTOTUNE).prefetch(1)))
        if isinstance(tokens[0], tuple):
            return tuple(tf.concat(part, axis=0) for part in zip(*tokens, strict=True))
        return tf.concat(tokens, axis=0)


def row_lengths(texts: tf.RaggedTensor) -> tf.Tensor:
    """The number of tokens of each text, int32 [B]."""
    return tf.cast(texts.row_lengths(), tf.int32)


def concat_rows(texts: Sequence[tf.RaggedTensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Concatenates the tokens of groups of texts, int32 [T].

    It returns the index of the first token of each text, too: int64 [B] for each group.
    """
    starts, offset = [], tf.constant(0, tf.int64)
    for group in texts:
        starts.append(offset + tf.cast(group.row_starts(), tf.int64))
        offset += tf.size(group.flat_values, tf.int64)
    return tf.concat([group.flat_values for group in texts], axis=0), starts


def utf8(text: str) -> bytes:
    """Encodes a text as UTF-8; lone surrogates, which JSON may hold, become ?."""
    return text.encode("utf-8", "replace")


def character_offsets(text: str, byte_offsets: Any) -> np.ndarray:
    """Converts offsets in a text from UTF-8 bytes to characters, int64 of the same shape.

    >>> character_offsets("für", [1, 3]).tolist()
    [1, 2]
    """
    text_bytes = np.frombuffer(utf8(text), np.uint8)
    is_first_byte = np.append((text_bytes & 0xC0) != 0x80, True)
    return np.cumsum(is_first_byte)[np.array(byte_offsets, np.int64)] - 1
