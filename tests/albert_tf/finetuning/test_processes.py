"""Fine-tuning in two processes that train together."""

import json

import numpy as np
import pytest

from albert_tf.runs.checkpoints import checkpoint_steps
from tests.albert_tf.commands import ends
from tests.albert_tf.finetuning.runs import CONFIG
from tests.albert_tf.pretraining.runs import metrics, weights
from tests.albert_tf.training.hosts import start

pytestmark = pytest.mark.slow


@pytest.fixture
def words(own_table, tiny_vocabulary, tmp_path):
    """The words of a command that fine-tunes into a folder."""
    config = tmp_path / "tiny.json"
    config.write_text(CONFIG.to_json_string())

    def make(output, **changes):
        flags = {
            "task": "classification", "train": own_table, "eval": own_table, "text": "text", "label": "kind",
            "config": config, "vocabulary": tiny_vocabulary, "output": output, "batch_size": 8,
            "seq_length": 32, "steps": 18, "warmup_steps": 2, "learning_rate": 0.001, "dropout": 0.1,
            "log_every": 1, "eval_every": 6, "checkpoint_every": 3, "keep": 2, **changes,
        }  # fmt: skip
        return ["finetune", *(str(x) for name, value in flags.items() for x in (f"--{name}", value))]

    return make


def test_two_hosts_train_as_one_does(words, tmp_path):
    changes = {"steps": 6, "dropout": 0.0, "classifier_dropout": 0.0, "eval_every": 3}
    logs = [tmp_path / "host-0.log", tmp_path / "host-1.log"]
    for name, hosts in (("one", logs[:1]), ("two", logs)):
        command = ["-m", "albert_tf", *words(tmp_path / name, **changes)]
        assert ends(start(command, hosts), hosts) == [0] * len(hosts), logs[0].read_text()[-3000:]
    assert json.loads((tmp_path / "two/recipe.json").read_text())["replicas"] == 2
    assert checkpoint_steps(tmp_path / "two") == checkpoint_steps(tmp_path / "one")
    expected, found = weights(tmp_path / "one", 6), weights(tmp_path / "two", 6)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-4, err_msg=name)
    one, two = ([x for x in metrics(tmp_path / name) if "eval_loss" in x] for name in ("one", "two"))
    for line, other in zip(one, two, strict=True):
        assert other == pytest.approx(line, rel=1e-3)
