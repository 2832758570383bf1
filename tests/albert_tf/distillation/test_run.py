"""Pre-training with a teacher: where the student begins, what it learns, how it goes on, what is refused."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

import albert_tf
from albert_tf.errors import InputError
from albert_tf.finetuning.distill import Distillation, distill
from albert_tf.finetuning.finetuning_recipes import SoftTargets
from albert_tf.pretraining import pretrain as pretraining
from albert_tf.pretraining.evaluation import evaluate_run
from albert_tf.pretraining.pretrain import pretrain
from albert_tf.pretraining.pretraining_settings import Pretraining
from albert_tf.runs.checkpoints import checkpoint_parts
from albert_tf.training.distribution import STRATEGIES
from tests.albert_tf.distillation.runs import BERT, PRETRAINER, RECIPE, STUDENT
from tests.albert_tf.pretraining.runs import metrics, weights
from tests.albert_tf.training.toy import dying_after
from tests.tiny import TINY


def test_a_student_begins_with_every_other_layer(teacher, taught, begun):
    lines = []
    after, before = begun(distill, pretraining, taught(), lines), weights(teacher)
    for name, value in after.items():
        origin = name.replace("/group_1/", "/group_2/")
        np.testing.assert_array_equal(value, before[origin], err_msg=name)
    assert set(before) - set(after) > {"embeddings/token_type_embeddings:0", "pooler/dense/kernel:0"}
    assert "copied: group_2 to group_1" in lines
    assert "not copied: embeddings/token_type_embeddings" in lines


def test_a_student_of_shared_layers_begins_with_them(teacher_of, taught, begun):
    teacher = teacher_of(TINY, PRETRAINER)
    made = taught(teacher=teacher, config=TINY.replace(num_hidden_layers=1))
    after, before = begun(distill, pretraining, made, []), weights(teacher)
    assert set(before) - set(after) == {f"cls/seq_relationship/output_{x}:0" for x in ("weights", "bias")}
    for name, value in after.items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


def test_a_student_of_other_widths_begins_at_random_and_says_so(taught, begun):
    lines, targets = [], SoftTargets(cosine_weight=0)
    narrow = STUDENT.replace(hidden_size=16, embedding_size=16)
    after = begun(distill, pretraining, taught(config=narrow, targets=targets), lines)
    (line,) = (line for line in lines if "weights at random" in line)
    assert "hidden_size is 32 there and 16 here" in line
    assert np.std(after["embeddings/word_embeddings:0"]) < 0.03  # 0.3 in the teacher
    with pytest.raises(InputError, match="cosine_weight=0"):
        distill(taught(config=narrow))


def test_run_directory_of_a_student(teacher, student, tiny_corpus):
    """The teacher is named in its recipe, and no part of its checkpoints."""
    recipe = json.loads((student / "recipe.json").read_text())
    assert recipe["teacher"] == recipe["init_from"] == str(teacher)
    assert recipe["teacher_sha256"] == recipe["init_from_sha256"]
    assert {name: recipe[name] for name in vars(SoftTargets())} == vars(SoftTargets())
    for line in metrics(student):
        name = "eval_" if "eval_loss" in line else ""
        found = [line[f"{name}{term}_loss"] for term in ("soft", "mlm", "cosine")]
        np.testing.assert_allclose(line[f"{name}loss"], np.dot(found, [5, 2, 1]), rtol=1e-6)
    evaluations = [line for line in metrics(student) if "eval_soft_loss" in line]
    assert [line["step"] for line in evaluations] == [3, 6]
    assert evaluations[1]["eval_loss"] < evaluations[0]["eval_loss"]
    assert "teacher" not in checkpoint_parts(student, 6)
    assert albert_tf.load(student).config == STUDENT  # which fails for a variable too many
    assert evaluate_run(student, [str(tiny_corpus)], seq_length=32)["eval_mlm_loss"] > 0


@pytest.mark.slow
def test_a_resumed_student_ends_with_the_same_weights(student, taught):
    stopped = taught()
    with dying_after(3):
        distill(stopped, lambda line: None)
    distill(stopped, lambda line: None)
    found = weights(stopped.output)
    for name, value in weights(student).items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_a_student_goes_on_with_its_teacher_alone(student, teacher, teacher_of, taught, tmp_path):
    other = teacher_of(BERT.replace(num_hidden_layers=3), PRETRAINER)
    with pytest.raises(InputError, match=rf"teacher_sha256 .*\({teacher}\) there .*\({other}\) here"):
        distill(taught(student, teacher=other, init_from=teacher))
    made = taught(student)
    alone = {field.name: getattr(made, field.name) for field in dataclasses.fields(Pretraining)}
    with pytest.raises(InputError, match="teacher_sha256"):
        pretrain(Pretraining(**{**alone, "init_from": teacher}))
    with pytest.raises(InputError, match="soft_weight is 5"):
        distill(taught(student, targets=SoftTargets(soft_weight=1)))
    moved = shutil.copytree(teacher, tmp_path / "moved")
    distill(taught(student, teacher=moved), lambda line: None)  # which is the same


def test_a_plain_run_does_not_go_on_with_a_teacher(run, settings, taught, teacher_of):
    made = settings(run)
    teacher = teacher_of(made.config.replace(vocab_size=TINY.vocab_size), PRETRAINER)
    alone = {field.name: getattr(made, field.name) for field in dataclasses.fields(Pretraining)}
    with pytest.raises(InputError, match="teacher_sha256 is None there"):
        distill(Distillation(**alone, teacher=teacher))


def test_what_no_student_can_learn_is_refused(teacher_of, task_teacher, taught, tmp_path, tiny_vocabulary):
    other = tmp_path / "other.model"
    other.write_bytes(tiny_vocabulary.read_bytes() + b"\n")
    padded = teacher_of(BERT.replace(vocab_size=208), PRETRAINER)
    for changes, named in (
        ({"vocabulary": other}, "is not the vocabulary of"),
        ({"lowercase": False}, "lowercase"),
        ({"teacher": task_teacher}, "no head for masked tokens"),
        ({"teacher": padded}, "vocab_size=208"),
        ({"config": STUDENT.replace(max_position_embeddings=80)}, "max_position_embeddings=80"),
        ({"recipe": RECIPE.replace(seq_length=80)}, "seq_length=80"),
    ):
        made = taught(**changes)
        with pytest.raises(InputError, match=named):
            distill(made)
        assert not made.output.exists()
    for changes in ({"temperature": 0}, {"soft_weight": 0}, {"mlm_weight": -1}, {"cosine_weight": np.inf}):
        with pytest.raises(InputError, match=next(iter(changes))):
            SoftTargets(**changes)


@pytest.mark.slow
def test_two_devices_and_microbatches_train_as_one_does(taught, two_replicas, monkeypatch):
    monkeypatch.setitem(STRATEGIES, "mirrored", lambda tpu: two_replicas)
    plain = STUDENT.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    ways = [{}, {"strategy": "mirrored", "accumulate": 2}, {"xla": True, "remat": True}]
    runs = [taught(config=plain, **way) for way in ways]
    for made in runs:
        distill(made, lambda line: None)
    one, *others = runs
    expected = weights(one.output)
    for other in others:
        for name, value in weights(other.output).items():
            np.testing.assert_allclose(value, expected[name], atol=1e-4, err_msg=name)
        for a, b in zip(metrics(one.output), metrics(other.output), strict=True):
            names = [name for name in a if name.endswith("_loss")]
            np.testing.assert_allclose([a[n] for n in names], [b[n] for n in names], rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_other_precisions(taught, precision):
    made = taught(precision=precision)
    distill(made, lambda line: None)
    found = [line["eval_loss"] for line in metrics(made.output) if "eval_loss" in line]
    assert found[1] < found[0]
