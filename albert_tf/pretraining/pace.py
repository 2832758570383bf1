"""How long the updates of a run take, measured before it begins."""

from __future__ import annotations

import statistics
import time

import tensorflow as tf
import tf_keras as keras

from albert_tf.training.engine import Job
from albert_tf.training.execution import Execution
from albert_tf.training.updates import replica_update, training_steps

FIRST_UPDATES = 2  # which trace, and fill the input pipeline
UPDATES = 20
SECONDS = 10  # after so many, fewer updates have to do


def seconds_per_update(job: Job, execution: Execution) -> list[float]:
    """What an update takes in each stretch of a run: the median of some, of a model that is then forgotten.

    Args:
      job: what is to be trained, made for the strategy that is current.
      execution: how updates are computed.
    Returns:
      Seconds, a figure a stretch.
    """
    model, optimizer = job.model(False), job.optimizer()
    if execution.precision == "float16":
        optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
    figures = []
    for stretch in job.stretches:
        feed = stretch.feed(job.seed)
        update = replica_update(
            model,
            optimizer,
            job.objective,
            replicas_per_batch=feed.replicas_per_batch,
            accumulate=execution.accumulate,
            xla=execution.xla,
            arguments=stretch.arguments,
        )
        train_steps = training_steps(update, job.objective.names, step, seed=job.seed)
        iterator = iter(feed.dataset)
        train_steps(iterator, tf.constant(FIRST_UPDATES))
        seconds: list[float] = []
        while len(seconds) < UPDATES and sum(seconds) < SECONDS:
            started = time.perf_counter()
            float(train_steps(iterator, tf.constant(1)).gradient_norm)  # which waits for its end
            seconds.append(time.perf_counter() - started)
        figures.append(statistics.median(seconds))
    return figures
