"""Fine-tuning with a teacher: where the student begins, how it goes on, what is refused."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning import finetune as finetuning
from albert_tf.finetuning.distill import distill, distill_task, read_teacher
from albert_tf.finetuning.evaluation import evaluate_trained
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.finetuning.task_table import task_entries
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.tasks.columns import TABLE, Columns
from albert_tf.training.compute_settings import ComputeConfig
from tests.albert_tf.distillation.runs import BERT, STUDENT
from tests.albert_tf.finetuning.runs import RECIPE
from tests.albert_tf.pretraining.runs import metrics, weights
from tests.albert_tf.training.toy import dying_after


@pytest.fixture(scope="module")
def student(task_taught):
    """A student of six updates without interruption."""
    made = task_taught()
    distill_task(made)
    return made.output


def test_a_student_begins_with_layers_and_head_of_the_teacher(task_teacher, task_taught, begun, monkeypatch):
    monkeypatch.setattr(finetuning, "final_lines", lambda *_: [])
    after, before = begun(distill_task, finetuning, task_taught(), []), weights(task_teacher)
    assert "classifier/output_weights:0" in after
    for name, value in after.items():
        if not name.startswith("pooler/"):  # of another activation, as DistilBERT has it
            np.testing.assert_array_equal(value, before[name.replace("/group_1/", "/group_2/")], err_msg=name)


def test_a_student_of_fewer_layers_begins_with_its_teacher(task_teacher, task_taught, begun, monkeypatch):
    monkeypatch.setattr(finetuning, "final_lines", lambda *_: [])
    made = dataclasses.replace(task_taught(), config=None, vocabulary=None, num_hidden_layers=1)
    after, before = begun(distill_task, finetuning, made, []), weights(task_teacher)
    assert {name for name in before if "/group_" not in name or "/group_0/" in name} == after.keys()
    for name, value in after.items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


def test_logits_of_a_teacher_are_in_the_order_of_the_students_labels(task_teacher):
    run = RunDirectory(task_teacher)
    batch, labels = {"input_word_ids": tf.constant([[2, 9, 8, 3], [2, 7, 3, 0]])}, run.task["labels"]
    own, other = (
        read_teacher(run, ComputeConfig(), order)(batch)["logits"] for order in (labels, labels[::-1])
    )
    np.testing.assert_array_equal(other, own.numpy()[:, ::-1])
    assert np.ptp(own) > 0


def test_run_directory_of_a_student(student, table):
    recipe = json.loads((student / "recipe.json").read_text())
    assert [recipe[name] for name in ("temperature", "soft_weight", "label_weight")] == [2, 0.5, 0.5]
    training = [line for line in metrics(student) if "loss" in line]
    assert [line["step"] for line in training] == [2, 4, 6]
    for line in training:
        np.testing.assert_allclose(line["loss"], (line["soft_loss"] + line["label_loss"]) / 2, rtol=1e-6)
    assert 0 <= evaluate_trained(student, file=table).figures["accuracy"] <= 1


@pytest.mark.slow
def test_a_resumed_student_ends_with_the_same_weights(student, task_taught):
    stopped = task_taught()
    with dying_after(3):
        distill_task(stopped, lambda line: None)
    distill_task(stopped, lambda line: None)
    np.testing.assert_equal(weights(stopped.output), weights(student))


def test_a_student_goes_on_with_its_teacher_alone(student, task_teacher, task_taught):
    made = task_taught(student)
    alone = {field.name: getattr(made, field.name) for field in dataclasses.fields(Finetuning)}
    with pytest.raises(InputError, match="teacher_sha256"):
        finetune(Finetuning(**{**alone, "config": None, "init_from": task_teacher}))


def test_what_no_student_can_learn_is_refused(teacher, teacher_of, task_taught, table):
    numbers = Columns("text", None, "length")
    entries = task_entries("regression", TABLE.read(table, True, numbers), 32, numbers)
    others = {**entries, "task": "classification", "labels": ["speech", "song"], "num_labels": 2}
    for changes, named in (
        ({"task": "tagging", "columns": None}, "task='tagging' has no soft labels"),
        ({"teacher": teacher}, f"{teacher} is pre-trained only"),
        ({"teacher": teacher_of(BERT, entries)}, "fine-tuned for regression and not for classification"),
        ({"teacher": teacher_of(BERT, others)}, "labels"),
        ({"config": STUDENT.replace(max_position_embeddings=80)}, "max_position_embeddings=80"),
        ({"config": None, "init_from": None}, "config"),
    ):
        with pytest.raises(InputError, match=named):
            distill_task(task_taught(**changes))


@pytest.mark.slow
def test_scores_of_a_teacher_from_a_pretrained_student(teacher_of, taught, table, task_taught, tmp_path):
    """A regression, from a run of the student's own, whose head is fresh."""
    numbers = Columns("text", None, "length")
    entries = task_entries("regression", TABLE.read(table, True, numbers), 32, numbers)
    pretrained = taught()
    distill(pretrained, lambda line: None)
    made = task_taught(
        teacher=teacher_of(BERT, entries), task="regression", columns=numbers, config=None,
        init_from=pretrained.output, recipe={**RECIPE, "steps": 30},
    )  # fmt: skip
    distill_task(made, lambda line: None)
    losses = [line["soft_loss"] for line in metrics(made.output) if "soft_loss" in line]
    assert losses[-1] < losses[0]


def test_a_student_reads_long_texts_in_windows(task_taught):
    recipe = {**RECIPE, "seq_length": 16, "steps": 2, "long": "windows", "window_pooling": "max"}
    made = task_taught(recipe=recipe, questions={"doc_stride": 7})
    distill_task(made)
    task = json.loads((made.output / "task.json").read_text())
    assert (task["long"], task["doc_stride"], task["window_pooling"]) == ("windows", 7, "max")
    soft = [line["soft_loss"] for line in metrics(made.output) if "soft_loss" in line]
    assert np.isfinite(soft).all() and len(soft) == 1
