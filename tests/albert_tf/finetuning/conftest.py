"""What fine-tuned runs of a tiny network need, and one of them that many tests look at."""

import shutil

import pytest

import albert_tf
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.finetuning.task_table import task_entries
from albert_tf.settings import replace_fields
from albert_tf.tasks.columns import Columns
from tests.albert_tf.finetuning.runs import CONFIG, LOOP, RECIPE, ROWS
from tests.tiny import write_jsonl


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


@pytest.fixture(scope="session")
def own_table(made_once):
    """A table of sentences with two labels and a number, as JSON lines."""

    def write(folder):
        folder.mkdir()
        write_jsonl(folder / "own.jsonl", ROWS)

    return made_once("own", write) / "own.jsonl"


@pytest.fixture(scope="session")
def asked(own_table, tiny_vocabulary, tmp_path_factory):
    """Settings of a run of six updates, some of them changed."""

    def make(output=None, **changes) -> Finetuning:
        made = Finetuning(
            output=output or tmp_path_factory.mktemp("finetune") / "run",
            task="classification",
            train=own_table,
            eval=own_table,
            columns=Columns("text", None, "kind"),
            config=CONFIG,
            vocabulary=tiny_vocabulary,
            recipe=RECIPE,
            loop=LOOP,
        )
        return replace_fields(made, **changes)

    return make


@pytest.fixture(scope="session")
def finetuned(asked, made_once, tmp_path_factory):
    """A run of six updates without interruption, of which each process has a copy."""
    made = made_once("finetuned", lambda folder: finetune(asked(folder)))
    return shutil.copytree(made, tmp_path_factory.mktemp("finetuned") / "run")
