"""A run that is killed again and again, wherever it hurts, ends with the weights of one left alone."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from albert_tf.checkpoints import checkpoint_steps
from tests.albert_tf.pretraining import killed_script
from tests.albert_tf.pretraining.runs import weights
from tests.tiny import TINY

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
STEPS = 30
SECONDS = 240

# In this order; each time but the first the run resumes from its last checkpoint.
KILLS = [
    ("updating", 5),
    ("writing the data", 2),
    ("before the index is renamed", 1),
    ("logging", 3),
    ("before the first file is renamed", 3),
    ("deleting an old checkpoint", 1),
]


@pytest.fixture
def command(tiny_corpus, tiny_vocabulary, tmp_path):
    """The words of a command that trains for so long into a folder, in two stages."""
    stages = tmp_path / "stages.json"
    stages.write_text('[{"until": 0.5, "num_hidden_layers": 1, "seq_length": 16}, {}]')
    config = tmp_path / "tiny.json"
    dropout = TINY.replace(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
    config.write_text(dropout.to_json_string())

    def words(output: Path) -> list[str]:
        flags = {
            "config": config, "train": tiny_corpus, "eval": tiny_corpus, "vocabulary": tiny_vocabulary,
            "output": output, "batch_size": 4, "seq_length": 32, "steps": STEPS, "warmup_steps": 2,
            "log_every": 1, "eval_every": 10, "checkpoint_every": 3, "keep": 2, "optimizer": "adamw",
            "stages": stages,
        }  # fmt: skip
        return ["pretrain", *(str(x) for name, value in flags.items() for x in (f"--{name}", value))]

    return words


def start(words: list[str], log: Path) -> subprocess.Popen:
    with log.open("ab") as file:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.Popen([sys.executable, *words], env=environment, stdout=file, stderr=file)


def status(process: subprocess.Popen) -> int:
    try:
        return process.wait(SECONDS)
    finally:
        process.kill()
        process.wait()


def kill_at_any_moment(process: subprocess.Popen, log: Path) -> None:
    """Kills it as soon as it is seen to train, whatever it is doing then."""
    before = log.stat().st_size
    until = time.monotonic() + SECONDS
    while b"step" not in log.read_bytes()[before:]:
        assert process.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)


def test_a_killed_run_ends_as_one_that_was_left_alone(command, tmp_path):
    alone, killed, log = tmp_path / "alone", tmp_path / "killed", tmp_path / "log"
    assert status(start(["-m", "albert_tf", *command(alone)], log)) == 0, log.read_text()[-3000:]
    words, reached = command(killed), []
    for moment, count in KILLS:
        process = start([killed_script.__file__, moment, str(count), *words], log)
        assert status(process) == -signal.SIGKILL, (moment, log.read_text()[-3000:])
        reached.append(max(checkpoint_steps(killed), default=0))
    process = start(["-m", "albert_tf", *words], log)
    kill_at_any_moment(process, log)
    assert status(process) == -signal.SIGKILL
    assert status(start(["-m", "albert_tf", *words], log)) == 0, log.read_text()[-3000:]

    assert reached == sorted(reached)
    assert len(set(reached)) > 2  # it got further between the kills
    expected, found = weights(alone), weights(killed)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    figures = [
        [
            (line["step"], line.get("loss"), line.get("eval_loss"))
            for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        ]
        for run in (alone, killed)
    ]
    assert figures[0] == figures[1]
    names = [sorted(path.name for path in (run / "checkpoints").iterdir()) for run in (alone, killed)]
    assert names[0] == names[1]
