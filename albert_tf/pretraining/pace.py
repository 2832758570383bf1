"""The time that the updates of a run take, measured before it begins."""

from __future__ import annotations

import statistics
import time

import tensorflow as tf

from albert_tf.training.phases import Training

FIRST_UPDATES = 2  # which trace, and fill the input pipeline
UPDATES = 20
SECONDS = 10  # after so many, fewer updates have to do


def seconds_per_update(training: Training) -> list[float]:
    """The time of an update in each phase of a run, in seconds: the median of some."""
    step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
    medians = []
    for phase in training.phases:
        feed = phase.batches(training.seed)
        train_steps = training.train_steps(phase, feed, step)
        iterator = iter(feed.dataset)
        train_steps(iterator, FIRST_UPDATES)
        seconds: list[float] = []
        while len(seconds) < UPDATES and sum(seconds) < SECONDS:
            started = time.perf_counter()
            float(train_steps(iterator, 1).gradient_norm)  # which waits for its end
            seconds.append(time.perf_counter() - started)
        medians.append(statistics.median(seconds))
    return medians
