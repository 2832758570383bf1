"""Texts and pairs of texts as rows of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.tasks.examples.records import TextRecord
from albert_tf.tasks.examples.rows import TokenRows, framing, row_lengths, tokenised
from albert_tf.tokenizers.given import check_text
from albert_tf.tokenizers.kinds import TextTokenizer
from albert_tf.utils.errors import InputError, shown

# Entry of task.json, of a run that names no columns.
PAIRS_KEY = "takes_pairs"

# Runs of GLUE's tasks do not say it themselves.
_GLUE = {
    **dict.fromkeys(("cola", "sst-2"), False),
    **dict.fromkeys(("mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli", "ax"), True),
}


def takes_pairs(config: Mapping[str, Any]) -> bool | None:
    """True if a task.json is of a model that learned pairs of texts, None if it does not say."""
    if PAIRS_KEY in config:
        return bool(config[PAIRS_KEY])
    if config.get("columns"):
        return config["columns"].get("text_pair") is not None
    return _GLUE.get(config.get("task", ""))


def text_rows(
    records: Sequence[TextRecord],
    tokenizer: TextTokenizer,
    features: Mapping[str, np.ndarray],
) -> TokenRows:
    """The text, or the text and its pair, of each record; not trimmed yet.

    Args:
      records: all with a second text, or all without.
      tokenizer: text to token ids.
      features: as in TokenRows.
    """
    segments = [tokenised(tokenizer, [record.text for record in records])]
    if records[0].text_pair is not None:
        segments.append(tokenised(tokenizer, [record.text_pair or "" for record in records]))
    tokens, starts = joined(segments)
    lengths = [row_lengths(segment) for segment in segments]
    return TokenRows(
        tokens.numpy(),
        tf.stack(starts, axis=-1).numpy(),
        tf.stack(lengths, axis=-1).numpy(),
        features,
        **framing(tokenizer.vocabulary),
    )


def joined(texts: Sequence[tf.RaggedTensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """All tokens one after the other, int32 [T], and where each group's texts start there, int64 [B]."""
    starts, before = [], tf.constant(0, tf.int64)
    for group in texts:
        starts.append(before + tf.cast(group.row_starts(), tf.int64))
        before += tf.size(group.flat_values, tf.int64)
    return tf.concat([group.flat_values for group in texts], axis=0), starts


def read_text(value: Any, where: str) -> TextRecord:
    """A text, or a pair: a tuple or list of two, or a dict of `text` and `text_pair`."""
    pair = None
    if isinstance(value, Mapping):
        value = check_fields(value, ("text", "text_pair") if "text_pair" in value else ("text",), where)
    if isinstance(value, tuple | list):
        if len(value) not in (1, 2):
            raise InputError(f"{where}={shown(value)} is not a pair of texts")
        pair = check_text(value[1], f"{where}[1]") if len(value) == 2 else None
        value = value[0]
    return TextRecord(where, 1, where, check_text(value, where), pair, None)


def check_fields(value: Any, names: Sequence[str], where: str) -> tuple[str, ...]:
    """Texts of a dict by their names.

    Raises:
      InputError: it is no such dict.
    """
    if not isinstance(value, Mapping) or not value.keys() >= set(names):
        raise InputError(f"{where}={shown(value)} is not a dict of {', '.join(names)}")
    return tuple(check_text(value[name], f"{where}[{name!r}]") for name in names)
