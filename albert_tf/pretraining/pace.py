"""How long the updates of a run take, measured before it begins."""

from __future__ import annotations

import statistics
import time

import tensorflow as tf

from albert_tf.training.engine import Job, built_optimizer, stretch_steps
from albert_tf.training.execution import Execution

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
    model = job.model(False)
    optimizer = built_optimizer(job, model, execution)
    step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
    figures = []
    for stretch in job.stretches:
        feed = stretch.feed(job.seed)
        train_steps = stretch_steps(job, stretch, feed, model, optimizer, step, execution)
        iterator = iter(feed.dataset)
        train_steps(iterator, tf.constant(FIRST_UPDATES))
        seconds: list[float] = []
        while len(seconds) < UPDATES and sum(seconds) < SECONDS:
            started = time.perf_counter()
            float(train_steps(iterator, tf.constant(1)).gradient_norm)  # which waits for its end
            seconds.append(time.perf_counter() - started)
        figures.append(statistics.median(seconds))
    return figures
