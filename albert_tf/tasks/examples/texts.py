"""Texts and pairs of texts as rows of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.tasks.datasets.glue import GLUE
from albert_tf.tasks.examples.records import TextRecord
from albert_tf.tasks.examples.rows import Spans, TokenRows, joined, row_lengths, token_rows, tokenised
from albert_tf.tokenizers.given import check_text
from albert_tf.tokenizers.kinds import TextTokenizer
from albert_tf.utils.errors import InputError, shown

# Entry of task.json, of a run that names no columns.
PAIRS_KEY = "takes_pairs"


def takes_pairs(config: Mapping[str, Any]) -> bool | None:
    """True if a task.json is of a model that learned pairs of texts, None if it does not say."""
    if PAIRS_KEY in config:
        return bool(config[PAIRS_KEY])
    if config.get("columns"):
        return config["columns"].get("text_pair") is not None
    task = config.get("task")
    return GLUE[task].columns.text_pair is not None if task in GLUE else None


def text_rows(
    records: Sequence[TextRecord], tokenizer: TextTokenizer, features: Mapping[str, np.ndarray]
) -> TokenRows:
    """The text, or the text and its pair, of records that all have one or all have none; not trimmed yet."""
    segments = [tokenised(tokenizer, [record.text for record in records])]
    if records[0].text_pair is not None:
        segments.append(tokenised(tokenizer, [record.text_pair or "" for record in records]))
    tokens, starts = joined(segments)
    lengths = [row_lengths(segment) for segment in segments]
    spans = Spans(tokens, tf.stack(starts, axis=-1), tf.stack(lengths, axis=-1))
    return token_rows(spans, tokenizer.vocabulary, features)


def read_text(value: Any, where: str) -> TextRecord:
    """A text, or a pair: a tuple or list of two, or a dict of `text` and `text_pair`."""
    if isinstance(value, Mapping):
        value = check_fields(value, ("text", "text_pair") if "text_pair" in value else ("text",), where)
    texts = value if isinstance(value, tuple | list) else [value]
    if len(texts) not in (1, 2):
        raise InputError(f"{where}={shown(value)} is not a pair of texts")
    text, pair = check_text(texts[0], where), None
    if len(texts) == 2:
        pair = check_text(texts[1], f"{where}[1]")
    return TextRecord(where, 1, where, text, pair, None)


def check_fields(value: Any, names: Sequence[str], where: str) -> tuple[str, ...]:
    """Texts of a dict by their names; an InputError where it is no such dict."""
    if not isinstance(value, Mapping) or not value.keys() >= set(names):
        raise InputError(f"{where}={shown(value)} is not a dict of {', '.join(names)}")
    return tuple(check_text(value[name], f"{where}[{name!r}]") for name in names)
