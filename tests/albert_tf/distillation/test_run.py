"""Pre-training with a teacher: where the student begins, what it learns, how it goes on, what is refused."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import expit, log_softmax, softmax

import albert_tf
from albert_tf import cli
from albert_tf.conversion.compress import compress
from albert_tf.errors import InputError
from albert_tf.finetuning.distill import (
    Distillation,
    cosine_distance,
    distill,
    pretraining_distillation_loss,
    sigmoid_divergence,
    softmax_divergence,
    squared_difference,
    task_distillation_loss,
)
from albert_tf.finetuning.finetuning_recipes import SoftLabels, SoftTargets
from albert_tf.pretraining.evaluation import evaluate_run
from albert_tf.pretraining.loss import pretraining_loss_fn, pretraining_metrics
from albert_tf.pretraining.pretrain import pretrain
from albert_tf.pretraining.pretraining_settings import Pretraining
from albert_tf.runs.checkpoints import checkpoint_parts
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.multi_label import MultiLabel
from albert_tf.tasks.regression import Regression
from albert_tf.training.distribution import STRATEGIES
from albert_tf.training.metrics_logger import loss_metrics
from tests.albert_tf.commands import mistake, words_of
from tests.albert_tf.distillation.runs import BERT, PRETRAINER, RECIPE, STUDENT
from tests.albert_tf.pretraining.runs import EMPTY_FIELD, metrics, weights, weights_of
from tests.albert_tf.training.toy import dying_after
from tests.tiny import TINY


def test_a_student_begins_with_every_other_layer(teacher, taught, begun):
    lines = []
    training, _ = begun(distill, taught(), lines.append)
    after, before = weights_of(training.model), weights(teacher)
    for name, value in after.items():
        origin = name.replace("/group_1/", "/group_2/")
        np.testing.assert_array_equal(value, before[origin], err_msg=name)
    assert set(before) - set(after) > {"embeddings/token_type_embeddings:0", "pooler/dense/kernel:0"}
    assert "copied: group_2 to group_1" in lines
    assert "not copied: embeddings/token_type_embeddings" in lines


def test_a_student_of_shared_layers_begins_with_them(teacher_of, taught, begun):
    teacher = teacher_of(TINY, PRETRAINER)
    made = taught(teacher=teacher, config=TINY.replace(num_hidden_layers=1))
    training, _ = begun(distill, made)
    after, before = weights_of(training.model), weights(teacher)
    assert set(before) - set(after) == {f"cls/seq_relationship/output_{x}:0" for x in ("weights", "bias")}
    for name, value in after.items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


def test_a_student_of_other_widths_begins_at_random_and_says_so(taught, begun):
    lines, targets = [], SoftTargets(cosine_weight=0)
    narrow = STUDENT.replace(hidden_size=16, embedding_size=16)
    training, _ = begun(distill, taught(config=narrow, targets=targets), lines.append)
    (line,) = (line for line in lines if "weights at random" in line)
    assert "hidden_size is 32 there and 16 here" in line
    words = training.model.encoder.embeddings.word_embeddings
    assert np.std(words) < 0.03  # 0.3 in the teacher
    with pytest.raises(InputError, match="cosine_weight=0"):
        distill(taught(config=narrow))


@pytest.mark.slow
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
    np.testing.assert_equal(weights(stopped.output), weights(student))


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_plain_run_does_not_go_on_with_a_teacher(run, settings, taught, teacher_of):
    made = settings(run)
    teacher = teacher_of(made.config.replace(vocab_size=TINY.vocab_size), PRETRAINER)
    alone = {field.name: getattr(made, field.name) for field in dataclasses.fields(Pretraining)}
    with pytest.raises(InputError, match="teacher_sha256 is None there"):
        distill(Distillation(**alone, teacher=teacher))


def test_what_no_student_can_learn_is_refused(teacher_of, task_teacher, taught, tmp_path, tiny_vocabulary):
    other = tmp_path / "other.model"
    other.write_bytes(tiny_vocabulary.read_bytes() + EMPTY_FIELD)
    padded = teacher_of(BERT.replace(vocab_size=208), PRETRAINER)
    for changes, named in (
        ({"vocabulary": other}, "is not the vocabulary of"),
        ({"lowercase": False}, "lowercase"),
        ({"teacher": task_teacher, "targets": SoftTargets()}, "no head for masked tokens: set soft_weight=0"),
        ({"recipe": RECIPE.replace(masked_lm_prob=0.0)}, r"masked_lm_prob=0: .* soft_weight=5.0 needs them"),
        ({"teacher": padded}, "vocab_size=208"),
        ({"config": STUDENT.replace(max_position_embeddings=80)}, "max_position_embeddings=80"),
        ({"recipe": RECIPE.replace(seq_length=80)}, "seq_length=80"),
    ):
        made = taught(**changes)
        with pytest.raises(InputError, match=named):
            distill(made)
        assert not made.output.exists()
    for changes in (
        {"temperature": 0},
        {"soft_weight": -1},
        {"mlm_weight": "2"},
        {"mlm_weight": -1},
        {"cosine_weight": np.inf},
        {"soft_weight": 0, "cosine_weight": 0},
    ):
        with pytest.raises(InputError, match=next(iter(changes))):
            SoftTargets(**changes)
    with pytest.raises(InputError, match="soft_weight=0"):
        SoftLabels(soft_weight=0)


def test_all_settings_of_the_tokenizer_are_the_teachers(taught, tmp_path):
    """Of a BERT of transformers, whose tokenizer reads some texts otherwise than Google's."""
    words = tmp_path / "vocab.txt"
    words.write_text("\n".join(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the")))
    model = albert_tf.AlbertPretrainer(BERT.replace(vocab_size=6))
    albert_tf.save(model, tmp_path / "teacher", words, tokenizer={"like_transformers": True})
    with pytest.raises(InputError, match="like_transformers"):
        distill(taught(teacher=tmp_path / "teacher", vocabulary=words))


@pytest.fixture(scope="module")
def headless(teacher_of):
    """A small BERT without any head."""
    return teacher_of(BERT, {"model": "encoder"})


@pytest.mark.slow
def test_of_a_teacher_without_a_head_the_states_of_text_as_it_is_are_learned(
    headless, words, tiny_corpus, tiny_vocabulary, tmp_path
):
    """The first cosine distance is that of both networks on unmasked text, by NumPy."""
    compress(headless, tmp_path / "albert", embedding_size=16, num_hidden_groups=2)
    words = [word for word in words if word not in ("--config", str(tmp_path / "student.json"))]
    words[words.index("--teacher") + 1] = str(headless)
    words[words.index("--learning_rate") + 1] = "0"
    assert cli.run([*words, "--init_from", str(tmp_path / "albert")]) == 0
    recipe = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert {name: recipe[name] for name in ("soft_weight", "mlm_weight", "cosine_weight")} == {
        "soft_weight": 0, "mlm_weight": 0, "cosine_weight": 1,
    }  # fmt: skip
    assert recipe["masked_lm_prob"] == 0
    student, teacher = albert_tf.load(tmp_path / "run"), albert_tf.load(headless)
    assert student.config.embedding_size == 16
    text = albert_tf.pretraining_dataset(
        [str(tiny_corpus)], tiny_vocabulary, 2, 32,
        masked_lm_prob=0.0, sentence_objective="none", shuffle=False, repeat=False,
    )  # fmt: skip
    distances = []
    for batch in text:
        assert not batch["masked_lm_weights"].numpy().any()
        assert 4 not in batch["input_word_ids"].numpy()  # [MASK]
        s, t = (model(batch)["sequence_output"].numpy() for model in (student.encoder, teacher))
        cosine = (s * t).sum(-1) / (np.linalg.norm(s, axis=-1) * np.linalg.norm(t, axis=-1))
        distances.append(1 - cosine[batch["input_mask"].numpy() == 1])
    evaluated = [line for line in metrics(tmp_path / "run") if "eval_loss" in line]
    assert {name for name in evaluated[-1] if name.startswith("eval_")} == {"eval_loss", "eval_cosine_loss"}
    assert evaluated[-1]["eval_cosine_loss"] == pytest.approx(np.concatenate(distances).mean(), rel=1e-4)


@pytest.mark.slow
def test_masks_are_asked_for_where_a_loss_needs_them(settings, student, tiny_corpus):
    with pytest.raises(InputError, match="masked_lm_prob=0"):
        pretrain(settings(recipe=RECIPE.replace(masked_lm_prob=0.0, max_predictions=None)))
    with pytest.raises(InputError, match=r"masked_lm_prob=0: .* set masked_lm_prob"):
        evaluate_run(student, [str(tiny_corpus)], seq_length=32, masked_lm_prob=0.0)


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


# `albert-tf distill` as users type it, and what other commands make of its run.


@pytest.fixture
def words(tmp_path, teacher, tiny_corpus):
    """The words of a command that distils a little on text."""
    file = tmp_path / "student.json"
    file.write_text(STUDENT.to_json_string())
    flags = {"teacher": teacher, "config": file, "train": tiny_corpus, "output": tmp_path / "run"}
    flags |= {"eval": tiny_corpus, "steps": 2, "warmup_steps": 1, "batch_size": 2, "seq_length": 32}
    flags |= {"learning_rate": 5e-4}
    return words_of("distill", **flags)


def test_the_vocabulary_is_the_teachers_and_the_recipe_distilberts(words, begun):
    _, contents = begun(cli.run, [*words, "--temperature", "3"])
    recipe = contents.recipe
    assert (recipe["temperature"], recipe["soft_weight"], recipe["optimizer"]) == (3, 5, "adamw")
    assert (recipe["sentence_objective"], recipe["learning_rate"], recipe["clip_norm"]) == ("none", 5e-4, 5)


def test_a_recipe_of_another_family_is_said_where_it_was_named(words, tmp_path, monkeypatch, caplog):
    """Of all recipes only DistilBERT's is for students, whatever their family."""
    (tmp_path / "student.json").write_text(TINY.to_json_string())
    monkeypatch.setattr("albert_tf.finetuning.distill.distill", lambda settings: None)
    assert cli.run(words) == 0
    assert "--recipe" not in caplog.text
    assert cli.run([*words, "--recipe", "bert_base"]) == 0
    assert "--recipe bert_base" in caplog.text


def test_mistakes_end_in_one_line(words, teacher, task_teacher, own_table, tmp_path, capsys):
    of_task = ["distill", "--teacher", task_teacher, "--task", "classification", "--output", tmp_path / "run"]
    data = ["--train", own_table, "--text", "text", "--label", "kind"]
    albert_tf.save(albert_tf.AlbertEncoder(BERT), tmp_path / "bare")
    bare = ["distill", "--teacher", tmp_path / "bare", *words[3:]]
    for line, named in (
        (bare, f"{tmp_path / 'bare'} has no vocabulary: name it by --vocabulary"),
        ([*bare, "--vocabulary", "."], ". is a folder: name the vocabulary in it"),
        ([*words, "--epochs", "2"], "--epochs: of no use"),
        ([*words, "--label_weight", "2"], "--label_weight: of no use"),
        ([*words, "--unlabelled", own_table], "--unlabelled: of no use"),
        ([*words, "--temperature", "0"], "temperature=0"),
        (["distill", "--teacher", teacher, "--output", tmp_path / "run"], "--config"),
        ([*of_task, *data], "--config"),
        ([*of_task, *data, "--mlm_weight", "1"], "--mlm_weight: of no use"),
        ([*of_task, "--train", own_table, *data, "--config", words[4]], "given twice"),
    ):
        assert named in mistake(capsys, *line)
    assert not (tmp_path / "run").exists()


# Losses against a teacher, and their gradients, against NumPy by hand.

RNG = np.random.default_rng(0)
LOSSES_STUDENT, TEACHER = (3 * RNG.normal(size=[2, 3, 5]) for _ in range(2))
GIVEN = RNG.normal(size=[2, 3])  # the gradient of a loss [2, 3]


def computed(function, *arguments):
    """The losses, and the gradient at the student's outputs."""
    student, teacher = (tf.constant(x, tf.float32) for x in (LOSSES_STUDENT, TEACHER))
    with tf.GradientTape() as tape:
        tape.watch(student)
        losses = function(student, teacher, *arguments)
    return losses, tape.gradient(losses, student, tf.constant(GIVEN, tf.float32))


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_softmax_divergence(temperature):
    p, q = (softmax(x / temperature, axis=-1) for x in (TEACHER, LOSSES_STUDENT))
    losses, gradient = computed(softmax_divergence, temperature)
    np.testing.assert_allclose(losses, temperature**2 * (p * np.log(p / q)).sum(axis=-1), rtol=1e-5)
    np.testing.assert_allclose(gradient, GIVEN[..., None] * temperature * (q - p), atol=1e-5)
    np.testing.assert_allclose(softmax_divergence(TEACHER, TEACHER, temperature), np.zeros([2, 3]), atol=1e-9)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_sigmoid_divergence(temperature):
    p, q = expit(TEACHER / temperature), expit(LOSSES_STUDENT / temperature)
    losses, gradient = computed(sigmoid_divergence, temperature)
    divergences = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    np.testing.assert_allclose(losses, temperature**2 * divergences.mean(axis=-1), rtol=1e-4)
    np.testing.assert_allclose(gradient, GIVEN[..., None] * temperature * (q - p) / 5, atol=1e-5)


def test_squared_difference_knows_no_temperature():
    for temperature in (1.0, 2.0):
        losses, gradient = computed(squared_difference, temperature)
        np.testing.assert_allclose(losses, ((LOSSES_STUDENT - TEACHER) ** 2).mean(axis=-1), rtol=1e-5)
        np.testing.assert_allclose(gradient, GIVEN[..., None] * 2 * (LOSSES_STUDENT - TEACHER) / 5, atol=1e-5)


def test_cosine_distance():
    s, t = (np.linalg.norm(x, axis=-1, keepdims=True) for x in (LOSSES_STUDENT, TEACHER))
    cosine = (LOSSES_STUDENT * TEACHER).sum(axis=-1, keepdims=True) / (s * t)
    losses, gradient = computed(cosine_distance)
    np.testing.assert_allclose(losses, 1 - cosine[..., 0], atol=1e-6)
    np.testing.assert_allclose(
        gradient, GIVEN[..., None] * (cosine * LOSSES_STUDENT / s**2 - TEACHER / (s * t)), atol=1e-6
    )


def test_cosine_distance_of_padding_is_finite():
    zeros = tf.zeros([1, 2, 4])
    with tf.GradientTape() as tape:
        tape.watch(zeros)
        losses = cosine_distance(zeros, zeros)
    assert np.isfinite(tape.gradient(losses, zeros)).all()
    assert cosine_distance(tf.ones([1, 4], tf.bfloat16), tf.ones([1, 4], tf.bfloat16)).dtype == tf.float32


# Terms of a batch with a teacher, by hand: weights, factors, padding.

OBJECTIVES_RNG = np.random.default_rng(0)
BATCH = {
    "input_mask": np.array([[1, 1, 1], [1, 0, 0], [0, 0, 0]], np.int32),
    "masked_lm_ids": np.array([[1, 4], [2, 0], [0, 0]], np.int32),
    "masked_lm_weights": np.array([[1, 1], [1, 0], [0, 0]], np.float32),
}


def outputs():
    shapes = {"mlm_logits": [3, 2, 5], "sequence_output": [3, 3, 4]}
    return {name: OBJECTIVES_RNG.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def test_terms_of_pretraining():
    student, teacher = outputs(), outputs()
    targets = SoftTargets(temperature=2.0, soft_weight=5.0, mlm_weight=3.0, cosine_weight=0.5)
    batch = {name: tf.constant(value) for name, value in BATCH.items()}
    loss_fn = pretraining_distillation_loss(pretraining_loss_fn("none"), lambda _: teacher, targets)
    found = tf.nest.map_structure(float, loss_fn.terms(student, batch))
    s, t = (log_softmax(x["mlm_logits"] / 2, axis=-1) for x in (student, teacher))
    soft = 4 * (np.exp(t) * (t - s)).sum(axis=-1)[:2][[0, 0, 1], [0, 1, 0]].sum()
    a, b = (x["sequence_output"][[0, 0, 0, 1], [0, 1, 2, 0]] for x in (student, teacher))
    norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    cosine = (1 - (a * b).sum(axis=-1) / norms).sum()
    np.testing.assert_allclose([found["soft"].loss, found["soft"].weight], [soft, 3], rtol=1e-5)
    np.testing.assert_allclose([found["cosine"].loss, found["cosine"].weight], [cosine, 4], rtol=1e-5)
    assert {k: float(v) for k, v in loss_fn.weight_sums(batch).items()} == {"mlm": 3, "soft": 3, "cosine": 4}
    metrics = pretraining_metrics(found, loss_fn.loss_weights)
    total = 3 * found["mlm"].loss / 3 + 5 * soft / 3 + 0.5 * cosine / 4
    np.testing.assert_allclose(metrics["loss"], total, rtol=1e-5)
    assert set(loss_fn.names) == set(found) == {"mlm", "soft", "cosine"}


def test_without_its_weight_states_are_not_compared():
    loss_fn = pretraining_distillation_loss(
        pretraining_loss_fn("sop"), lambda _: {}, SoftTargets(cosine_weight=0)
    )
    assert loss_fn.names == ("mlm", "sop", "soft")


@pytest.mark.parametrize(
    ("kind", "config", "labels"),
    [
        (Classification, {"labels": ["a", "b"]}, np.array([0, 1, -1], np.int32)),
        (MultiLabel, {"labels": ["a", "b"]}, np.array([[0, 1], [1, 1], [0, 0]], np.int32)),
        (Regression, {}, np.array([0.5, 1.5, 0], np.float32)),
    ],
)
def test_terms_of_a_task_leave_out_rows_that_fill_a_batch(kind, config, labels):
    batch = {"input_mask": tf.constant(BATCH["input_mask"]), "labels": tf.constant(labels)}
    width = 1 if kind is Regression else 2
    student, teacher = (
        {"logits": OBJECTIVES_RNG.normal(size=[3, width]).astype(np.float32)} for _ in range(2)
    )
    task, targets = kind(config), SoftLabels(soft_weight=0.25, label_weight=0.75)
    loss_fn = task_distillation_loss(task.loss_fn(), task, lambda _: teacher, targets)
    found = tf.nest.map_structure(float, loss_fn.terms(student, batch))
    s, t = (x["logits"][:2].astype(np.float64) for x in (student, teacher))
    if kind is Classification:
        s, t = log_softmax(s / 2, axis=-1), log_softmax(t / 2, axis=-1)
        expected = 4 * (np.exp(t) * (t - s)).sum()
    elif kind is MultiLabel:
        p, q = (1 / (1 + np.exp(-x / 2)) for x in (t, s))
        expected = 4 * (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).mean(axis=-1).sum()
    else:
        expected = ((s - t) ** 2).sum()
    np.testing.assert_allclose([found["soft"].loss, found["soft"].weight], [expected, 2], rtol=1e-4)
    own = loss_fn.names[0]
    loss = 0.75 * found[own].loss / 2 + 0.25 * expected / 2
    np.testing.assert_allclose(loss_metrics(found, loss_fn.loss_weights)["loss"], loss, rtol=1e-4)


def test_a_student_begins_elsewhere_and_goes_on_without_its_beginning(words, tmp_path, monkeypatch):
    taught, place = [], words.index("--config")
    monkeypatch.setattr("albert_tf.finetuning.distill.distill", taught.append)
    albert_tf.save(albert_tf.AlbertEncoder(STUDENT), "ram://begins/run")
    plain = [*words[:place], *words[place + 2 :], "--init_from"]
    assert cli.run([*plain, "ram://begins/run"]) == 0
    albert_tf.save(albert_tf.AlbertEncoder(STUDENT), tmp_path / "run", recipe={"made_by": "a test"})
    assert cli.run([*plain, str(tmp_path / "gone")]) == 0
    assert [settings.config for settings in taught] == [STUDENT, STUDENT]


def test_a_vocabulary_for_a_teacher_without_one_brings_its_settings(words, byte_pairs, tmp_path, monkeypatch):
    taught, place = [], words.index("--teacher") + 1
    monkeypatch.setattr("albert_tf.finetuning.distill.distill", taught.append)
    albert_tf.save(albert_tf.AlbertEncoder(BERT), tmp_path / "bare")
    bare = [*words[:place], str(tmp_path / "bare"), *words[place + 1 :]]
    assert cli.run([*bare, "--vocabulary", str(byte_pairs)]) == 0
    (settings,) = taught
    assert (settings.lowercase, settings.strip_accents) == (False, False)
