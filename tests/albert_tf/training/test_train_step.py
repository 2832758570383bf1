"""Updates: against a plain training step, and independent of replicas and microbatches."""

import functools
import re
import time

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf import AlbertPretrainer
from albert_tf.models.loss_sums import Loss, LossFn, LossSum
from albert_tf.optimization import create_optimizer
from albert_tf.pretraining.loss import pretraining_loss_fn
from albert_tf.training.distribution import DistributedBatches, distribute_from_function
from albert_tf.training.train_step import TrainStep, compilation_log, sum_over
from tests.albert_tf.optimization.test_optimizers import STEPS, Recording
from tests.albert_tf.training.steps import BATCH, SMALL, assert_close, batches, initial, trained


@pytest.fixture(scope="module")
def reference():
    return trained()


def test_updates_equal_a_training_loop_written_by_hand(reference):
    keras.utils.set_random_seed(1)
    model = AlbertPretrainer(SMALL)
    optimizer = create_optimizer("lamb", init_lr=0.01, num_train_steps=20, num_warmup_steps=2)
    total = 0.0
    for batch in batches().take(4):
        with tf.GradientTape() as tape:
            outputs = model(batch)
            mlm = tf.nn.sparse_softmax_cross_entropy_with_logits(
                batch["masked_lm_ids"], outputs["mlm_logits"]
            )
            mlm = tf.reduce_sum(mlm * batch["masked_lm_weights"]) / tf.reduce_sum(batch["masked_lm_weights"])
            labelled = tf.where(batch["sentence_order_labels"] >= 0)[:, 0]
            sop = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(
                    tf.gather(batch["sentence_order_labels"], labelled),
                    tf.gather(outputs["sop_logits"], labelled),
                )
            )
            loss = mlm + sop
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        total += float(mlm) * float(tf.reduce_sum(batch["masked_lm_weights"]))
    variables, totals = reference
    assert_close([variable.numpy() for variable in model.trainable_variables], variables, 1e-6)
    np.testing.assert_allclose(totals.terms["mlm"].loss, total, rtol=1e-5)
    norm = np.sqrt(sum(np.square(tf.convert_to_tensor(gradient)).sum() for gradient in gradients))
    np.testing.assert_allclose(totals.gradient_norm, norm, rtol=1e-4)


@pytest.mark.slow
def test_replicas_and_microbatches_change_nothing_without_dropout(reference, two_replicas):
    """Updates of a global batch whose rows have different numbers of masked tokens."""
    alone, alone_totals = reference
    variables, totals = trained(two_replicas, accumulate=2)
    assert_close(variables, alone)
    for ours, theirs in (
        (totals.terms, alone_totals.terms),
        (totals.gradient_norm, alone_totals.gradient_norm),
    ):
        tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), ours, theirs)


@pytest.mark.slow
def test_a_feed_of_the_strategy_changes_nothing(reference, two_replicas):
    """A TPU's way: every replica is given its own batches."""
    feed = distribute_from_function(two_replicas, lambda rows, part: batches(rows=rows), BATCH)
    assert feed.replicas_per_batch == 1
    seen = []
    variables, _ = trained(two_replicas, feed=feed, on_batch=seen.append)
    assert_close(variables, reference[0])
    assert seen


def test_an_update_compiles_as_a_tpu_needs_it():
    """XLA takes it as one program, optimizer and all: static shapes, and nothing that the host would do."""
    keras.utils.set_random_seed(1)
    config = SMALL.replace(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
    model = AlbertPretrainer(config, dtype="mixed_bfloat16")
    optimizer = create_optimizer("lamb", init_lr=0.01, num_train_steps=20, num_warmup_steps=2)
    optimizer.build(model.trainable_variables)
    batch, seed, loss_fn = next(iter(batches())), tf.constant([1, 2]), pretraining_loss_fn("sop")
    spec, step = batches().element_spec, tf.Variable(0, dtype=tf.int64, trainable=False)
    train_step = TrainStep(model, optimizer, loss_fn, spec, step=step, seed=0, accumulate=2)
    compiled = tf.function(train_step.replica_step, autograph=False, jit_compile=True)
    program = compiled.experimental_get_compiler_ir(batch, seed)(stage="hlo")
    shapes = set(re.findall(r"(?:f32|bf16|s32|u32|s64|u64|pred)\[([^\]]*)\]", program))
    assert len(shapes) > 10
    assert all(re.fullmatch(r"[\d,]*", shape) for shape in shapes)  # a dynamic one has a "<="
    opcodes = set(re.findall(r"[\]})] ([a-z][a-z-]*)\(", program))
    assert {"dot", "while", "rng-bit-generator"} <= opcodes
    host = ("custom-call", "infeed", "outfeed", "send", "recv", "set-dimension-size", "dynamic-reshape")
    assert not opcodes & set(host)


@pytest.mark.slow
def test_recomputation_changes_nothing(two_replicas):
    """Not with dropout either, in microbatches on two replicas."""
    config = SMALL.replace(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2)
    options = {"config": config, "accumulate": 2}
    assert_close(trained(two_replicas, remat=True, **options)[0], trained(two_replicas, **options)[0], 1e-6)


@pytest.mark.slow
def test_xla_changes_nothing(reference):
    assert_close(trained(xla=True, accumulate=4)[0], reference[0])


def test_float16_trains(reference):
    variables, totals = trained(policy="mixed_float16")
    assert int(totals.failed) == 0
    assert any(not np.array_equal(a, b) for a, b in zip(variables, initial(), strict=True))
    np.testing.assert_allclose(totals.gradient_norm, reference[1].gradient_norm, rtol=0.05)  # unscaled


def test_float16_skips_updates_whose_gradients_are_not_finite():
    variables, totals = trained(policy="mixed_float16", updates=3, loss_scale=2.0**120)
    assert_close(variables, initial(), 0)
    assert int(totals.failed) == 3
    assert not np.isfinite(totals.gradient_norm)
    assert float(totals.terms["mlm"].weight) == 0


@pytest.mark.slow
def test_each_update_drops_units_of_its_own():
    """The first rate is 0: the second update of the same batch differs in nothing but what is dropped."""
    config = SMALL.replace(hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5)
    first, second = (
        float(
            trained(config=config, updates=count, feed=DistributedBatches(batches(count=1), None))[
                1
            ].gradient_norm
        )
        for count in (1, 2)
    )
    assert abs(second / first - 1) > 0.02


@pytest.mark.slow
@pytest.mark.parametrize(("parts", "accumulate"), [("two_replicas", 1), (None, 2)])
def test_replicas_and_microbatches_drop_units_of_their_own(parts, accumulate, request):
    """Of the same rows: would they drop the same units, both would have the gradient of one."""
    strategy = request.getfixturevalue(parts) if parts else None
    rows = batches().map(lambda batch: {name: x[: BATCH // 2] for name, x in batch.items()})
    twice = rows.map(lambda batch: {name: tf.concat([x, x], axis=0) for name, x in batch.items()})
    config = SMALL.replace(hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5)
    one = trained(config=config, updates=1, feed=DistributedBatches(rows, None))[1]
    both = trained(
        strategy, config=config, updates=1, feed=DistributedBatches(twice, None), accumulate=accumulate
    )[1]
    assert abs(float(both.gradient_norm / one.gradient_norm) - 1) > 0.02


def test_a_model_without_sentence_loss_leaves_the_pooler_alone():
    variables, totals = trained(objective="none", updates=3)
    assert set(totals.terms) == {"mlm"}
    keras.utils.set_random_seed(1)
    model = AlbertPretrainer(SMALL, sentence_objective="none")
    moved = {
        variable.name.split(":")[0]: not np.array_equal(variable, after)
        for variable, after in zip(model.trainable_variables, variables, strict=True)
    }
    assert [name for name, changed in moved.items() if not changed] == [
        "pooler/dense/kernel",
        "pooler/dense/bias",
    ]


def test_sum_over_holds_one_at_a_time():
    events = []

    def note(what, index):
        events.append((what, int(index)))
        time.sleep(0.02)  # whatever may run beside it, does
        return index

    def function(index, start):
        index += start  # which no optimizer knows
        for what in ("begins", "ends"):
            index = tf.numpy_function(functools.partial(note, what), [index], tf.int32, stateful=False)
        return tf.ensure_shape(index, [])

    total = tf.function(lambda start: sum_over(functools.partial(function, start=start), 4))
    assert total(tf.constant(1)) == 1 + 2 + 3 + 4
    assert events == [(what, index) for index in range(1, 5) for what in ("begins", "ends")]


# What XLA compiles is announced, a line a shape.

LENGTHS = (4, 4, 8, 4, 8, 2)


def batch(length):
    return {"input_mask": tf.ones([3, length], tf.int32)}


def test_a_line_for_each_shape(caplog):
    caplog.set_level("INFO", "absl")
    log = compilation_log("update")
    for length in LENGTHS:
        log(batch(length))
    assert [line.partition(" tokens")[0].rpartition("for ")[2] for line in caplog.messages] == [
        "3 × 4", "3 × 8", "3 × 2"
    ]  # fmt: skip
    compilation_log("evaluation")(batch(4))
    assert "evaluation" in caplog.messages[-1]


class SizeStep(TrainStep):
    """A step that sums up the sizes of batches."""

    def replica_step(self, batch, seed):
        size = tf.cast(tf.size(batch["input_mask"]), tf.float32)
        return {"size": LossSum(size, size, size)}, size


SIZE_LOSS = LossFn({"size": None})


def test_several_runs_of_a_process_are_not_reported_as_retracing(caplog):
    data = tf.data.Dataset.from_tensors(batch(4)).repeat()
    for _ in range(8):
        step = tf.Variable(0, dtype=tf.int64)
        train_step = SizeStep(None, None, SIZE_LOSS, data.element_spec, step=step, seed=0)
        for iterator in (iter(data), iter(data)):
            train_step(iterator, 3)
        assert int(step) == 6
        assert train_step._many_steps.experimental_get_tracing_count() == 1
    assert "retracing" not in caplog.text


@pytest.mark.parametrize("length", [None, 4])
def test_batches_are_announced_before_their_updates(length):
    """Each of unknown length, and of known length the first of a call, which has the shape of all."""
    step, seen = tf.Variable(0, dtype=tf.int64), []

    def on_batch(batch):
        seen.append((int(step), batch["input_mask"].shape[1]))

    spec = {"input_mask": tf.TensorSpec([3, length], tf.int32)}
    lengths = LENGTHS if length is None else (length,) * 6
    data = tf.data.Dataset.from_generator(lambda: map(batch, lengths), output_signature=spec)
    train_step = SizeStep(None, None, SIZE_LOSS, spec, step=step, seed=0, on_batch=on_batch)
    iterator = iter(data)
    found = [train_step(iterator, tf.constant(count)) for count in (4, 2)]
    assert seen == (list(enumerate(LENGTHS)) if length is None else [(0, 4), (4, 4)])
    expected = [20, 10] if length is None else [16, 8]
    np.testing.assert_array_equal([totals.terms["size"].loss for totals in found], np.multiply(expected, 3))
    assert int(step) == 6


# google-research/albert's recorded updates, through the training step: replicas, microbatches, a copy.

# What each of the four rows of a batch has of its gradient: the mean of the rows is the recorded one.
SHARES = np.array([4.0, -2.0, 1.0, 1.0], np.float32)


class Linear(keras.Model):
    """Variables whose gradient is what the batch says."""

    def __init__(self, recording: Recording):
        super().__init__()
        self.parts = recording.variables()

    def call(self, batch, training=None, seed=None):
        """Σ variable · gradient, for each row."""
        products = [batch[str(index)] * tf.convert_to_tensor(part) for index, part in enumerate(self.parts)]
        return tf.add_n([tf.reduce_sum(x, axis=list(range(1, len(x.shape)))) for x in products])  # [rows]


def _rows_loss(outputs, batch, weights):
    return LossSum(tf.reduce_sum(outputs), tf.zeros([]), tf.reduce_sum(weights))


LOSS_FN = LossFn({"rows": Loss(_rows_loss, lambda batch: tf.ones_like(batch["row"], tf.float32))})


def dataset(recording: Recording) -> tf.data.Dataset:
    """A batch of four rows for each recorded step."""
    batches = {"row": np.tile(np.arange(len(SHARES)), [STEPS, 1])}
    for index, _ in enumerate(recording.names):
        gradients = np.stack([recording.gradients(step)[index] for step in range(STEPS)])
        shares = SHARES.reshape([1, -1] + [1] * (gradients.ndim - 1))
        batches[str(index)] = gradients[:, np.newaxis] * shares
    return tf.data.Dataset.from_tensor_slices(batches)


@pytest.mark.parametrize("name", ["lamb", "adamw"])
@pytest.mark.parametrize(("replicas", "accumulate"), [(1, 4), (2, 2)])
def test_recorded_updates(golden, name, replicas, accumulate, two_replicas):
    recording = Recording(golden / "optimizers" / f"{name}.npz")
    strategy = two_replicas if replicas == 2 else tf.distribute.get_strategy()
    with strategy.scope():
        model, original = Linear(recording), recording.optimizer(name)
        optimizer = type(original).from_config(original.get_config())
        optimizer.build(model.trainable_variables)
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
        data = dataset(recording)
        spec, options = data.element_spec, {"step": step, "seed": 0, "accumulate": accumulate}
        train_step, batches = TrainStep(model, optimizer, LOSS_FN, spec, **options), iter(data)
        for number in range(STEPS):
            totals = train_step(batches, tf.constant(1))
            recording.check(number, model.parts)
    assert float(totals.terms["rows"].weight) == 4
