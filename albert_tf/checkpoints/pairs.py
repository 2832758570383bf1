"""Single texts or pairs of them: what a classifier learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What task.json has of a run that names no columns.
PAIRS_KEY = "takes_pairs"

# Runs of GLUE's tasks do not say it themselves.
_GLUE = {
    **dict.fromkeys(("cola", "sst-2"), False),
    **dict.fromkeys(("mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli", "ax"), True),
}


def takes_pairs(task: Mapping[str, Any]) -> bool | None:
    """True if a task.json is of a model that learned pairs of texts, None if it does not say."""
    if PAIRS_KEY in task:
        return bool(task[PAIRS_KEY])
    if task.get("columns"):
        return task["columns"].get("text_pair") is not None
    return _GLUE.get(task.get("task", ""))
