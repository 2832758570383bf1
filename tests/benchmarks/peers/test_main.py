"""The command line: names for patterns, and mistakes in a line."""

import os
import sys

import pytest

import benchmarks.peers.__main__ as main
from benchmarks.peers import rounds


@pytest.fixture
def flags(monkeypatch, tmp_path):
    """The flags of a command line, where ONNX Runtime alone is installed."""
    (tmp_path / "onnx-runtime/bin").mkdir(parents=True)
    (tmp_path / "onnx-runtime/bin/python").touch()
    monkeypatch.setattr(rounds, "ENVIRONMENTS", tmp_path)

    def read(*words):
        monkeypatch.setattr(sys, "argv", ["peers", *words])
        return main.read_flags()

    return read


def test_ours_is_always_there_and_comes_first(flags):
    options = flags("--peers", "onnx*", "matmul", "--cases", "forward-1x16-*")
    assert options.peers == ["ours", "matmul", "onnx_runtime"]
    assert options.cases == ["forward-1x16-float32", "forward-1x16-bfloat16"]
    assert options.threads == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--peers", "open*"], "/openvino/bin/python is missing: `make bench` makes it"),
        (["--peers", "matmul", "--cases", "backward"], "backward is none of forward-1x16-float32, "),
        (["--peers", "tf"], "tf is none of ours, ours_frozen, matmul, "),
        (["--peers", "ours", "--sentences", "a.tsv"], "--sentences and --vocabulary go together"),
    ],
)
def test_mistakes(flags, words, told, capsys):
    with pytest.raises(SystemExit):
        flags(*words)
    assert told in capsys.readouterr().err.splitlines()[-1]
