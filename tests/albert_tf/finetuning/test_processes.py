"""Fine-tuning in processes that are killed, and in two that train together."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from albert_tf.checkpoints import checkpoint_steps
from albert_tf.tasks.examples.batches import few_lengths
from tests.albert_tf.finetuning.runs import CONFIG
from tests.albert_tf.pretraining.runs import metrics, weights
from tests.albert_tf.training.hosts import SECONDS, ends, start

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


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


def status(words, log, **variables):
    with log.open("ab") as file:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
        return subprocess.run(
            [sys.executable, *words], env=environment, stdout=file, stderr=file, timeout=SECONDS, check=False
        ).returncode


def test_two_hosts_train_as_one_does(words, tmp_path):
    changes = {"steps": 6, "dropout": 0.0, "classifier_dropout": 0.0, "eval_every": 3}
    logs = [tmp_path / "host-0.log", tmp_path / "host-1.log"]
    assert status(["-m", "albert_tf", *words(tmp_path / "one", **changes)], logs[0]) == 0
    command = ["-m", "albert_tf", *words(tmp_path / "two", **changes)]
    assert ends(start(command, logs), logs) == [0, 0], logs[0].read_text()[-3000:]
    assert json.loads((tmp_path / "two/recipe.json").read_text())["replicas"] == 2
    assert checkpoint_steps(tmp_path / "two") == checkpoint_steps(tmp_path / "one")
    expected, found = weights(tmp_path / "one", 6), weights(tmp_path / "two", 6)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-4, err_msg=name)
    one, two = ([x for x in metrics(tmp_path / name) if "eval_loss" in x] for name in ("one", "two"))
    for line, other in zip(one, two, strict=True):
        assert other == pytest.approx(line, rel=1e-3)


def test_a_compiled_run_has_a_program_for_each_of_few_lengths(words, tmp_path):
    """XLA writes down each that it compiles: of updates, and of evaluations."""
    dumps, log = tmp_path / "dumps", tmp_path / "log"
    changes = {"seq_length": 64, "batch_size": 4, "steps": 40, "eval_every": 10, "checkpoint_every": 0}
    flags = f"--xla_dump_to={dumps} --xla_dump_hlo_as_text"
    command = ["-m", "albert_tf", *words(tmp_path / "run", **changes), "--xla"]
    assert status(command, log, XLA_FLAGS=flags) == 0, log.read_text()[-3000:]
    names = [file.name for file in dumps.glob("*.before_optimizations.txt")]
    for program in ("gradients_of", "compute"):
        assert 1 < sum(program in name for name in names) <= len(few_lengths(64)), names
