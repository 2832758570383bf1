"""Teachers, settings of students, and one student that many tests look at."""

import pytest

from albert_tf.finetuning.distill import Distillation, TaskDistillation, distill
from albert_tf.finetuning.task_table import task_entries
from albert_tf.runs.build_model import build_model
from albert_tf.tasks.columns import TABLE, Columns
from albert_tf.training.compute_settings import LoopSettings
from tests.albert_tf.distillation.runs import BERT, RECIPE, STUDENT
from tests.albert_tf.finetuning.runs import LOOP
from tests.albert_tf.finetuning.runs import RECIPE as TASK_RECIPE
from tests.albert_tf.pretraining.runs import settings_factory


@pytest.fixture(scope="session")
def teacher_of(run_of, tiny_vocabulary):
    """A run of a network with a head, whose variables all differ."""
    return lambda config, task: run_of(build_model(config, task), tiny_vocabulary, task)


@pytest.fixture(scope="session")
def teacher(teacher_of):
    """A small BERT."""
    return teacher_of(BERT, {"model": "pretrainer", "sentence_objective": "nsp"})


@pytest.fixture(scope="session")
def taught(teacher, tiny_corpus, tiny_vocabulary, tmp_path_factory):
    """Settings of a student of six updates, some of them changed."""
    return settings_factory(
        tmp_path_factory,
        Distillation,
        teacher=teacher,
        config=STUDENT,
        recipe=RECIPE,
        train=[str(tiny_corpus)],
        eval=[str(tiny_corpus)],
        vocabulary=tiny_vocabulary,
        loop=LoopSettings(log_every=2, eval_every=3, checkpoint_every=3),
    )


@pytest.fixture(scope="session")
def student(taught):
    """A student of six updates without interruption."""
    made = taught()
    distill(made)
    return made.output


@pytest.fixture(scope="session")
def task_teacher(teacher_of, own_table):
    """A small BERT with a head for the labels of the table."""
    columns = Columns("text", None, "kind")
    entries = task_entries("classification", TABLE.read(own_table, True, columns), 32, columns)
    return teacher_of(BERT, entries)


@pytest.fixture(scope="session")
def task_taught(task_teacher, own_table, tmp_path_factory):
    """Settings of a student of a task, of six updates, some of them changed."""
    return settings_factory(
        tmp_path_factory,
        TaskDistillation,
        teacher=task_teacher,
        task="classification",
        train=own_table,
        eval=own_table,
        columns=Columns("text", None, "kind"),
        config=STUDENT,
        recipe=TASK_RECIPE,
        loop=LOOP,
    )
