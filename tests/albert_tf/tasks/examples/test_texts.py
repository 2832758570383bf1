import pytest

from albert_tf.tasks.examples.texts import takes_pairs


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"task": "cola"}, False),
        ({"task": "rte"}, True),
        ({"task": "classification"}, None),
        ({"columns": {"text": "a"}}, False),
        ({"columns": {"text": "a", "text_pair": "b"}}, True),
        ({"takes_pairs": True, "columns": {"text": "a"}}, True),
    ],
)
def test_runs_that_say_what_they_take(config, expected):
    assert takes_pairs(config) is expected
