import pytest

from albert_tf.inference.arguments import TASKS, source_and_task
from albert_tf.tasks import KINDS
from albert_tf.utils.errors import InputError


@pytest.mark.parametrize("task", TASKS)
def test_either_may_come_first(task):
    for arguments in (("run", task, None), (task, "run", None), (task, None, "run"), (None, task, "run")):
        assert source_and_task(*arguments) == ("run", task)
    assert set(TASKS[task]) <= KINDS.keys()


def test_a_folder_may_be_called_like_a_task():
    assert source_and_task("ner", None, None) == ("ner", None)
    assert source_and_task("ner", "fill-mask", None) == ("ner", "fill-mask")
    assert source_and_task("ner", None, "run") == ("run", "ner")
    assert source_and_task(None, None, "ner") == ("ner", None)


@pytest.mark.parametrize("arguments", [("run", None, "run"), ("ner", "run", "run"), ("run", "other", None)])
def test_two_of_one(arguments):
    with pytest.raises(InputError, match=r"source='run' and model='run'|task='other' is none of"):
        source_and_task(*arguments)
