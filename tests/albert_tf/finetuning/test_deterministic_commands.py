"""--deterministic, which no process can turn off again: TensorFlow's function is replaced here."""

import pytest
import tensorflow as tf

from albert_tf import cli
from albert_tf.finetuning import finetuned_model
from albert_tf.finetuning.finetune import finetune


class Called(Exception):
    pass


def called():
    raise Called


def test_every_command_that_computes_has_the_flag(asked, finetuned, own_table, tmp_path, monkeypatch):
    """It is heeded before a run is begun or read."""
    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", called)
    with pytest.raises(Called):
        finetune(asked(deterministic=True))
    monkeypatch.setattr(finetuned_model, "load", lambda *arguments: pytest.fail("read before"))
    evaluate = ["evaluate", "--run", finetuned, "--eval", own_table]
    predict = ["predict", "--run", finetuned, "--input", own_table, "--output", tmp_path / "out.csv"]
    for words in (evaluate, predict):
        with pytest.raises(Called):
            cli.run([*map(str, words), "--deterministic"])
