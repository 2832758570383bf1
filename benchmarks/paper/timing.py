"""Times training steps and forward passes of the published shapes."""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys

import tensorflow as tf

import albert_tf
from benchmarks.timers import time_calls


def time_updates_by_processes(preset: str, processes: int, layers: int) -> list[float]:
    """The seconds of steps of four rows of 128 tokens, which processes on this machine share."""
    sharing = albert_tf.PRESETS[preset].sharing
    flags = ["--preset", preset, "--sharing", sharing, "--batch_size", str(4 // processes), "--way", "plain"]
    flags += ["--layers", str(layers)]
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(processes)]
    workers = []
    for index in range(processes):
        cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        # On CPUs, since processes would share a GPU.
        environment = {
            **os.environ,
            "CUDA_VISIBLE_DEVICES": "",
            **({"TF_CONFIG": json.dumps(cluster)} if processes > 1 else {}),
        }
        command = [sys.executable, "-m", "benchmarks.update", *flags]
        workers.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate()[0] for process in workers]
    if any(process.returncode for process in workers):
        raise SystemExit(f"{preset} in {processes} processes failed")
    return json.loads(outputs[0])["seconds"]


def free_port() -> int:
    """The number of a port that no program listens at."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def time_forward_pass(preset: str, layers: int, rounds: int = 10) -> float:
    """The median seconds of a forward pass of 8 × 128 tokens; DistilBERT has half the layers."""
    config = albert_tf.PRESETS[preset]
    config = config.replace(num_hidden_layers=max(1, layers * config.num_hidden_layers // 12))
    encoder = albert_tf.AlbertEncoder(config)
    forward = tf.function(lambda inputs: encoder(inputs, training=False)["sequence_output"])
    ids = tf.random.uniform([8, 128], 1000, 28000, tf.int32, seed=1)
    inputs = {"input_word_ids": ids, "input_mask": tf.ones_like(ids)}
    return statistics.median(time_calls(lambda: forward(inputs).numpy(), rounds, warm_up=2))
