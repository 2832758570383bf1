"""The objectives of fine-tuning against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.tasks import create_task
from albert_tf.tasks.losses import exits_loss_sum
from albert_tf.training.metrics_logger import loss_metrics

B, C, S = 6, 3, 8
CONFIGS = {
    "classifier": {"model": "classifier", "num_labels": C},
    "multi_label": {"model": "classifier", "num_labels": C, "multi_label": True},
    "regression": {"model": "classifier", "num_labels": 1},
    "token_classifier": {"model": "token_classifier"},
    "multiple_choice": {"model": "multiple_choice"},
    "span_labeler": {"model": "span_labeler"},
    "answerability": {"model": "span_labeler", "answerability": True},
}
SHAPES = {"regression": [B, 1], "token_classifier": [B, S, C]}


def batch_of(kind):
    """Six rows: the last two fill up the batch, and the second has no label where that can be."""
    rng = np.random.default_rng(3)
    shape = [B, C, S] if kind == "multiple_choice" else [B, S]
    mask = np.ones(shape, np.int32)
    mask[0, ..., -2:] = 0
    mask[4:] = 0
    batch = {"input_mask": mask}
    if kind in ("span_labeler", "answerability"):
        starts = np.array([2, 0, 4, 5, 0, 0], np.int32)
        ends = np.array([3, 0, 4, 6, 0, 0], np.int32)
        batch |= {"start_positions": starts, "end_positions": ends}
        batch["is_impossible"] = np.array([0, 1, 0, 0, 0, 0], np.int32)
    elif kind == "regression":
        batch["labels"] = np.array([0.5, -1.0, 3.0, 2.0, np.nan, 7.0], np.float32)
    elif kind == "multi_label":
        batch["labels"] = np.array([[0, 1, 1], [0, 0, 0], [1, 1, 1], [0, 0, 1], [-1] * C, [-1] * C], np.int32)
    elif kind == "token_classifier":
        batch["labels"] = rng.integers(-1, C, [B, S], dtype=np.int32)
    else:
        batch["labels"] = np.array([2, -1, 0, 1, 0, -1], np.int32)
    return {name: tf.constant(value) for name, value in batch.items()}


@pytest.fixture(scope="module", params=CONFIGS)
def case(request):
    """Kind, batch, outputs, loss_fn."""
    kind, rng = request.param, np.random.default_rng(4)
    spans = {"start_logits": [B, S], "end_logits": [B, S], "no_answer_logits": [B]}
    shapes = spans if CONFIGS[kind]["model"] == "span_labeler" else {"logits": SHAPES.get(kind, [B, C])}
    outputs = {name: tf.constant(rng.normal(size=shape), tf.float32) for name, shape in shapes.items()}
    return kind, batch_of(kind), outputs, create_task(CONFIGS[kind]).loss_fn()


def cross_entropy(logits, label):
    logits = logits.astype(np.float64)
    return np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[label]


def by_hand(kind, outputs, batch):
    """Loss, correct and weight of each term, label by label."""
    outputs = {name: value.numpy() for name, value in outputs.items()}
    batch = {name: value.numpy() for name, value in batch.items()}
    names = {"regression": ["score"], "span_labeler": ["span"], "answerability": ["span", "answer"]}
    sums = {name: np.zeros(3) for name in names.get(kind, ["label"])}
    for row in range(4):
        if kind == "regression":
            error = outputs["logits"][row, 0] - batch["labels"][row]
            sums["score"] += [error**2, np.nan, 1]
        elif kind in ("classifier", "multiple_choice") and batch["labels"][row] >= 0:
            logits, label = outputs["logits"][row], batch["labels"][row]
            sums["label"] += [cross_entropy(logits, label), logits.argmax() == label, 1]
        elif kind == "multi_label":
            probabilities, labels = 1 / (1 + np.exp(-outputs["logits"][row])), batch["labels"][row]
            loss = -np.log(np.where(labels, probabilities, 1 - probabilities)).mean()
            sums["label"] += [loss, all((probabilities > 0.5) == labels), 1]
        elif kind == "token_classifier":
            for logits, label, mask in zip(
                outputs["logits"][row], batch["labels"][row], batch["input_mask"][row], strict=True
            ):
                if mask and label >= 0:
                    sums["label"] += [cross_entropy(logits, label), logits.argmax() == label, 1]
        elif "span" in sums:
            pairs = [
                (outputs[f"{end}_logits"][row], batch[f"{end}_positions"][row]) for end in ("start", "end")
            ]
            loss = np.mean([cross_entropy(*pair) for pair in pairs])
            sums["span"] += [loss, all(logits.argmax() == label for logits, label in pairs), 1]
            if "answer" in sums:
                logit, label = float(outputs["no_answer_logits"][row]), batch["is_impossible"][row]
                probability = 1 / (1 + np.exp(-logit))
                loss = -np.log(probability if label else 1 - probability) / 2
                sums["answer"] += [loss, (logit > 0) == label, 1]
    return sums


def test_terms_by_hand(case):
    kind, batch, outputs, loss_fn = case
    terms, expected = loss_fn.terms(outputs, batch), by_hand(kind, outputs, batch)
    assert loss_fn.names == tuple(terms) == tuple(expected)
    for name, term in terms.items():
        np.testing.assert_allclose(term, expected[name], rtol=1e-5, err_msg=name)
        assert term.weight > 0
    metrics = loss_metrics(terms)
    assert np.isfinite(list(metrics.values())).all()
    assert ("score_accuracy" in metrics, len(metrics)) == (False, 1 + 2 * len(terms) - (kind == "regression"))
    np.testing.assert_allclose(metrics["loss"], sum(metrics[f"{name}_loss"] for name in terms))


WEIGHTS = np.array([0.5, 3.0, 1.25])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["classifier", "token_classifier", "multi_label"])
def test_weighted_and_smoothed_terms_by_hand(kind, smoothing):
    """Losses and gradients; what the mean is over, and what is right, stay as they are."""
    batch, rng = batch_of(kind), np.random.default_rng(6)
    logits = tf.constant(rng.normal(size=SHAPES.get(kind, [B, C])), tf.float32)
    (part,) = create_task(CONFIGS[kind]).losses.values()
    options = {
        "class_weights": WEIGHTS.tolist(),
        **({} if kind == "multi_label" else {"smoothing": smoothing}),
    }
    smoothing = options.get("smoothing", 0.0)
    weights = part.weights(batch)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        term = part.loss_sum({"logits": logits}, batch, weights, **options)
    gradient = tape.gradient(term.loss, logits)
    plain = part.loss_sum({"logits": logits}, batch, weights)
    assert (float(term.correct), float(term.weight)) == (float(plain.correct), float(plain.weight))
    loss, slopes = 0.0, np.zeros(logits.shape)
    for place in np.argwhere(weights.numpy() > 0):
        place = tuple(place)
        values, label = logits.numpy()[place].astype(np.float64), batch["labels"].numpy()[place]
        if kind == "multi_label":
            probabilities = 1 / (1 + np.exp(-values))
            loss -= np.mean(np.where(label, WEIGHTS * np.log(probabilities), np.log(1 - probabilities)))
            slopes[place] = np.where(label, -WEIGHTS * (1 - probabilities), probabilities) / C
        else:
            probabilities = np.exp(values) / np.exp(values).sum()
            wanted = (1 - smoothing) * np.eye(C)[label] + smoothing / C
            loss -= WEIGHTS[label] * (wanted * np.log(probabilities)).sum()
            slopes[place] = WEIGHTS[label] * (probabilities - wanted)
    np.testing.assert_allclose(term.loss, loss, rtol=1e-5)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-6)


def test_terms_and_weights_of_parts_add_up(case):
    _, batch, outputs, loss_fn = case
    whole = loss_fn.terms(outputs, batch)
    parts = [
        loss_fn.terms(*({name: value[rows] for name, value in values.items()} for values in (outputs, batch)))
        for rows in (slice(0, 1), slice(1, 5), slice(5, 6))
    ]
    added = tf.nest.map_structure(lambda *values: sum(values), *parts)
    microbatches = {name: tf.reshape(value, [2, 3, *value.shape[1:]]) for name, value in batch.items()}
    weights = loss_fn.weight_sums(microbatches)
    for name in loss_fn.names:
        np.testing.assert_allclose(added[name], whole[name], rtol=1e-5)
        assert weights[name] == whole[name].weight


@pytest.mark.parametrize("kind", ["classifier", "regression", "multiple_choice"])
def test_term_of_all_layers_by_hand(kind):
    """Σ j · L_j / Σ j of layers j from 1, and what is right by the last."""
    batch, rng = batch_of(kind), np.random.default_rng(7)
    (part,) = create_task(CONFIGS[kind]).losses.values()
    logits = rng.normal(size=[B, 3, *SHAPES.get(kind, [B, C])[1:]]).astype(np.float32)
    weights = part.weights(batch)
    term = exits_loss_sum(part.loss_sum, {"exit_logits": tf.constant(logits)}, batch, weights)
    losses = np.zeros([3])
    for row in np.flatnonzero(weights.numpy() > 0):
        label = batch["labels"].numpy()[row]
        for layer, values in enumerate(logits[row].astype(np.float64)):
            probabilities = np.exp(values) / np.exp(values).sum()
            is_number = kind == "regression"
            losses[layer] += (values[0] - label) ** 2 if is_number else -np.log(probabilities[label])
    np.testing.assert_allclose(term.loss, (losses[0] + 2 * losses[1] + 3 * losses[2]) / 6, rtol=1e-5)
    last = part.loss_sum({"logits": tf.constant(logits[:, -1])}, batch, weights)
    np.testing.assert_array_equal([term.correct, term.weight], [last.correct, last.weight])
