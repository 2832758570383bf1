"""Teachers, settings of students, and one student that many tests look at."""

import numpy as np
import pytest

import albert_tf
from albert_tf.finetuning.distill import Distillation, TaskDistillation, distill
from albert_tf.finetuning.task_table import task_entries
from albert_tf.runs.build_model import build_model
from albert_tf.settings import replace_fields
from albert_tf.tasks.columns import TABLE, Columns
from albert_tf.training.compute_settings import LoopSettings
from tests.albert_tf.distillation.runs import BERT, RECIPE, STUDENT
from tests.albert_tf.finetuning.runs import LOOP, ROWS
from tests.albert_tf.finetuning.runs import RECIPE as TASK_RECIPE
from tests.tiny import write_jsonl


@pytest.fixture
def begun(monkeypatch):
    """The weights by name that a student would be trained from."""

    def make(program, module, settings, lines):
        trainings = []
        monkeypatch.setattr(module, "train", lambda run, training, *_, **__: trainings.append(training))
        program(settings, lines.append)
        return {variable.name: variable.numpy() for variable in trainings[0].model.variables}

    return make


@pytest.fixture(scope="session")
def teacher_of(tiny_vocabulary, tmp_path_factory):
    """A run of a model whose variables all differ, LayerNorms too."""

    def make(config, task):
        model = build_model(config, task)
        generator = np.random.default_rng(4)
        for variable in model.variables:
            variable.assign(generator.normal(0, 0.3, variable.shape))
        run = tmp_path_factory.mktemp("teacher") / "run"
        albert_tf.save(model, run, tiny_vocabulary, step=3, task=task)
        return run

    return make


@pytest.fixture(scope="session")
def teacher(teacher_of):
    """A small BERT."""
    return teacher_of(BERT, {"model": "pretrainer", "sentence_objective": "nsp"})


@pytest.fixture(scope="session")
def taught(teacher, tiny_corpus, tiny_vocabulary, tmp_path_factory):
    """Settings of a student of six updates, some of them changed."""

    def make(output=None, **changes) -> Distillation:
        made = Distillation(
            output=output or tmp_path_factory.mktemp("distill") / "run",
            teacher=teacher,
            config=STUDENT,
            recipe=RECIPE,
            train=[str(tiny_corpus)],
            eval=[str(tiny_corpus)],
            vocabulary=tiny_vocabulary,
            loop=LoopSettings(log_every=2, eval_every=3, checkpoint_every=3),
        )
        return replace_fields(made, **changes)

    return make


@pytest.fixture(scope="session")
def student(taught):
    """A student of six updates without interruption."""
    made = taught()
    distill(made)
    return made.output


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """Sentences with two labels and a number, as JSON lines."""
    return write_jsonl(tmp_path_factory.mktemp("table") / "rows.jsonl", ROWS)


@pytest.fixture(scope="session")
def task_teacher(teacher_of, table):
    """A small BERT with a head for the labels of the table."""
    columns = Columns("text", None, "kind")
    entries = task_entries("classification", TABLE.read(table, True, columns), 32, columns)
    return teacher_of(BERT, entries)


@pytest.fixture(scope="session")
def task_taught(task_teacher, table, tmp_path_factory):
    """Settings of a student of a task, of six updates, some of them changed."""

    def make(output=None, **changes) -> TaskDistillation:
        made = TaskDistillation(
            output=output or tmp_path_factory.mktemp("distill_task") / "run",
            teacher=task_teacher,
            task="classification",
            train=table,
            eval=table,
            columns=Columns("text", None, "kind"),
            config=STUDENT,
            recipe=TASK_RECIPE,
            loop=LOOP,
        )
        return replace_fields(made, **changes)

    return make
