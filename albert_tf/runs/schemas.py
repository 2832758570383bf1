"""Schemas of a run's JSON files: a check for each entry, applied when a file is read."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

from albert_tf.constants import POOLINGS, SENTENCE_OBJECTIVES, WORDS_CHOICES
from albert_tf.errors import (
    Check,
    InputError,
    check_count,
    check_entries,
    make_check,
    make_list_check,
    make_object_check,
    shorten,
)
from albert_tf.recipes import LongTexts, QuestionSettings
from albert_tf.settings import COUNT, field_check
from albert_tf.text.files import check_identities

_TEXT, _FLAG, _OBJECT = make_check("str"), make_check("bool"), make_check("Mapping")
_COUNT = make_check("int", **COUNT)
_SHARE = make_check("float", at_least=0, at_most=1)
_NAME_OR_NULL, _COUNT_OR_NULL = make_check("str | None"), make_check("int | None", at_least=0)


def _check_labels(name: str, value: Any) -> None:
    """Raises InputError unless a value is a list of different, non-empty texts."""
    make_list_check(_TEXT)(name, value)
    if blank := [label for label in value if not label.strip()]:
        raise InputError(f"{name}[{value.index(blank[0])}]={blank[0]!r} is empty: each label has a name")
    label, count = next(iter(collections.Counter(value).most_common(1)), ("", 0))
    if count > 1:
        raise InputError(f"{name}: {shorten(label)} is there twice: each label has a name of its own")


def _check_columns(name: str, value: Any) -> None:
    """Raises InputError unless a value maps the roles of columns to their names."""
    optional = ("text_pair", "label", "id", "label_separator")
    make_object_check({"text": _TEXT}, dict.fromkeys(optional, _NAME_OR_NULL))(name, value)
    if unknown := value.keys() - {"text", *optional}:
        raise InputError(f"{name}: {shorten(min(unknown))} is unknown")


def _check_figures(name: str, value: Any) -> None:
    """Raises InputError unless a value maps names to numbers."""
    _OBJECT(name, value)
    check_entries(value, dict.fromkeys(value, make_check("float | None")), f"{name}.")


def _or_null(check: Check) -> Check:
    return lambda name, value: None if value is None else check(name, value)


# Names of models and tasks are checked where they are used, and models' options by `arguments_of`.
TASK_SCHEMA: dict[str, Check] = {
    **{
        field.name: field_check(field)
        for kind in (QuestionSettings, LongTexts)
        for field in dataclasses.fields(kind)
    },
    **dict.fromkeys(("num_labels", "num_choices", "seq_length"), _COUNT),
    **dict.fromkeys(("multi_label", "takes_pairs"), _FLAG),
    **dict.fromkeys(("best_by", "model", "task"), _TEXT),
    "columns": _check_columns,
    "labels": _check_labels,
    "pooling": make_check("str", POOLINGS),
    "sentence_objective": make_check("str", SENTENCE_OBJECTIVES),
    "threshold": _SHARE,
    "words": make_check("str", WORDS_CHOICES),
}

_HELD_OUT = make_object_check({"of": _TEXT, "begin": _SHARE, "end": _SHARE, "what": _TEXT})

# Only entries that are read later. Hyper-parameters are checked by their dataclasses.
RECIPE_SCHEMA: dict[str, Check] = {
    **dict.fromkeys(("command", "vocabulary"), _TEXT),
    **dict.fromkeys(("init_from", "init_from_sha256"), _NAME_OR_NULL),
    **dict.fromkeys(("eval_since", "steps", "trained_positions", "warmup_steps"), _COUNT_OR_NULL),
    **dict.fromkeys(("eval_files", "train_files"), _or_null(check_identities)),
    "chosen_threshold": make_object_check(
        {"step": check_count, "eval_sha256": _OBJECT, "figures": _check_figures}
    ),
    "held_out": _or_null(_HELD_OUT),
    "xla": make_check("bool | None"),
}


def check_task(task: Mapping[str, Any]) -> None:
    """Raises InputError if an entry of task.json is impossible, or two entries contradict each other."""
    check_entries(task, TASK_SCHEMA)
    count, labels = task.get("num_labels"), task.get("labels")
    if count is not None and labels is not None and len(labels) != count:
        raise InputError(f"labels={shorten(labels)}: {len(labels)} names for num_labels={count}")
    if "threshold" in task and not task.get("multi_label") and count != 2:
        raise InputError(f"threshold={task['threshold']}: it is between two labels, and num_labels={count}")
