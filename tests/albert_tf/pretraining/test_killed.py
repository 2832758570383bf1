"""A run that is killed again and again, wherever it hurts, ends with the weights of one left alone."""

import json
import signal

import numpy as np
import pytest

from albert_tf.runs.checkpoints import checkpoint_steps
from tests.albert_tf.commands import ends, pretraining, start, wait_for
from tests.albert_tf.pretraining import killed_script
from tests.albert_tf.pretraining.runs import weights
from tests.tiny import TINY

pytestmark = pytest.mark.slow

STEPS = 30

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
    config = TINY.replace(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
    often = {"log_every": 1, "eval_every": 10, "checkpoint_every": 3, "keep": 2}
    changes = {"batch_size": 4, "steps": STEPS, "optimizer": "adamw", "stages": stages, **often}
    return lambda output: pretraining(tiny_corpus, tiny_vocabulary, output, config, **changes)


def test_a_killed_run_ends_as_one_that_was_left_alone(command, tmp_path):
    alone, killed, log = tmp_path / "alone", tmp_path / "killed", tmp_path / "log"
    assert ends([start(["-m", "albert_tf", *command(alone)], log)], [log]) == [0], log.read_text()[-3000:]
    words, reached = command(killed), []
    for moment, count in KILLS:
        process = start([killed_script.__file__, moment, count, *words], log)
        assert ends([process], [log]) == [-signal.SIGKILL], (moment, log.read_text()[-3000:])
        reached.append(max(checkpoint_steps(killed), default=0))
    begin = log.stat().st_size
    process = start(["-m", "albert_tf", *words], log)
    wait_for("step", log, [process], begin)  # and kills it whatever it is doing then
    process.send_signal(signal.SIGKILL)
    assert ends([process], [log]) == [-signal.SIGKILL]
    assert ends([start(["-m", "albert_tf", *words], log)], [log]) == [0], log.read_text()[-3000:]

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
