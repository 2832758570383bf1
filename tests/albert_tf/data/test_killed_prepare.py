"""`prepare` killed without a warning: what has its final name is whole, and the same command goes on."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from albert_tf.data.prepare import prepare

SHARDS = 6
SETTINGS = {"shards": SHARDS, "format": "examples", "seq_length": 48, "dupe_factor": 2}


def content(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.glob("*.tfrecord"))}


@pytest.mark.slow
def test_killed_and_started_again(tiny_corpus, tiny_vocabulary, tmp_path):
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    text = tiny_corpus.read_text()
    (tmp_path / "text.txt").write_text("\n\n".join(text.replace("the", f"the {i}") for i in range(20)))
    prepare(tmp_path / "text.txt", whole, tiny_vocabulary, report=lambda line: None, **SETTINGS)

    command = [sys.executable, "-m", "albert_tf", "prepare", "--input", str(tmp_path / "text.txt")]
    command += ["--vocabulary", str(tiny_vocabulary), "--output", str(folder)]
    command += [f"--{name}={value}" for name, value in SETTINGS.items()]
    with subprocess.Popen(command) as process:
        deadline = time.monotonic() + 120
        while not (folder.exists() and content(folder)):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    left = content(folder)
    assert 0 < len(left) < SHARDS
    assert not (folder / "stats.json").exists()
    for name, shard in left.items():
        assert shard == content(whole)[name]
        assert sum(1 for _ in tf.data.TFRecordDataset(str(folder / name))) > 0
    before = {name: (folder / name).stat().st_mtime_ns for name in left}
    subprocess.run(command, check=True)
    assert content(folder) == content(whole)
    counts = [json.loads((place / "stats.json").read_text())["counts"] for place in (folder, whole)]
    assert counts[0] == counts[1]
    # At most the shard that was renamed and not yet counted is made again.
    assert sum((folder / name).stat().st_mtime_ns != time for name, time in before.items()) <= 1
    assert {file.name for file in folder.iterdir()} == {*content(whole), "stats.json"}
