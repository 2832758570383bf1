"""Records, one an example, each with the place in its file that errors name."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from albert_tf.errors import InputError, shorten


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
        try:
            score = float(label_of(record))
        except ValueError:  # no label, too
            score = math.nan
        if not math.isfinite(score):
            raise InputError(f"{record.where}: label {shorten(record.label)} is not a finite number")
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
