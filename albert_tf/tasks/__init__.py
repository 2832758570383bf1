"""Kinds of tasks, a module each: records, encoding, loss, decoding, metrics and answers."""

from __future__ import annotations

from albert_tf.errors import InputError
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.masked_words import MaskedWords
from albert_tf.tasks.multi_label import MultiLabel
from albert_tf.tasks.multiple_choice import MultipleChoice
from albert_tf.tasks.question_answering import QuestionAnswering
from albert_tf.tasks.regression import Regression
from albert_tf.tasks.tagging import Tagging
from albert_tf.tasks.task import Task, TaskConfig

__all__ = ["TASK_CLASSES", "Task", "TaskConfig", "create_task"]

# A further kind of task is one more module and one more entry.
_KINDS = MaskedWords, Classification, MultiLabel, Regression, Tagging, QuestionAnswering, MultipleChoice
TASK_CLASSES: dict[str, type[Task]] = {kind.name: kind for kind in _KINDS}


def create_task(config: TaskConfig) -> Task:
    """The kind of task of a model, by the content of task.json; an InputError if it has no head for one."""
    if config.get("model") == Classification.model:  # which are of several kinds
        single = Regression if config["num_labels"] == 1 else Classification
        return MultiLabel(config) if config.get("multi_label") else single(config)
    for kind in _KINDS:
        if kind.model == config.get("model"):
            return kind(config)
    what = f"a model of the kind {config.get('model')!r} has no head that answers"
    raise InputError(f'{what}: fine-tune it, or ask `pipeline` for "feature-extraction"')
