"""When the loop does what."""

import pytest

from albert_tf.errors import InputError
from albert_tf.training.compute_settings import ComputeConfig, LoopSettings, is_due


@pytest.mark.parametrize(
    "changes", [{"keep": 0}, {"log_every": -1}, *({"profile": text} for text in ("10", "3:3", "a:b", "-1:4"))]
)
def test_impossible_settings_are_refused(changes):
    with pytest.raises(InputError, match=next(iter(changes))):
        LoopSettings(**changes)


def test_a_batch_is_divided_without_a_rest():
    ComputeConfig(accumulate=2).check_divides(12, replicas=3)
    with pytest.raises(InputError, match="batch_size=12"):
        ComputeConfig(accumulate=4).check_divides(12, replicas=2)


def test_calls_end_where_something_is_due():
    settings = LoopSettings(log_every=4, eval_every=6, checkpoint_every=0)
    step, ends = 0, []
    while step < 25:
        step += settings.updates_until_next(step, 25)
        ends.append(step)
    assert ends == [4, 6, 8, 12, 16, 18, 20, 24, 25]
    profiled = LoopSettings(log_every=0, profile="3:7")
    assert [profiled.updates_until_next(step, 25) for step in (0, 3)] == [3, 4]


def test_the_last_update_is_due_for_everything():
    assert [step for step in range(1, 11) if is_due(4, step, 10)] == [4, 8, 10]
    assert [step for step in range(1, 11) if is_due(0, step, 10)] == [10]
