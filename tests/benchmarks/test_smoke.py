"""Each benchmark's smallest setting runs to its end, by the command that its first lines name."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from albert_tf import PRESETS
from benchmarks import operations
from tests.benchmarks import smoke_script
from tests.tiny import TINY

ROOT = Path(__file__).resolve().parents[2]

# Programs without a smallest setting, and modules that are no programs.
WITHOUT = {
    "__init__", "finetuning_pytorch", "lite", "markdown_tables", "memory", "plots", "random_data", "smoke",
    "timers",
}  # fmt: skip
BENCHMARKS = sorted({path.stem for path in (ROOT / "benchmarks").glob("*.py")} - WITHOUT)


def needs_its_own_process(name: str) -> bool:
    """Whether a benchmark starts processes, or sets the number of TensorFlow's devices."""
    text = (ROOT / f"benchmarks/{name}.py").read_text("utf-8")
    return bool(re.search("import subprocess|run_module|time_process|set_logical_device_configuration", text))


TOGETHER = [name for name in BENCHMARKS if not needs_its_own_process(name)]


def run_smoke(*arguments: str) -> str:
    """The output of a command with --smoke."""
    return run_python(*arguments, "--smoke")


def run_python(*arguments: str) -> str:
    """The standard output of a program."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-3000:]
    return process.stdout


def benchmark_module(name: str) -> str:
    """The module of a benchmark, whose docstring names the command."""
    text = (ROOT / f"benchmarks/{name}.py").read_text("utf-8")
    assert re.search(rf"^    (\S+=\S+ )?python -m benchmarks\.{name}\b", text, re.MULTILINE)
    return f"benchmarks.{name}"


@pytest.fixture(scope="module")
def together(made_once) -> dict[str, tuple[str, str]]:
    """The output and the failure of each benchmark that runs in the common process, by module."""

    def write(folder):
        folder.mkdir()
        run_python(smoke_script.__file__, str(folder / "lines.jsonl"), *map(benchmark_module, TOGETHER))

    lines = (made_once("smoke", write) / "lines.jsonl").read_text("utf-8").splitlines()
    return {module: (printed, failure) for module, printed, failure in map(json.loads, lines)}


@pytest.mark.slow
@pytest.mark.parametrize("name", TOGETHER)
def test_a_benchmark_beside_others_prints_its_figures(name, together):
    printed, failure = together[benchmark_module(name)]
    assert not failure
    assert re.search(r"\d", printed)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*BENCHMARKS} - {*TOGETHER}))
def test_a_benchmark_prints_its_figures(name):
    assert re.search(r"\d", run_smoke("-m", benchmark_module(name)))


@pytest.mark.slow
def test_the_gpus_benchmark_runs_on_a_cpu(tmp_path):
    lines = run_smoke(
        "-m", "benchmarks.gpu", f"--output={tmp_path / 'gpu.jsonl'}", "--parts=ours"
    ).splitlines()
    assert lines == (tmp_path / "gpu.jsonl").read_text().splitlines()
    assert any('"milliseconds"' in line for line in lines) and not any('"error"' in line for line in lines)


@pytest.mark.slow
def test_peers_that_other_environments_hold_read_text():
    """ONNX Runtime and OpenVINO from this one, transformers from that of `make test-slow`."""
    head, _, *rows = [
        line for line in run_smoke("-m", "benchmarks.peers").splitlines() if line.startswith("|")
    ]
    titles = [cell.strip() for cell in head.split("|")]
    assert [row.split("|")[1].strip() for row in rows] == ["forward-1x16-float32", "text-32x128-float32"]
    names = ["ours", "ONNX Runtime", "OpenVINO"]
    names += ["HF PyTorch"] if (ROOT / ".venv-interop/bin/python").exists() else []
    for row in rows:
        cells = dict(zip(titles, row.split("|"), strict=True))
        for name in names:  # a ratio, or the sentences a second, and no dash
            assert re.search(r"\d", cells[name]), f"{name}: {row}"


# Operations of a forward pass are counted, and compiled chains are few of them.


def test_compiled_chains_are_one_operation_each(monkeypatch):
    monkeypatch.setitem(PRESETS, "tiny", TINY.replace(max_position_embeddings=operations.LENGTH))
    (_, plain), (_, fused) = (
        operations.count_operations("tiny", "float32", training=True, fused=fused) for fused in (False, True)
    )
    layers = TINY.num_hidden_layers
    calls = sum(count for kind, count in fused.items() if kind.endswith("PartitionedCall"))
    assert calls == 4 * layers  # the activation, softmax, two LayerNorms
    assert plain["MatMul"] == fused["MatMul"] > 4 * layers
    assert fused["Rsqrt"] == 1 < plain["Rsqrt"]  # that of the embeddings
    assert fused.total() < plain.total()
