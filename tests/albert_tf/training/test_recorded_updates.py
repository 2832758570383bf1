"""google-research/albert's recorded updates, through the training step: replicas, microbatches, a copy."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.models.loss_sums import LossFn, LossSum
from albert_tf.training.train_step import TrainStep
from tests.albert_tf.optimization.test_optimizers import STEPS, Recording

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


OBJECTIVE = LossFn(
    ("rows",),
    lambda outputs, batch: {"rows": LossSum(tf.reduce_sum(outputs), tf.zeros([]), _rows(batch)["rows"])},
    lambda batch: _rows(batch),
)


def _rows(batch):
    return {"rows": tf.cast(tf.size(batch["row"]), tf.float32)}


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
        train_step, batches = TrainStep(model, optimizer, OBJECTIVE, spec, **options), iter(data)
        for number in range(STEPS):
            totals = train_step(batches, tf.constant(1))
            recording.check(number, model.parts)
    assert float(totals.terms["rows"].weight) == 4
