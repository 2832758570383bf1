"""Losses and their sums against NumPy by hand."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.models.loss_sums import LossSum, classification_loss_sum, cross_entropy, fused_cross_entropy
from albert_tf.pretraining.loss import pretraining_loss_fn, pretraining_metrics


def by_hand(logits: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> LossSum:
    loss = correct = 0.0
    for row, label, weight in zip(
        logits.reshape(-1, logits.shape[-1]), labels.ravel(), weights.ravel(), strict=True
    ):
        if weight:
            loss += weight * (np.log(np.exp(row.astype(np.float64)).sum()) - row[label])
            correct += weight * (row.argmax() == label)
    return LossSum(loss, correct, weights.sum())


@pytest.mark.parametrize("loss_function", [cross_entropy, fused_cross_entropy])
def test_classification_term_is_the_weighted_sum(loss_function):
    shape = (3, 4)
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(*shape, 7)).astype(np.float32)
    labels = rng.integers(7, size=shape).astype(np.int32)
    weights = rng.integers(3, size=shape).astype(np.float32)
    labels.flat[0] = logits.reshape(-1, 7)[0].argmax()
    weights.flat[0] = 2.0
    given = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(given)
        term = classification_loss_sum(given, tf.constant(labels), tf.constant(weights), loss_function)
    np.testing.assert_allclose(term, by_hand(logits, labels, weights), rtol=1e-5)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    expected = weights[..., None] * (probabilities - np.eye(7)[labels])
    np.testing.assert_allclose(tape.gradient(term.loss, given), expected, atol=1e-6)
    assert term.correct >= 2


def test_rows_that_fill_up_a_batch_count_nothing():
    logits = np.array([[2.0, 1.0], [0.0, 3.0]], np.float32)
    mlm_logits = np.zeros([2, 3, 5], np.float32)
    batch = {
        "masked_lm_ids": np.array([[1, 2, 0], [0, 0, 0]], np.int32),
        "masked_lm_weights": np.array([[1, 1, 0], [0, 0, 0]], np.float32),
        "sentence_order_labels": np.array([1, -1], np.int32),
    }
    batch = {name: tf.constant(value) for name, value in batch.items()}
    loss_fn = pretraining_loss_fn("sop")
    terms = loss_fn.terms({"mlm_logits": mlm_logits, "sop_logits": logits}, batch)
    np.testing.assert_allclose(terms["mlm"], [2 * np.log(5), 0, 2], rtol=1e-6)
    np.testing.assert_allclose(terms["sop"], [np.log(1 + np.exp(-1)) + 1, 0, 1], rtol=1e-6)
    weights = loss_fn.weight_sums(batch)
    assert {name: float(weight) for name, weight in weights.items()} == {"mlm": 2, "sop": 1}
    assert [pretraining_loss_fn(name).names for name in ("sop", "nsp", "none")] == [
        ("mlm", "sop"), ("mlm", "nsp"), ("mlm",)
    ]  # fmt: skip


@pytest.mark.parametrize("fused", [False, True])
def test_the_loss_of_masked_tokens_is_compiled_if_asked(fused):
    shapes = {"mlm_logits": [2, 3, 5], "sop_logits": [2, 2]}
    outputs = {name: tf.TensorSpec(shape, tf.float32) for name, shape in shapes.items()}
    batch = {
        "masked_lm_ids": tf.TensorSpec([2, 3], tf.int32),
        "masked_lm_weights": tf.TensorSpec([2, 3], tf.float32),
        "sentence_order_labels": tf.TensorSpec([2], tf.int32),
    }
    terms = tf.function(pretraining_loss_fn("sop", fused=fused).terms)
    library = terms.get_concrete_function(outputs, batch).graph.as_graph_def().library
    assert any(function.attr["_XlaMustCompile"].b for function in library.function) == fused


def test_metrics_are_means_and_their_sum():
    terms = {"mlm": LossSum(6.0, 1.0, 4.0), "sop": LossSum(1.0, 1.0, 2.0)}
    assert pretraining_metrics(terms) == {
        "loss": 2.0,
        "mlm_loss": 1.5,
        "mlm_accuracy": 0.25,
        "mlm_perplexity": np.exp(1.5),
        "sop_loss": 0.5,
        "sop_accuracy": 0.5,
    }
    assert np.isnan(pretraining_metrics({"mlm": LossSum(0.0, 0.0, 0.0)})["mlm_loss"])
    for loss in (89.0, 1e38):  # of a run that diverges: TensorBoard takes float32
        perplexity = pretraining_metrics({"mlm": LossSum(loss, 0.0, 1.0)})["mlm_perplexity"]
        assert 1e38 < perplexity < np.finfo(np.float32).max
