"""When the loop does what."""

import pytest

from albert_tf.training.settings import LoopSettings, is_due


@pytest.mark.parametrize("changes", [{"keep": 0}, {"log_every": -1}, {"eval_every": -5}])
def test_impossible_intervals_are_refused(changes):
    with pytest.raises(ValueError, match="must be at least"):
        LoopSettings(**changes)


@pytest.mark.parametrize("profile", ["10", "3:3", "7:2", "a:b", "-1:4"])
def test_impossible_profiles_are_refused(profile):
    with pytest.raises(ValueError, match="is not START:STOP"):
        LoopSettings(profile=profile)


def test_calls_end_where_something_is_due():
    settings = LoopSettings(log_every=4, eval_every=6, checkpoint_every=0)
    step, ends = 0, []
    while step < 25:
        step += settings.updates_until_next(step, 25)
        ends.append(step)
    assert ends == [4, 6, 8, 12, 16, 18, 20, 24, 25]
    assert LoopSettings(log_every=0, profile="3:7").updates_until_next(0, 25) == 3
    assert LoopSettings(log_every=0, profile="3:7").updates_until_next(3, 25) == 4


def test_the_last_update_is_due_for_everything():
    assert [step for step in range(1, 11) if is_due(4, step, 10)] == [4, 8, 10]
    assert [step for step in range(1, 11) if is_due(0, step, 10)] == [10]
