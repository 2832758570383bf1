"""Figures of several updates."""

from albert_tf.model.losses import Term
from albert_tf.training.interval import Interval
from albert_tf.training.updates import Totals


def test_interval_is_the_mean_of_its_updates():
    interval = Interval()
    totals = Totals({"mlm": Term(6.0, 1.0, 4.0)}, gradient_norm=2.0, failed=0, input_wait=0.5)
    interval.add(totals, examples=10, seconds=1.0)
    interval.add(totals._replace(gradient_norm=3.0), examples=10, seconds=3.0)
    assert interval.figures(seq_length=8) == {
        "loss": 1.5,
        "mlm_loss": 1.5,
        "mlm_accuracy": 0.25,
        "gradient_norm": 3.0,
        "examples_per_second": 5.0,
        "tokens_per_second": 40.0,
        "input_wait": 0.25,
    }
