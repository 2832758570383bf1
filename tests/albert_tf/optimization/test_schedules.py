import numpy as np
import tensorflow as tf

from albert_tf.optimization import WarmupPolynomialDecay


def rates(schedule, steps):
    return np.array([float(schedule(tf.constant(step, tf.int64))) for step in steps])


def test_google_schedule_by_hand():
    schedule = WarmupPolynomialDecay(8.0, num_train_steps=20, num_warmup_steps=4)
    # 8 · t/4, then 8 · (1 - t/20): the decay has been running since step 0, so 8 is never reached.
    np.testing.assert_allclose(
        rates(schedule, [0, 1, 3, 4, 10, 19, 20, 21, 1000]), [0, 2, 6, 6.4, 4, 0.4, 0, 0, 0], rtol=1e-6
    )


def test_decay_after_warmup_reaches_the_peak():
    schedule = WarmupPolynomialDecay(8.0, 20, 4, decay_after_warmup=True)
    np.testing.assert_allclose(rates(schedule, [0, 2, 4, 12, 20, 25]), [0, 4, 8, 4, 0, 0], rtol=1e-6)


def test_power_and_no_warmup():
    schedule = WarmupPolynomialDecay(8.0, 20, power=2.0)
    np.testing.assert_allclose(rates(schedule, [0, 10, 15]), [8, 2, 0.5], rtol=1e-6)
    full = WarmupPolynomialDecay(1.0, 10, 10, decay_after_warmup=True)
    np.testing.assert_allclose(rates(full, [9, 10]), [0.9, 0], rtol=1e-6)


def test_last_steps_of_ten_million_differ():
    # 1 - t/T in float32 would round to multiples of 6e-8, more than a whole step.
    schedule = WarmupPolynomialDecay(1.0, 40_000_000)
    left = np.array([5, 4, 3, 2, 1, 0])
    np.testing.assert_allclose(rates(schedule, 40_000_000 - left), left / 4e7, rtol=1e-6)


def test_in_a_graph():
    rate = tf.function(WarmupPolynomialDecay(8.0, 20, 4))(tf.constant(10, tf.int32))
    assert rate.dtype == tf.float32 and float(rate) == 4
