import pytest

from albert_tf.tasks.datasets.glue import GLUE
from albert_tf.tasks.examples.texts import takes_pairs


@pytest.mark.parametrize("task", GLUE)
def test_of_glue(task):
    assert takes_pairs({"task": task}) is (GLUE[task].columns.text_pair is not None)


def test_of_ones_own_data():
    assert takes_pairs({"task": "classification"}) is None
    assert takes_pairs({"columns": {"text": "a"}}) is False
    assert takes_pairs({"columns": {"text": "a", "text_pair": None}}) is False
    assert takes_pairs({"columns": {"text": "a", "text_pair": "b"}}) is True
    assert takes_pairs({"takes_pairs": True}) is True
    assert takes_pairs({"takes_pairs": False}) is False
