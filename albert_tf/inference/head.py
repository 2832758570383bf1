"""The head that a classifier begins with: that of the run whose weights it takes, or a new one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from albert_tf.checkpoints.models import arguments_of
from albert_tf.features import FIRST
from albert_tf.tokenizers.given import check_text, listed
from albert_tf.utils.errors import InputError, shown

HEAD_VARIABLES = ("classifier/output_weights", "classifier/output_bias")


def label_names(labels: Any) -> list[str]:
    """Names of labels as a list; InputError unless they are at least two different ones."""
    given = [] if isinstance(labels, str) else listed(labels)
    names = [check_text(name, f"labels[{number}]") for number, name in enumerate(given)]
    if not 2 <= len(names) == len(set(names)):
        raise InputError(f"labels={shown(labels)}: labels must be a list of at least two different names")
    return names


def chosen_head(
    task: Mapping[str, Any],
    origin: str | os.PathLike[str],
    num_labels: int | None,
    labels: Sequence[str] | None,
    pooling: str | None,
) -> tuple[dict[str, Any], bool]:
    """The entries of task.json for the head that is asked for, and True if it is the run's own.

    Args:
      task: content of the run's task.json.
      origin: name of the run in messages.
      num_labels: K; None: as many as `labels`, or those of the run.
      labels: their names, in the order of the logits; None: those of the run if it has as many.
      pooling: None: as the run's head.
    """
    if labels is not None:
        labels = label_names(labels)
    there = task if task["model"] == "classifier" else {}
    if labels is None and num_labels in (None, there.get("num_labels")):
        labels = there.get("labels")
    if num_labels is None:
        num_labels = there.get("num_labels") if labels is None else len(labels)
    if num_labels is None:
        raise InputError(
            f"num_labels is missing: {origin} is not of a classifier: say it, or name the labels"
        )
    pooling = pooling or there.get("pooling", FIRST)
    head = {"model": "classifier", "num_labels": num_labels, "pooling": pooling, "labels": labels}
    is_same = bool(there) and arguments_of(head) == arguments_of(there)
    is_kept = is_same and there.get("labels") in (None, labels)
    if there and not is_kept:
        message = "%s has a head of %s, labels %s, which is left: that of %s, labels %s, begins at random"
        found = arguments_of(there), there.get("labels"), arguments_of(head), labels
        logging.warning(message, origin, *found)
    return head, is_kept
