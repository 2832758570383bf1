"""Tasks, one module for each: records, encoding, loss, predictions, metrics and serving."""

from __future__ import annotations

from albert_tf.errors import InputError
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.masked_words import MaskedWords
from albert_tf.tasks.multi_label import MultiLabel
from albert_tf.tasks.multiple_choice import MultipleChoice
from albert_tf.tasks.question_answering import QuestionAnswering
from albert_tf.tasks.regression import Regression
from albert_tf.tasks.tagging import Tagging
from albert_tf.tasks.task import Task, TaskEntries

__all__ = ["TASK_CLASSES", "Task", "TaskEntries", "create_task"]

# To add a task, add a module and an entry here.
TASK_CLASSES: dict[str, type[Task]] = {
    task_class.name: task_class
    for task_class in (
        *(MaskedWords, Classification, MultiLabel, Regression),
        *(Tagging, QuestionAnswering, MultipleChoice),
    )
}


def create_task(entries: TaskEntries) -> Task:
    """Creates the task of a model from the content of task.json; an InputError if the model has no task."""
    if entries.get("model") == Classification.model_kind:  # several tasks have this model
        single = Regression if entries["num_labels"] == 1 else Classification
        return MultiLabel(entries) if entries.get("multi_label") else single(entries)
    for task_class in TASK_CLASSES.values():
        if task_class.model_kind == entries.get("model"):
            return task_class(entries)
    what = f"a model of the kind {entries.get('model')!r} has no head that answers"
    raise InputError(f'{what}: fine-tune it, or ask `pipeline` for "feature-extraction"')
