"""Commands as users type them, in this process or in others."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from albert_tf import cli
from tests.tiny import TINY

ROOT = Path(__file__).parents[2]
SECONDS = 240


def mistake(capsys, *words, run=cli.run, status=2) -> str:
    """The one line that a wrong command line ends in; warnings of runs without metrics may come before it."""
    try:
        found = run([str(word) for word in words])
    except SystemExit as exit:
        found = exit.code
    output = capsys.readouterr()
    assert (found, output.out) == (status, "")
    lines = [line for line in output.err.splitlines() if "no step with a checkpoint has" not in line]
    assert len(lines) == 1, output.err
    assert lines[0].startswith("albert-tf" if run is cli.run else "python -m hub_export")
    return f"{lines[0]}\n"


def pretraining(corpus, vocabulary, output, config=TINY, /, **changes) -> list[str]:
    """The words of a command that trains a little; its config is written beside the output."""
    file = Path(output).parent / "tiny.json"
    file.write_text(config.to_json_string())
    flags = {
        "config": file, "train": corpus, "eval": corpus, "vocabulary": vocabulary, "output": output,
        "steps": 2, "warmup_steps": 1, "batch_size": 2, "seq_length": 32, **changes,
    }  # fmt: skip
    return words_of("pretrain", **flags)


def words_of(command: str, /, **flags: object) -> list[str]:
    """The words of a command, without the flags that are None."""
    given = {name: value for name, value in flags.items() if value is not None}
    return [command, *(str(word) for name, value in given.items() for word in (f"--{name}", value))]


def start(words: list, log: Path, **environment: str) -> subprocess.Popen:
    """A Python process; what it says is added to a file."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    with log.open("ab") as file:
        command = [sys.executable, *map(str, words)]
        return subprocess.Popen(command, env=environment, stdout=file, stderr=file)


def ends(processes: list[subprocess.Popen], logs: list[Path]) -> list[int]:
    """The exit statuses; what does not end in time is killed."""
    until = time.monotonic() + SECONDS
    try:
        return [process.wait(max(until - time.monotonic(), 1)) for process in processes]
    except subprocess.TimeoutExpired:
        pytest.fail("\n".join(log.read_text()[-3000:] for log in logs))
    finally:
        for process in processes:
            process.kill()
            process.wait()


def wait_for(text: str, log: Path, processes: list[subprocess.Popen], begin: int = 0) -> None:
    """Returns as soon as a process has said something after so many bytes of the log."""
    until = time.monotonic() + SECONDS
    while text.encode() not in log.read_bytes()[begin:]:
        assert all(process.poll() is None for process in processes), log.read_text()[-3000:]
        assert time.monotonic() < until, log.read_text()[-3000:]
        time.sleep(0.01)
