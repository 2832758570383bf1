"""Processes that train together over the loopback interface, by the scripts of examples/several_hosts."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import albert_tf
from albert_tf.cli import command_line_parser
from albert_tf.runs.checkpoints import checkpoint_steps
from tests.albert_tf.commands import ROOT, ends, pretraining, wait_for
from tests.albert_tf.training import two_hosts_script
from tests.albert_tf.training.hosts import ports
from tests.albert_tf.training.steps import assert_close, trained
from tests.tiny import TINY

pytestmark = pytest.mark.slow

HOSTS = 3

# What stands for Slurm: three nodes are this machine. As the real ones, `srun` ends with the highest status.
SLURM = {
    "scontrol": """
        if [ $1 = requeue ]; then echo $2 >> requeued; else for i in 0 1 2; do echo 127.0.0.1; done; fi
    """,
    "srun": """
        shift
        for i in 0 1 2; do
            SLURM_PROCID=$i "$@" > host-$i.log 2>&1 &
            echo $! > host-$i.pid
        done
        highest=0
        for i in 0 1 2; do
            wait $(cat host-$i.pid)
            status=$?
            echo $status > host-$i.status
            if [ $status -gt $highest ]; then highest=$status; fi
        done
        exit $highest
    """,
}


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    """A folder with the scripts, of other ports, and with programs that stand for a scheduler's."""
    folder = Path(shutil.copytree(ROOT / "examples/several_hosts", tmp_path / "several_hosts"))
    script = folder / "slurm.sh"
    script.write_text(script.read_text().replace("2222", str(ports(1)[0])))
    programs = {**SLURM, "albert-tf": f'exec {sys.executable} {two_hosts_script.__file__} "$OUTPUT" 10'}
    for name, text in programs.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/bash\n{text}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # they do not share a GPU
    return folder


def test_two_pods_update_as_one_device_does(scripts, tmp_path, monkeypatch):
    _, job = yaml.safe_load_all((scripts / "job.yaml").read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (text,) = container["args"]
    *_, line = text.replace("\\\n", " ").strip().splitlines()
    command_line_parser().parse_args(line.partition("albert-tf ")[2].split())
    pods = [f"albert-{index}.albert:2222" for index in range(job["spec"]["completions"])]
    assert " ".join(pods) in text and len(pods) == job["spec"]["parallelism"] == 2
    for pod, port in zip(pods, ports(len(pods)), strict=True):
        text = text.replace(pod, f"127.0.0.1:{port}")
    output, logs, processes = tmp_path / "variables.npz", [], []
    monkeypatch.setenv("OUTPUT", str(output))
    for index in range(len(pods)):
        logs.append(tmp_path / f"pod-{index}.log")
        with logs[-1].open("w") as log:
            environment = {**os.environ, "JOB_COMPLETION_INDEX": str(index)}
            words = [*container["command"], text]
            processes.append(subprocess.Popen(words, cwd=scripts, env=environment, stdout=log, stderr=log))
    assert ends(processes, logs) == [0, 0], logs[0].read_text()[-3000:]

    there = np.load(output)
    assert there["hosts"].tolist() == [0, 1]
    variables, totals = trained(updates=10)
    assert_close([there[f"arr_{index}"] for index in range(len(variables))], variables)
    np.testing.assert_allclose(there["loss"], totals.terms["mlm"].loss, rtol=1e-4)


def test_a_job_is_stopped_and_resumes_and_loses_a_host_and_resumes(
    scripts, tiny_corpus, tiny_vocabulary, tmp_path, monkeypatch
):
    """Forty updates by three hosts; the second is told to stop, later the third is killed."""
    changes = {"batch_size": 6, "steps": 40, "log_every": 1, "eval_every": 0, "checkpoint_every": 10}
    run = tmp_path / "run"
    words = pretraining(
        tiny_corpus, tiny_vocabulary, run, optimizer="adamw", strategy="multi_worker", **changes
    )
    monkeypatch.setenv("SLURM_JOB_NODELIST", "node[0-2]")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    logs = [scripts / f"host-{index}.log" for index in range(HOSTS)]

    def job(
        host: int | None = None, step: int = 0, notice: signal.Signals = signal.SIGTERM
    ) -> tuple[int, list]:
        """The status of a whole job and of its hosts, of which one gets a signal at a step."""
        for file in scripts.glob("host-*"):
            file.unlink()
        with (tmp_path / "job.log").open("w") as log:
            command = ["bash", "slurm.sh", sys.executable, "-m", "albert_tf", *words]
            process = subprocess.Popen(command, cwd=scripts, stdout=log, stderr=log)
        if host is not None:
            wait_for("", tmp_path / "job.log", [process])
            while not logs[0].exists():
                assert process.poll() is None
            wait_for(f"step {step}/", logs[0], [process])
            os.kill(int((scripts / f"host-{host}.pid").read_text()), notice)
        (status,) = ends([process], [tmp_path / "job.log", *filter(Path.exists, logs)])
        return status, [int((scripts / f"host-{index}.status").read_text()) for index in range(HOSTS)]

    assert job(1, 3, signal.SIGTERM) == (75, [75, 75, 75])
    assert (scripts / "requeued").read_text() == "7\n"
    (saved,) = checkpoint_steps(run)
    assert 3 <= saved < 40
    assert job(2, saved + 3, signal.SIGKILL) == (137, [75, 75, 137])
    assert (scripts / "requeued").read_text() == "7\n"
    for log in logs[:2]:
        last = log.read_text().strip().splitlines()[-1]
        assert re.search(r"another host .* does not answer any more \(\w+\): type the same", last)
    assert job() == (0, [0, 0, 0])
    assert max(checkpoint_steps(run)) == 40
    steps = {json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()}
    assert steps == set(range(1, 41))
    assert json.loads((run / "recipe.json").read_text())["replicas"] == HOSTS
    assert albert_tf.load(run).config.num_hidden_layers == TINY.num_hidden_layers
