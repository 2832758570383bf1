"""The updates that tests of the training step make: a tiny model, and batches that are always the same."""

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf import AlbertPretrainer
from albert_tf.optimization import create_optimizer
from albert_tf.pretraining.loss import pretraining_loss_fn
from albert_tf.training.distribution import DistributedBatches
from albert_tf.training.train_step import TrainStep
from tests.tiny import TINY

BATCH, LENGTH, PREDICTIONS = 8, 16, 4
SMALL = TINY.replace(num_hidden_layers=1)


def batches(seed: int = 0, count: int = 4, rows: int = BATCH) -> tf.data.Dataset:
    """Batches of random tokens, whose rows have different numbers of masked tokens."""
    return tensors(seed, count).batch(rows, drop_remainder=True).repeat()


def tensors(seed: int, count: int) -> tf.data.Dataset:
    """The rows of the batches."""
    rng = np.random.default_rng(seed)
    rows = count * BATCH
    weights = (np.arange(PREDICTIONS) < rng.integers(1, PREDICTIONS + 1, size=[rows, 1])).astype(np.float32)
    tensors = {
        "input_word_ids": rng.integers(TINY.vocab_size, size=[rows, LENGTH]).astype(np.int32),
        "input_mask": np.ones([rows, LENGTH], np.int32),
        "input_type_ids": np.zeros([rows, LENGTH], np.int32),
        "masked_lm_positions": np.sort(rng.integers(LENGTH, size=[rows, PREDICTIONS])).astype(np.int32),
        "masked_lm_ids": rng.integers(TINY.vocab_size, size=[rows, PREDICTIONS]).astype(np.int32),
        "masked_lm_weights": weights,
        "sentence_order_labels": np.where(np.arange(rows) % 5, np.arange(rows) % 2, -1).astype(np.int32),
    }
    return tf.data.Dataset.from_tensor_slices(tensors)


def trained(
    strategy=None,
    updates=4,
    config=SMALL,
    objective="sop",
    optimizer="lamb",
    policy="float32",
    loss_scale=2.0**10,
    feed=None,
    remat=False,
    on_batch=None,
    **options,
):
    """The variables after some updates, and the totals of the last call."""
    with (strategy or tf.distribute.get_strategy()).scope():
        keras.utils.set_random_seed(1)
        model = AlbertPretrainer(config, sentence_objective=objective, dtype=policy, remat=remat)
        tools = create_optimizer(optimizer, init_lr=0.01, num_train_steps=20, num_warmup_steps=2)
        if policy == "mixed_float16":
            tools = keras.mixed_precision.LossScaleOptimizer(tools, initial_scale=loss_scale)
        tools.build(model.trainable_variables)
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
        feed = feed or DistributedBatches(batches(), None)
        terms = pretraining_loss_fn(objective)
        options |= {"replicas_per_batch": feed.replicas_per_batch, "on_batch": on_batch}
        spec = feed.dataset.element_spec
        train_step = TrainStep(model, tools, terms, spec, step=step, seed=3, **options)
        totals = train_step(iter(feed.dataset), tf.constant(updates))
    assert int(tf.convert_to_tensor(step)) == updates
    return [variable.numpy() for variable in model.trainable_variables], totals


def initial() -> list[np.ndarray]:
    """The variables that `trained` starts from."""
    keras.utils.set_random_seed(1)
    return [variable.numpy() for variable in AlbertPretrainer(SMALL).trainable_variables]


def assert_close(ours, theirs, tolerance=1e-5):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=tolerance, rtol=0)
