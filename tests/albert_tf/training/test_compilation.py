"""What XLA compiles is announced, a line a shape."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.models.loss_sums import LossFn, LossSum
from albert_tf.training.train_step import TrainStep, compilation_log

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


@pytest.mark.parametrize("length", [None, 4])
def test_batches_are_announced_before_their_updates(length):
    """Each of unknown length, and of known length the first of a call, which has the shape of all."""
    step, seen = tf.Variable(0, dtype=tf.int64), []

    class SizeStep(TrainStep):
        def replica_step(self, batch, seed):
            size = tf.cast(tf.size(batch["input_mask"]), tf.float32)
            return {"size": LossSum(size, size, size)}, size

    def on_batch(batch):
        seen.append((int(step), batch["input_mask"].shape[1]))

    spec = {"input_mask": tf.TensorSpec([3, length], tf.int32)}
    lengths = LENGTHS if length is None else (length,) * 6
    data = tf.data.Dataset.from_generator(lambda: map(batch, lengths), output_signature=spec)
    objective = LossFn(("size",), None, None)
    train_step = SizeStep(None, None, objective, spec, step=step, seed=0, on_batch=on_batch)
    iterator = iter(data)
    found = [train_step(iterator, tf.constant(count)) for count in (4, 2)]
    assert seen == (list(enumerate(LENGTHS)) if length is None else [(0, 4), (4, 4)])
    expected = [20, 10] if length is None else [16, 8]
    np.testing.assert_array_equal([totals.terms["size"].loss for totals in found], np.multiply(expected, 3))
    assert int(step) == 6
