"""The head of run_squad_v2 against google-research/albert's recorded outputs, losses and gradients."""

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.constants import ENCODER_INPUTS
from albert_tf.conversion.convert import convert
from albert_tf.models.heads import IMPOSSIBLE
from albert_tf.models.span_labeler import AnswerabilityHead
from albert_tf.runs.build_model import task_of
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.tasks import create_task
from albert_tf.training.metrics_logger import loss_metrics
from tests.albert_tf.models.oracles import check_gradients, checkpoint_name
from tests.tiny import TINY

STARTS, ENDS = 3, 4  # beams of the recorded predictions


@pytest.fixture(scope="module")
def expected(shared):
    return dict(np.load(shared / "golden" / "squad_v2" / "expected.npz"))


@pytest.fixture(scope="module")
def run(shared, tmp_path_factory):
    """The recorded checkpoint, converted."""
    folder = tmp_path_factory.mktemp("squad") / "run"
    assert convert("google", "run", shared / "golden" / "squad_v2", folder)[:2] == ([], [])
    assert RunDirectory(folder).task == {"model": "span_labeler", "answerability": True}
    return folder


@pytest.fixture(scope="module")
def model(run):
    """The recorded network with the beams of the recorded predictions."""
    loaded = albert_tf.load(run)
    model = albert_tf.AlbertSpanLabeler(loaded.config, True, start_n_top=STARTS, end_n_top=ENDS)
    model.set_weights(loaded.get_weights())
    return model


def inputs(expected, *others):
    return {name: tf.constant(expected[name], tf.int32) for name in (*ENCODER_INPUTS, *others)}


@pytest.mark.parametrize("compiled", [False, True])
def test_outputs_of_a_given_start(model, expected, compiled):
    call = tf.function(lambda x: model(x), jit_compile=compiled)
    outputs = call(inputs(expected, "start_positions"))
    assert outputs.keys() == {"start_logits", "end_logits", "no_answer_logits"}
    for name, recorded in (
        ("start_logits", "train_start_log_probs"),
        ("end_logits", "train_end_log_probs"),
        ("no_answer_logits", "train_cls_logits"),
    ):
        np.testing.assert_allclose(outputs[name], expected[recorded], rtol=0, atol=1e-5, err_msg=name)
        assert outputs[name].dtype == tf.float32
    impossible = outputs["start_logits"].numpy() < IMPOSSIBLE / 2
    np.testing.assert_array_equal(impossible, expected["p_mask"] == 1)


@pytest.mark.parametrize("unknown", [False, True])
def test_outputs_of_the_beam(model, expected, unknown):
    shape = [None, None] if unknown else expected["input_mask"].shape
    spec = {name: tf.TensorSpec(shape, tf.int32) for name in ENCODER_INPUTS}
    outputs = tf.function(lambda x: model(x), input_signature=[spec])(inputs(expected))
    assert (expected["start_n_top"], expected["end_n_top"]) == (STARTS, ENDS)
    np.testing.assert_array_equal(outputs["start_top_index"], expected["predict_start_top_index"])
    np.testing.assert_array_equal(
        outputs["end_top_index"], expected["predict_end_top_index"].reshape(-1, STARTS, ENDS)
    )
    for name, recorded in (
        ("start_top_log_probs", expected["predict_start_top_log_probs"]),
        ("end_top_log_probs", expected["predict_end_top_log_probs"].reshape(-1, STARTS, ENDS)),
        ("no_answer_logits", expected["predict_cls_logits"]),
    ):
        np.testing.assert_allclose(outputs[name], recorded, rtol=0, atol=1e-5, err_msg=name)


def test_losses_and_gradients(model, expected):
    batch = inputs(expected, "start_positions", "end_positions", "is_impossible")
    loss_fn = create_task(task_of(model)).loss_fn()
    with tf.GradientTape() as tape:
        terms = loss_fn.terms(model(batch), batch)
        total = sum(term.loss / term.weight for term in terms.values())
    metrics = loss_metrics(terms)
    for name, loss in (
        ("loss", expected["total_loss"]),
        ("span_loss", (expected["start_loss"] + expected["end_loss"]) / 2),
        ("answer_loss", expected["answer_loss"] / 2),
    ):
        np.testing.assert_allclose(metrics[name], loss, rtol=0, atol=1e-5, err_msg=name)
    gradients = tape.gradient(total, model.trainable_variables)
    check_gradients(map(checkpoint_name, model.trainable_variables), gradients, expected)


def test_dropout_is_that_of_the_answer_class():
    config = TINY.replace(classifier_dropout_prob=0.5)
    head = AnswerabilityHead(config, STARTS, ENDS)
    sequence = tf.random.stateless_normal([200, 6, config.hidden_size], [1, 2])
    sequence = tf.broadcast_to(sequence[:1], sequence.shape)  # rows alike but for what is dropped
    allowed, starts = tf.ones([200, 6], tf.bool), tf.zeros([200], tf.int32)
    head.answer_kernel.assign(tf.ones_like(head.answer_kernel))
    plain = head(sequence, allowed, starts)
    dropped = head(sequence, allowed, starts, seed=tf.constant([3, 4]))
    assert np.ptp(plain["no_answer_logits"]) < 1e-5 and np.ptp(dropped["no_answer_logits"]) > 0.1
    # The sum of h_i / (1 - p) over those kept has the mean Σh.
    error = 4 * np.std(dropped["no_answer_logits"]) / np.sqrt(200)
    np.testing.assert_allclose(np.mean(dropped["no_answer_logits"]), plain["no_answer_logits"][0], atol=error)
    for name in ("start_logits", "end_logits"):
        np.testing.assert_array_equal(dropped[name], plain[name])


def test_mixed_precision_ends_in_float32(model, expected):
    mixed = albert_tf.AlbertSpanLabeler(model.config, True, STARTS, ENDS, dtype="mixed_bfloat16")
    mixed.set_weights(model.get_weights())
    batch = inputs(expected, "start_positions")
    outputs, plain = mixed(batch), model(batch)
    for name, value in outputs.items():
        assert value.dtype == tf.float32 and np.isfinite(value).all()
        where = expected["p_mask"] == 0 if value.shape.rank == 2 else ...
        np.testing.assert_allclose(value.numpy()[where], plain[name].numpy()[where], atol=0.1)
