"""What pipelines are asked: a text, a pair, a question, and what each task takes of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.data.tasks.records import ChoiceRecord, QuestionRecord, TaggedRecord, TextRecord
from albert_tf.errors import InputError, shown
from albert_tf.text.given import check_text
from albert_tf.text.vocabulary import MASK

PAIR = ("text", "text_pair")


class TaggedText(NamedTuple):
    """A text, its words, and the first character of each."""

    text: str
    record: TaggedRecord
    starts: tuple[int, ...]


def read_text(value: Any, where: str) -> TextRecord:
    """A text, or a pair: a tuple or list of two, or a dict of `text` and `text_pair`."""
    pair = None
    if isinstance(value, Mapping):
        value = _fields(value, PAIR if "text_pair" in value else PAIR[:1], where)
    if isinstance(value, tuple | list):
        if len(value) not in (1, 2):
            raise InputError(f"{where}={shown(value)} is not a pair of texts")
        pair = check_text(value[1], f"{where}[1]") if len(value) == 2 else None
        value = value[0]
    return TextRecord(where, 1, where, check_text(value, where), pair, None)


def read_masked(value: Any, where: str) -> TextRecord:
    """A text with masks in it."""
    text = check_text(value, where)
    if MASK not in text:
        raise InputError(f"{where}={shown(text)} has no {MASK}: it stands for what is to be filled in")
    return TextRecord(where, 1, where, text, None, None)


def read_words(value: Any, where: str) -> TaggedText:
    """A text as its words, which are what stands between spaces."""
    text = check_text(value, where)
    words = list(re.finditer(r"\S+", text))
    record = TaggedRecord(where, 1, tuple(word.group() for word in words), None)
    return TaggedText(text, record, tuple(word.start() for word in words))


def read_question(value: Any, where: str) -> QuestionRecord:
    """A dict of `question` and `context`."""
    question, context = _fields(value, ("question", "context"), where)
    return QuestionRecord(where, where, question, context, (), False)


def read_choice(value: Any, where: str) -> ChoiceRecord:
    """A dict of `context`, `question` and `options`."""
    options = value.get("options") if isinstance(value, Mapping) else None
    if isinstance(value, Mapping) and (isinstance(options, str) or not isinstance(options, Sequence)):
        raise InputError(f"{where}['options']={shown(options)} is not a list of texts")
    context, question = _fields(value, ("context", "question"), where)
    texts = [check_text(option, f"{where}['options'][{n}]") for n, option in enumerate(options or ())]
    return ChoiceRecord(where, where, "", context, question, tuple(texts), None)


def _fields(value: Any, names: Sequence[str], where: str) -> tuple[str, ...]:
    if not isinstance(value, Mapping) or not value.keys() >= set(names):
        raise InputError(f"{where}={shown(value)} is not a dict of {', '.join(names)}")
    return tuple(check_text(value[name], f"{where}[{name!r}]") for name in names)


READERS: dict[str, Callable[[Any, str], Any]] = {
    "fill_mask": read_masked,
    "classification": read_text,
    "regression": read_text,
    "question_answering": read_question,
    "tagging": read_words,
    "multiple_choice": read_choice,
}
