"""Runs of tasks that nobody has trained."""

import pytest

import albert_tf
from albert_tf.finetuning.task_table import task_entries


@pytest.fixture
def saved(tiny_model, tiny_vocabulary, tmp_path):
    """A run of a task that has learnt nothing and answers this and that."""

    def make(task, records=(), seq_length=48, columns=None, questions=None):
        entries = task_entries(task, records, seq_length, columns, questions)
        folder = tmp_path / f"run of {task}"
        recipe = {"made_by": "a test"}  # with which the vocabulary's SHA-256 is written
        albert_tf.save(tiny_model(entries), folder, tiny_vocabulary, task=entries, recipe=recipe)
        return folder

    return make
