"""Fine-tuning with a teacher: where the student begins, how it goes on, what is refused."""

import dataclasses
import gzip
import json

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.errors import InputError
from albert_tf.finetuning.data import read_unlabelled
from albert_tf.finetuning.distill import distill, distill_task, load_teacher
from albert_tf.finetuning.evaluation import evaluate_finetuned
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.finetuning.task_table import TASK_SPECS, task_entries
from albert_tf.runs.build_model import build_model
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.tasks.columns import TABLE, Columns
from albert_tf.training.compute_settings import ComputeConfig
from tests.albert_tf.distillation.runs import BERT, STUDENT
from tests.albert_tf.finetuning.runs import RECIPE, ROWS, SENTENCES
from tests.albert_tf.pretraining.runs import metrics, weights, weights_of
from tests.albert_tf.training.toy import dying_after
from tests.tiny import write_jsonl


@pytest.fixture(scope="module")
def student(task_taught):
    """A student of six updates without interruption."""
    made = task_taught()
    distill_task(made)
    return made.output


def test_a_student_begins_with_layers_and_head_of_the_teacher(task_teacher, task_taught, begun):
    training, _ = begun(distill_task, task_taught())
    after, before = weights_of(training.model), weights(task_teacher)
    assert "classifier/output_weights:0" in after
    for name, value in after.items():
        if not name.startswith("pooler/"):  # of another activation, as DistilBERT has it
            np.testing.assert_array_equal(value, before[name.replace("/group_1/", "/group_2/")], err_msg=name)


def test_a_student_of_fewer_layers_begins_with_its_teacher(task_teacher, task_taught, begun):
    made = dataclasses.replace(task_taught(), config=None, vocabulary=None, num_hidden_layers=1)
    training, _ = begun(distill_task, made)
    after, before = weights_of(training.model), weights(task_teacher)
    assert {name for name in before if "/group_" not in name or "/group_0/" in name} == after.keys()
    for name, value in after.items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


def test_logits_of_a_teacher_are_in_the_order_of_the_students_labels(task_teacher):
    run = RunDirectory(task_teacher)
    batch, labels = {"input_word_ids": tf.constant([[2, 9, 8, 3], [2, 7, 3, 0]])}, run.task["labels"]
    own, other = (
        load_teacher(run, ComputeConfig(), order)(batch)["logits"] for order in (labels, labels[::-1])
    )
    np.testing.assert_array_equal(other, own.numpy()[:, ::-1])
    assert np.ptp(own) > 0


def test_a_converted_teacher_has_numbers_for_labels_and_gives_its_head(
    teacher_of, task_taught, begun, tmp_path
):
    """Its task.json names neither labels nor a task."""
    converted = teacher_of(BERT, {"model": "classifier", "num_labels": 2})
    rows = [{"text": text, "kind": str(number % 2)} for number, text in enumerate(SENTENCES[:6])]
    file = write_jsonl(tmp_path / "own.jsonl", rows)
    training, contents = begun(distill_task, task_taught(teacher=converted, train=file, eval=file))
    assert contents.task["labels"] == ["0", "1"]
    after, before = weights_of(training.model), weights(converted)
    for name in ("classifier/output_weights:0", "classifier/output_bias:0"):
        np.testing.assert_array_equal(after[name], before[name], err_msg=name)
    run, batch = RunDirectory(converted), {"input_word_ids": tf.constant([[2, 9, 8, 3]])}
    logits = load_teacher(run, ComputeConfig(), ["1", "0"])(batch)["logits"]
    np.testing.assert_array_equal(logits, load_teacher(run, ComputeConfig())(batch)["logits"][:, ::-1])
    with pytest.raises(InputError, match=r"\['0', '1'\]"):
        load_teacher(run, ComputeConfig(), ["0", "2"])


@pytest.mark.slow
def test_run_directory_of_a_student(student, own_table):
    recipe = json.loads((student / "recipe.json").read_text())
    assert [recipe[name] for name in ("temperature", "soft_weight", "label_weight")] == [2, 0.5, 0.5]
    training = [line for line in metrics(student) if "loss" in line]
    assert [line["step"] for line in training] == [2, 4, 6]
    for line in training:
        np.testing.assert_allclose(line["loss"], (line["soft_loss"] + line["label_loss"]) / 2, rtol=1e-6)
    assert 0 <= evaluate_finetuned(student, file=own_table).metrics["accuracy"] <= 1


@pytest.mark.slow
def test_a_student_goes_on_with_its_teacher_alone(student, task_teacher, task_taught):
    made = task_taught(student)
    alone = {field.name: getattr(made, field.name) for field in dataclasses.fields(Finetuning)}
    with pytest.raises(InputError, match="teacher_sha256"):
        finetune(Finetuning(**{**alone, "config": None, "init_from": task_teacher}))


def test_what_no_student_can_learn_is_refused(teacher, teacher_of, task_taught, own_table):
    numbers = Columns("text", None, "length")
    entries = task_entries("regression", TABLE.read(own_table, True, numbers), 32, numbers)
    others = {**entries, "task": "classification", "labels": ["speech", "song"], "num_labels": 2}
    for changes, named in (
        ({"task": "tagging", "columns": None}, "task='tagging' has no soft labels"),
        ({"teacher": teacher}, f"{teacher} is pre-trained only"),
        ({"teacher": teacher_of(BERT, entries)}, "fine-tuned for regression and not for classification"),
        ({"teacher": teacher_of(BERT, others)}, "labels"),
        ({"config": STUDENT.replace(max_position_embeddings=80)}, "max_position_embeddings=80"),
        ({"config": None, "init_from": None}, "config"),
        ({"recipe": {**RECIPE, "early_exit": True}}, "^early_exit: a student"),
    ):
        with pytest.raises(InputError, match=named):
            distill_task(task_taught(**changes))


@pytest.mark.slow
def test_scores_of_a_teacher_from_a_pretrained_student(teacher_of, taught, own_table, task_taught, tmp_path):
    """A regression, from a run of the student's own, whose head is fresh."""
    numbers = Columns("text", None, "length")
    entries = task_entries("regression", TABLE.read(own_table, True, numbers), 32, numbers)
    pretrained = taught()
    distill(pretrained, lambda line: None)
    made = task_taught(
        teacher=teacher_of(BERT, entries), task="regression", columns=numbers, config=None,
        init_from=pretrained.output, recipe={**RECIPE, "steps": 30},
    )  # fmt: skip
    distill_task(made, lambda line: None)
    losses = [line["soft_loss"] for line in metrics(made.output) if "soft_loss" in line]
    assert losses[-1] < losses[0]


@pytest.mark.slow
def test_a_student_reads_long_texts_in_windows(task_taught):
    recipe = {**RECIPE, "seq_length": 16, "steps": 2, "long": "windows", "window_pooling": "max"}
    made = task_taught(recipe=recipe, questions={"doc_stride": 7})
    distill_task(made)
    task = json.loads((made.output / "task.json").read_text())
    assert (task["long"], task["doc_stride"], task["window_pooling"]) == ("windows", 7, "max")
    soft = [line["soft_loss"] for line in metrics(made.output) if "soft_loss" in line]
    assert np.isfinite(soft).all() and len(soft) == 1


@pytest.fixture(scope="module")
def unlabelled(tmp_path_factory):
    """Seven texts in a text file and a table, whose labels are of no interest."""
    folder = tmp_path_factory.mktemp("unlabelled")
    (folder / "texts.txt").write_text("\n\n".join(SENTENCES[:4]))
    rows = [{"text": text, "kind": "whatever"} for text in SENTENCES[4:7]]
    return [folder / "texts.txt", write_jsonl(folder / "rows.jsonl", rows)]


def probabilities(run, texts, labels):
    """Of each label, float64 [texts, labels]."""
    answers = albert_tf.pipeline(run)(texts, top_k=len(labels))
    found = [{answer["label"]: answer["score"] for answer in of_text} for of_text in answers]
    return np.array([[scores[label] for label in labels] for scores in found], np.float64)


@pytest.mark.slow
def test_the_teacher_alone_labels_what_is_unlabelled(task_teacher, task_taught, unlabelled):
    """The losses of an epoch of weights that stay: NumPy's means, over all and over labelled texts."""
    still = {"learning_rate": 0.0, "dropout": 0.0, "classifier_dropout": 0.0, "warmup_steps": 0}
    steps = -(-(len(ROWS) + 7) // RECIPE["batch_size"])
    made = task_taught(
        unlabelled=unlabelled, recipe={**RECIPE, **still, "steps": steps},
        loop={"log_every": steps, "eval_every": steps, "checkpoint_every": steps},
    )  # fmt: skip
    distill_task(made)
    labels = RunDirectory(task_teacher).task["labels"]
    texts = [row["text"] for row in ROWS]
    teacher, student = (
        probabilities(run, texts + SENTENCES[:7], labels) for run in (task_teacher, made.output)
    )
    p, q = (np.sqrt(x) / np.sqrt(x).sum(axis=1, keepdims=True) for x in (teacher, student))  # T = 2
    own = student[np.arange(len(ROWS)), [labels.index(row["kind"]) for row in ROWS]]
    (line,) = (line for line in metrics(made.output) if "loss" in line)
    assert line["soft_loss"] == pytest.approx(4 * (p * np.log(p / q)).sum(axis=1).mean(), rel=1e-3)
    assert line["label_loss"] == pytest.approx(-np.log(own).mean(), rel=1e-3)
    recipe = json.loads((made.output / "recipe.json").read_text())
    assert recipe["unlabelled"] == [str(file) for file in unlabelled]
    assert recipe["examples"] == len(ROWS) + 7


@pytest.mark.slow
def test_a_student_of_unlabelled_texts_goes_on_as_if_nothing_had_been(task_taught, unlabelled):
    whole, stopped = (task_taught(unlabelled=unlabelled) for _ in range(2))
    distill_task(whole, lambda line: None)
    with dying_after(3):
        distill_task(stopped, lambda line: None)
    with pytest.raises(InputError, match="other examples"):
        distill_task(dataclasses.replace(stopped, unlabelled=unlabelled[:1]), lambda line: None)
    distill_task(stopped, lambda line: None)
    np.testing.assert_equal(weights(stopped.output), weights(whole.output))


def test_texts_between_blank_lines(tmp_path):
    file = tmp_path / "texts.txt.gz"
    file.write_bytes(gzip.compress("\na\r\n b \r\u3000\n\nc\n".encode()))
    records = read_unlabelled(TASK_SPECS["classification"], file, None)
    assert [record.text for record in records] == ["a b", "c"]


def test_what_holds_no_text_is_refused(task_taught, tmp_path):
    for name, content, message in (
        ("empty.txt", b"\n\n", "unlabelled=.*empty.txt holds no text"),
        ("latin.txt", b"caf\xe9", "UTF-8"),
        ("rows.csv", b"other\na\n", "text"),
    ):
        (tmp_path / name).write_bytes(content)
        made = task_taught(unlabelled=tmp_path / name)
        with pytest.raises(InputError, match=message):
            distill_task(made)
        assert not made.output.exists()
    with pytest.raises(FileNotFoundError, match=r"missing\.txt"):
        distill_task(task_taught(unlabelled=tmp_path / "missing.txt"))


def test_a_student_that_has_begun_needs_its_beginning_no_more(
    task_taught, task_teacher, own_table, tiny_vocabulary, tmp_path, monkeypatch
):
    taught, columns = [], Columns("text", None, "kind")
    monkeypatch.setattr("albert_tf.finetuning.distill.finetune", lambda settings, *_: taught.append(settings))
    entries = task_entries("classification", TABLE.read(own_table, True, columns), 32, columns)
    model = build_model(BERT, entries)
    albert_tf.save(model, tmp_path / "run", tiny_vocabulary, task=entries, recipe={"made_by": "a test"})
    distill_task(task_taught(tmp_path / "run", init_from=tmp_path / "gone", config=None))
    (settings,) = taught
    assert settings.vocabulary == tmp_path / "run/spiece.model"
    assert settings.entries["teacher"] == str(task_teacher)
