"""Terms of a batch with a teacher, by hand: weights, factors, padding."""

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax

from albert_tf.finetuning.distill import pretraining_loss_sums, task_loss_sums
from albert_tf.finetuning.finetuning_recipes import SoftLabels, SoftTargets
from albert_tf.pretraining.loss import pretraining_loss_fn, pretraining_metrics
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.multi_label import MultiLabel
from albert_tf.tasks.regression import Regression
from albert_tf.training.metrics_logger import loss_metrics

RNG = np.random.default_rng(0)
BATCH = {
    "input_mask": np.array([[1, 1, 1], [1, 0, 0], [0, 0, 0]], np.int32),
    "masked_lm_ids": np.array([[1, 4], [2, 0], [0, 0]], np.int32),
    "masked_lm_weights": np.array([[1, 1], [1, 0], [0, 0]], np.float32),
}


def outputs():
    shapes = {"mlm_logits": [3, 2, 5], "sequence_output": [3, 3, 4]}
    return {name: RNG.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def test_terms_of_pretraining():
    student, teacher = outputs(), outputs()
    targets = SoftTargets(temperature=2.0, soft_weight=5.0, mlm_weight=3.0, cosine_weight=0.5)
    batch = {name: tf.constant(value) for name, value in BATCH.items()}
    objective = pretraining_loss_sums(pretraining_loss_fn("none"), lambda _: teacher, targets)
    found = tf.nest.map_structure(float, objective.terms(student, batch))
    s, t = (log_softmax(x["mlm_logits"] / 2, axis=-1) for x in (student, teacher))
    soft = 4 * (np.exp(t) * (t - s)).sum(axis=-1)[:2][[0, 0, 1], [0, 1, 0]].sum()
    a, b = (x["sequence_output"][[0, 0, 0, 1], [0, 1, 2, 0]] for x in (student, teacher))
    norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    cosine = (1 - (a * b).sum(axis=-1) / norms).sum()
    np.testing.assert_allclose([found["soft"].loss, found["soft"].weight], [soft, 3], rtol=1e-5)
    np.testing.assert_allclose([found["cosine"].loss, found["cosine"].weight], [cosine, 4], rtol=1e-5)
    assert {k: float(v) for k, v in objective.weights(batch).items()} == {"mlm": 3, "soft": 3, "cosine": 4}
    metrics = pretraining_metrics(found, objective.factors)
    total = 3 * found["mlm"].loss / 3 + 5 * soft / 3 + 0.5 * cosine / 4
    np.testing.assert_allclose(metrics["loss"], total, rtol=1e-5)
    assert set(objective.names) == set(found) == {"mlm", "soft", "cosine"}


def test_without_its_weight_states_are_not_compared():
    objective = pretraining_loss_sums(pretraining_loss_fn("sop"), lambda _: {}, SoftTargets(cosine_weight=0))
    assert objective.names == ("mlm", "sop", "soft")


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
    student, teacher = ({"logits": RNG.normal(size=[3, width]).astype(np.float32)} for _ in range(2))
    objective = task_loss_sums(
        kind(config), lambda _: teacher, SoftLabels(soft_weight=0.25, label_weight=0.75)
    )
    found = tf.nest.map_structure(float, objective.terms(student, batch))
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
    own = objective.names[0]
    loss = 0.75 * found[own].loss / 2 + 0.25 * expected / 2
    np.testing.assert_allclose(loss_metrics(found, objective.factors)["loss"], loss, rtol=1e-4)
