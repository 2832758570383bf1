"""The process of a compared program, which reads requests and writes responses as lines of JSON.

    python -m benchmarks.peers.worker PEER '{"folder": …, "precision": …, "threads": …}'

It writes the number of parameters of its network, `{"parameters": n}`. Then it responds to each line of the
standard input with a line on the standard output, until the input ends:

    {"do": "prepare", "case": NAME}            {"seconds": s, "difference": d}
    {"do": "run", "case": NAME, "times": n}    {"seconds": [s, …], "peak": bytes}

`prepare` traces, compiles and warms up. Its seconds are those of the last call; the difference is the largest
difference from our pooled outputs, null where there is none to compare with. The peak is the largest resident
memory during the calls. The response to a request that fails is `{"error": text}`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from benchmarks.peers.cases import CASES, FORWARD, PEERS, TEXT, UPDATE, Case, Setting, read_config
from benchmarks.random_data import random_batch, random_inputs
from benchmarks.timers import time_calls

WARM_UP = 2  # calls; the first traces and compiles


def main() -> None:
    """Serves until the standard input ends."""
    output = reserve_stdout()
    name, setting = sys.argv[1], Setting(**json.loads(sys.argv[2]))
    peer = PEERS[name]
    network = importlib.import_module(f"benchmarks.peers.programs.{peer.module}").Network(setting)
    send(output, {"parameters": network.parameters()})
    serve(network, setting.path, sys.stdin, output)


def reserve_stdout() -> TextIO:
    """The standard output, for responses alone: from now on libraries print to the standard error."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return output


def send(output: TextIO, response: dict[str, Any]) -> None:
    """Writes a response as a line."""
    output.write(json.dumps(response) + "\n")
    output.flush()


def serve(network: Any, folder: Path, requests: TextIO, output: TextIO) -> None:
    """Responds to every request, also to those that fail."""
    calls: dict[str, Callable[[], Any]] = {}
    for line in requests:
        request = json.loads(line)
        name = request["case"]
        try:
            if name not in calls:
                calls[name] = create_call(network, CASES[name], folder)
            if request["do"] == "prepare":
                send(output, prepare_call(calls[name], CASES[name], folder))
            else:
                send(output, measure_calls(calls[name], request["times"]))
        except Exception as error:  # libraries raise anything; the caller decides
            traceback.print_exc()
            send(output, {"error": f"{type(error).__name__}: {first_line(error)}"})


def first_line(error: Exception) -> str:
    """The first line of an error's message, shortened."""
    return next(iter(str(error).strip().splitlines()), "")[:300]


def create_call(network: Any, case: Case, folder: Path) -> Callable[[], Any]:
    """The function of a case, which returns pooled outputs (float32) or a loss."""
    vocab_size = read_config(folder)["vocab_size"]
    if case.kind == FORWARD:
        return network.forward(random_inputs(case.batch, case.length, vocab_size))
    if case.kind == UPDATE:
        return network.update(random_batch(case.batch, case.length, case.predictions, vocab_size))
    sentences = json.loads((folder / "sentences.json").read_text("utf-8"))
    batches = [sentences[start : start + case.batch] for start in range(0, len(sentences), case.batch)]
    compute = network.text()
    return lambda: np.concatenate([compute(batch) for batch in batches])


def prepare_call(call: Callable[[], Any], case: Case, folder: Path) -> dict[str, Any]:
    """Warms a function up, and compares its output with ours."""
    for _ in range(WARM_UP):
        start = time.perf_counter()
        output = call()
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "difference": max_difference_from_ours(output, case, folder)}


def max_difference_from_ours(output: Any, case: Case, folder: Path) -> float | None:
    """The largest difference of pooled outputs from ours; None for a loss.

    Raises:
      ValueError: the output is not finite, or has another shape.
    """
    if not np.all(np.isfinite(output)):
        raise ValueError("the answer is not finite")
    file = folder / f"expected-{case.kind}-{case.batch}x{case.length}.npy"
    if np.ndim(output) == 0 or not file.exists():
        return None
    expected = np.load(file)
    actual = np.asarray(output, np.float32)[: len(expected)] if case.kind == TEXT else output
    if np.shape(actual) != expected.shape:
        raise ValueError(f"the pooled output has shape {np.shape(actual)}, not {expected.shape}")
    return float(np.abs(actual - expected).max())


def measure_calls(call: Callable[[], Any], times: int) -> dict[str, Any]:
    """The seconds of each call, and the peak of resident memory during the calls, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    return {"seconds": time_calls(call, times), "peak": peak_memory()}


def peak_memory() -> int:
    """The peak of resident memory since its last reset, in bytes."""
    status = Path("/proc/self/status").read_text("utf-8")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
