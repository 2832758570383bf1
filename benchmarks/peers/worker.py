"""A program that is compared, in its process: asked and answering by lines of JSON.

    python -m benchmarks.peers.worker PEER '{"folder": …, "precision": …, "threads": …}'

It says how many parameters its network has, `{"parameters": n}`, and then answers each line of its standard
input by one on its standard output, until that ends:

    {"do": "prepare", "case": NAME}            {"seconds": s, "difference": d}
    {"do": "run", "case": NAME, "times": n}    {"seconds": [s, …], "peak": bytes}

`prepare` traces, compiles and warms up; the seconds are of the last warm call, the difference is the largest
from what our encoder answers, or null where there is nothing to compare. The peak is of resident memory
during that turn. Where something fails the answer is `{"error": text}`. Between two lines the process waits.
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

from benchmarks.peers.compared import (
    CASES,
    FORWARD,
    PEERS,
    TEXT,
    UPDATE,
    Case,
    Setting,
    encoder_inputs,
    pretraining_batch,
    read_config,
)

WARM_UP = 2  # calls; the first traces and compiles


def main() -> None:
    """Serves until the standard input ends."""
    answers = own_stdout()
    name, setting = sys.argv[1], Setting(**json.loads(sys.argv[2]))
    peer = PEERS[name]
    network = importlib.import_module(f"benchmarks.peers.programs.{peer.module}").Network(setting)
    tell(answers, {"parameters": network.parameters()})
    serve(network, setting.place, sys.stdin, answers)


def own_stdout() -> TextIO:
    """The standard output, for answers alone: what libraries print goes to the standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def tell(answers: TextIO, answer: dict[str, Any]) -> None:
    """Sends a line."""
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def serve(network: Any, folder: Path, questions: TextIO, answers: TextIO) -> None:
    """Answers every line, also where that fails."""
    calls: dict[str, Callable[[], Any]] = {}
    for line in questions:
        question = json.loads(line)
        name = question["case"]
        try:
            if name not in calls:
                calls[name] = call_of(network, CASES[name], folder)
            if question["do"] == "prepare":
                tell(answers, prepared(calls[name], CASES[name], folder))
            else:
                tell(answers, timed(calls[name], question["times"]))
        except Exception as error:  # whatever a library raises; who asks decides
            traceback.print_exc()
            tell(answers, {"error": f"{type(error).__name__}: {first_line(error)}"})


def first_line(error: Exception) -> str:
    """What an error says, short."""
    return next(iter(str(error).strip().splitlines()), "")[:300]


def call_of(network: Any, case: Case, folder: Path) -> Callable[[], Any]:
    """The function of a case: its answer as a float32 array, or the loss."""
    vocab_size = read_config(folder)["vocab_size"]
    if case.kind == FORWARD:
        return network.forward(encoder_inputs(case, vocab_size))
    if case.kind == UPDATE:
        return network.update(pretraining_batch(case, vocab_size))
    sentences = json.loads((folder / "sentences.json").read_text("utf-8"))
    batches = [sentences[start : start + case.batch] for start in range(0, len(sentences), case.batch)]
    answer = network.text()
    return lambda: np.concatenate([answer(batch) for batch in batches])


def prepared(call: Callable[[], Any], case: Case, folder: Path) -> dict[str, Any]:
    """Warms up, and compares the answer with ours."""
    for _ in range(WARM_UP):
        started = time.perf_counter()
        answer = call()
        seconds = time.perf_counter() - started
    return {"seconds": seconds, "difference": difference(answer, case, folder)}


def difference(answer: Any, case: Case, folder: Path) -> float | None:
    """The largest difference of pooled outputs from ours.

    Raises:
      ValueError: the answer is not finite, or has another shape.
    """
    if not np.all(np.isfinite(answer)):
        raise ValueError("the answer is not finite")
    file = folder / f"expected-{case.kind}-{case.batch}x{case.length}.npy"
    if np.ndim(answer) == 0 or not file.exists():
        return None
    expected = np.load(file)
    found = np.asarray(answer, np.float32)[: len(expected)] if case.kind == TEXT else answer
    if np.shape(found) != expected.shape:
        raise ValueError(f"the pooled output has shape {np.shape(found)}, not {expected.shape}")
    return float(np.abs(found - expected).max())


def timed(call: Callable[[], Any], times: int) -> dict[str, Any]:
    """Seconds of each call, and the peak of resident memory meanwhile, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return {"seconds": seconds, "peak": peak_memory()}


def peak_memory() -> int:
    """The most bytes of memory that were resident since the peak was last forgotten."""
    status = Path("/proc/self/status").read_text("utf-8")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
