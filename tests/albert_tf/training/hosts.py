"""Processes on this machine that are the hosts of a strategy, and find each other over the loopback."""

import json
import socket
import subprocess
from pathlib import Path

from tests.albert_tf import commands


def ports(count: int) -> list[int]:
    """Ports of the loopback interface that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    numbers = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return numbers


def start(words: list, logs: list[Path]) -> list[subprocess.Popen]:
    """The same command on as many hosts as there are logs, which do not share a GPU: they take the CPU."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports(len(logs))]}
    tasks = [{"type": "worker", "index": index} for index in range(len(logs))]
    return [
        commands.start(
            words, log, TF_CONFIG=json.dumps({"cluster": cluster, "task": task}), CUDA_VISIBLE_DEVICES=""
        )
        for log, task in zip(logs, tasks, strict=True)
    ]
