"""Each benchmark's smallest setting runs to its end, by the command that its first lines name."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Of features that change, without a smallest setting; and what is no program.
WITHOUT = {"lite", "pipeline_runtimes", "smoke"}
BENCHMARKS = sorted({path.stem for path in (ROOT / "benchmarks").glob("*.py")} - WITHOUT)


def output_of(*words: str) -> str:
    """What a command prints; it may use two of the processors."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, *words, "--smoke"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_prints_its_figures(name):
    text = (ROOT / f"benchmarks/{name}.py").read_text("utf-8")
    command = re.search(
        r"^    (?:\S+=\S+ )?python (-m benchmarks\.\w+|benchmarks/\w+\.py)", text, re.MULTILINE
    )
    assert command, "the first lines name no command"
    assert re.search(r"\d", output_of(*command[1].split()))


@pytest.mark.slow
def test_the_gpus_benchmark_runs_on_a_cpu(tmp_path):
    lines = output_of(
        "-m", "benchmarks.gpu", f"--output={tmp_path / 'gpu.jsonl'}", "--parts=ours"
    ).splitlines()
    assert lines == (tmp_path / "gpu.jsonl").read_text().splitlines()
    assert any('"milliseconds"' in line for line in lines) and not any('"error"' in line for line in lines)


@pytest.mark.slow
def test_peers_that_other_environments_hold_read_text():
    """ONNX Runtime and OpenVINO from this one, transformers from that of `make test-slow`."""
    head, _, *rows = [
        line for line in output_of("-m", "benchmarks.peers").splitlines() if line.startswith("|")
    ]
    titles = [cell.strip() for cell in head.split("|")]
    assert [row.split("|")[1].strip() for row in rows] == ["forward-1x16-float32", "text-32x128-float32"]
    names = ["ours", "ONNX Runtime", "OpenVINO"]
    names += ["HF PyTorch"] if (ROOT / ".venv-interop/bin/python").exists() else []
    for row in rows:
        cells = dict(zip(titles, row.split("|"), strict=True))
        for name in names:  # a ratio, or the sentences a second, and no dash
            assert re.search(r"\d", cells[name]), f"{name}: {row}"
