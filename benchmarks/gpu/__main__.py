"""Times this project on a GPU, and transformers on PyTorch where it is installed.

    python -m benchmarks.gpu --output gpu.jsonl           under ten minutes on one GPU
    python -m benchmarks.gpu --output gpu.jsonl --small   the same with tiny networks, for trying it on a CPU

Prints a JSON line for each case, and adds it to the file at once. Measures updates, forward passes and a
large matrix product, compiled and not: milliseconds, TFLOP/s, seconds of the first call, bytes of the device.
Then it runs commands: from text to a pre-trained run, a classifier and predictions. If the program is
interrupted, the finished lines are in the file.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("ours", "runs", "pytorch")


def main() -> None:
    """Prints the lines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("gpu.jsonl"),
        help="file of JSON lines; further lines are added to it (%(default)s)",
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help=f"({' '.join(PARTS)})")
    parser.add_argument(
        "--seconds", type=float, default=540, help="time after which no further case starts (540)"
    )
    parser.add_argument("--small", "--smoke", action="store_true", help="tiny networks")
    parser.add_argument(
        "--xla", default="", help="further flag of the training commands, such as --xla=--no-xla (none)"
    )
    flags = parser.parse_args()
    deadline = time.time() + flags.seconds
    with flags.output.open("a", encoding="utf-8") as file:
        for line in measure_parts(flags, deadline):
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(json.dumps(line), flush=True)


def measure_parts(flags: argparse.Namespace, deadline: float) -> Iterator[dict[str, Any]]:
    """The line of the machine, and a line for each case."""
    yield describe_machine()
    for part in flags.parts:
        if part == "runs":
            from benchmarks.gpu.runs import run_commands

            with tempfile.TemporaryDirectory() as folder:
                yield from run_commands(Path(folder), flags.small, flags.xla, deadline)
        elif part == "pytorch" and not all(map(importlib.util.find_spec, ("torch", "transformers"))):
            yield {"framework": "transformers", "left_out": "torch or transformers is not installed"}
        else:
            yield from run_worker(part, flags.small, deadline)


def run_worker(part: str, small: bool, deadline: float) -> Iterator[dict[str, Any]]:
    """The lines of a module of this folder, whose process has the device for itself."""
    command = [sys.executable, "-m", f"benchmarks.gpu.{part}", f"--deadline={deadline}"]
    command += ["--small"] if small else []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield from (json.loads(line) for line in process.stdout if line.startswith("{"))
    if process.returncode:
        yield {"part": part, "error": f"exit status {process.returncode}"}


def describe_machine() -> dict[str, Any]:
    """The GPUs, the CPUs and the versions of packages."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        gpus = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().splitlines()
    except (OSError, subprocess.CalledProcessError):
        gpus = []
    versions = {name: installed_version(name) for name in ("tensorflow", "torch", "transformers")}
    return {"gpus": gpus, "cpus": os.cpu_count(), "python": platform.python_version(), **versions}


def installed_version(package: str) -> str | None:
    """The version of a package; None: it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
