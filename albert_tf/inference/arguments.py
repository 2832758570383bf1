"""Arguments of `pipeline`: a source and a task, in this package's order and words or Hugging Face's."""

from __future__ import annotations

from typing import Any

from albert_tf.tasks import KINDS
from albert_tf.utils.errors import InputError, shown

# Kinds of tasks by a name: this package's, or Hugging Face's.
TASKS: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in KINDS},
    "text-classification": ("classification", "regression"),
    "sentiment-analysis": ("classification",),
    "fill-mask": ("fill_mask",),
    "question-answering": ("question_answering",),
    "token-classification": ("tagging",),
    "ner": ("tagging",),
    "multiple-choice": ("multiple_choice",),
}


def source_and_task(source: Any, task: Any, model: Any) -> tuple[Any, str | None]:
    """The source and the task, whichever came first and whatever they were called.

    Args:
      source: the first argument; a task if the second, or `model`, is the source.
      task: the second argument.
      model: another name of the source.
    Raises:
      InputError: there are two of one, or the task is unknown.
    """
    if _is_task(source) and (model is not None or task is not None) and not _is_task(task):
        source, task = task, source
    if source is not None and model is not None:
        raise InputError(f"source={shown(source)} and model={shown(model)}: name one of them")
    source = model if source is None else source
    if task is not None and not _is_task(task):
        raise InputError(f"task={shown(task)} is none of {', '.join(TASKS)}")
    return source, task


def _is_task(value: Any) -> bool:
    return isinstance(value, str) and value in TASKS
