import numpy as np
import tensorflow as tf

from albert_tf.optimization.lamb import lamb, trust_ratio


def test_trust_ratio():
    x, u, zero = tf.constant([[3.0], [4.0]]), tf.constant([[0.0], [10.0]]), tf.zeros([2, 1])
    assert [float(trust_ratio(a, b)) for a, b in ((x, u), (zero, u), (x, zero))] == [0.5, 1, 1]


def test_one_step_in_float64_by_hand():
    generator = np.random.default_rng(0)
    x, g, m = generator.normal(size=[3, 4, 2])
    v = generator.uniform(0.1, 1, size=[4, 2])
    got = lamb(*map(tf.constant, (x, g, m, v)), lr=0.1, beta_1=0.9, beta_2=0.99, epsilon=1e-3, decay=0.2)
    m = 0.9 * m + 0.1 * g
    v = 0.99 * v + 0.01 * g * g
    u = m / (np.sqrt(v) + 1e-3) + 0.2 * x
    x = x - 0.1 * np.linalg.norm(x) / np.linalg.norm(u) * u
    for actual, expected in zip(got, (x, m, v), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-12)
