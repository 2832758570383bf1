"""Two processes that train together over the loopback interface."""

import json
import re
import signal

import numpy as np
import pytest

import albert_tf
from albert_tf.runs.checkpoints import checkpoint_steps
from tests.albert_tf.commands import ends, pretraining, wait_for
from tests.albert_tf.training import two_hosts_script
from tests.albert_tf.training.hosts import start
from tests.albert_tf.training.steps import assert_close, trained
from tests.tiny import TINY

pytestmark = pytest.mark.slow


@pytest.fixture
def logs(tmp_path):
    return [tmp_path / "host-0.log", tmp_path / "host-1.log"]


def test_two_hosts_update_as_one_device_does(logs, tmp_path):
    output = tmp_path / "variables.npz"
    statuses = ends(start([two_hosts_script.__file__, output, 10], logs), logs)
    assert statuses == [0, 0], logs[0].read_text()[-3000:]
    there = np.load(output)
    assert there["hosts"].tolist() == [0, 1]
    variables, totals = trained(updates=10)
    assert_close([there[f"arr_{index}"] for index in range(len(variables))], variables)
    np.testing.assert_allclose(there["loss"], totals.terms["mlm"].loss, rtol=1e-4)


@pytest.fixture
def command(tiny_corpus, tiny_vocabulary, tmp_path):
    """The command line of forty updates, into `run`."""
    changes = {"batch_size": 4, "steps": 40, "log_every": 1, "eval_every": 0, "checkpoint_every": 0}
    words = pretraining(tiny_corpus, tiny_vocabulary, tmp_path / "run", optimizer="adamw", **changes)
    return ["-m", "albert_tf", *words]


def start_until_step_3(command, logs):
    hosts = start(command, logs)
    wait_for("step 3/", logs[0], hosts)
    return hosts


def test_a_host_that_loses_the_other_says_so_and_what_to_do(command, logs):
    hosts = start_until_step_3(command, logs)
    hosts[1].kill()
    statuses = ends(hosts, logs)
    last = logs[0].read_text().strip().splitlines()[-1]
    assert statuses == [75, -signal.SIGKILL], last
    assert re.search(r"another host .* does not answer any more \(\w+\): type the same", last)


def test_a_notice_to_one_host_stops_both_and_the_same_command_resumes(command, logs, tmp_path):
    run = tmp_path / "run"
    hosts = start_until_step_3(command, logs)
    hosts[1].send_signal(signal.SIGTERM)  # the host that does not write
    statuses = ends(hosts, logs)
    assert statuses == [75, 75], "\n".join(log.read_text()[-3000:] for log in logs)
    (saved,) = checkpoint_steps(run)
    assert 3 <= saved < 40
    assert ends(start(command, logs), logs) == [0, 0], logs[0].read_text()[-3000:]
    assert checkpoint_steps(run) == [saved, 40]
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert sorted(set(steps)) == list(range(1, 41))
    assert json.loads((run / "recipe.json").read_text())["replicas"] == 2
    assert albert_tf.load(run).config.num_hidden_layers == TINY.num_hidden_layers
