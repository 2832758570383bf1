"""Seconds of training steps and of forward passes of the published shapes."""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time

import tensorflow as tf

import albert_tf


def update_seconds(preset: str, processes: int, layers: int) -> list[float]:
    """The times of some steps of four rows of 128 tokens, divided among processes on this machine."""
    sharing = albert_tf.PRESETS[preset].sharing
    words = ["--preset", preset, "--sharing", sharing, "--batch_size", str(4 // processes), "--way", "plain"]
    words += ["--layers", str(layers)]
    workers = [f"127.0.0.1:{free_port()}" for _ in range(processes)]
    running = []
    for index in range(processes):
        cluster = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        # On CPUs, since processes would share a GPU.
        environment = {
            **os.environ,
            "CUDA_VISIBLE_DEVICES": "",
            **({"TF_CONFIG": json.dumps(cluster)} if processes > 1 else {}),
        }
        command = [sys.executable, "-m", "benchmarks.update", *words]
        running.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise SystemExit(f"{preset} in {processes} processes failed")
    return json.loads(outputs[0])["seconds"]


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return opened.getsockname()[1]


def forward_seconds(preset: str, layers: int, rounds: int = 10) -> float:
    """The median time of a forward pass of 8 × 128 tokens; DistilBERT has half the layers."""
    config = albert_tf.PRESETS[preset]
    config = config.replace(num_hidden_layers=max(1, layers * config.num_hidden_layers // 12))
    encoder = albert_tf.AlbertEncoder(config)
    forward = tf.function(lambda inputs: encoder(inputs, training=False)["sequence_output"])
    ids = tf.random.uniform([8, 128], 1000, 28000, tf.int32, seed=1)
    inputs = {"input_word_ids": ids, "input_mask": tf.ones_like(ids)}
    seconds = []
    for turn in range(rounds + 2):
        started = time.perf_counter()
        forward(inputs).numpy()
        if turn >= 2:
            seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)
