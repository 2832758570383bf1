"""Processes on this machine that are the hosts of a strategy, and find each other over the loopback."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SECONDS = 240


def ports(count: int) -> list[int]:
    """Ports of the loopback interface that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    numbers = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return numbers


def start(command: list, logs: list[Path]) -> list[subprocess.Popen]:
    """The same command on as many hosts as there are logs."""
    addresses = [f"127.0.0.1:{port}" for port in ports(len(logs))]
    processes = []
    for index, log in enumerate(logs):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        environment = {
            **os.environ,
            "TF_CONFIG": json.dumps(config),
            "PYTHONPATH": str(ROOT),
        }
        with log.open("ab") as file:
            processes.append(
                subprocess.Popen(
                    [sys.executable, *map(str, command)], env=environment, stdout=file, stderr=file
                )
            )
    return processes


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
