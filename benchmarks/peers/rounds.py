"""Runs the programs in processes of their own, one after the other, round by round."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.peers.cases import OURS, PEERS, UPDATE, Case, Setting
from benchmarks.peers.results import Turn
from benchmarks.peers.worker_process import WorkerError, WorkerProcess

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / ".venv-peers"

TURN_SECONDS = 0.5  # of a turn, if a call takes less
MAX_CALLS = 20  # of a turn
# Largest allowed difference from our pooled outputs, which lie between -1 and 1.
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.1}

Turns = dict[Case, dict[str, list["Turn | None"]]]


def measure(names: Sequence[str], cases: Sequence[Case], folder: Path, threads: int, rounds: int) -> Turns:
    """Measures peers in cases of one kind and precision; a turn is None where a peer failed or did not run.

    All processes run at the same time, except for updates: after an update TensorFlow keeps gigabytes for the
    next one, so each peer runs with ours alone. Each such pair has its own rounds.
    """
    turns: Turns = {case: {name: [] for name in names} for case in cases}
    peers = [name for name in names if name != OURS]
    groups = [[name] for name in peers] if cases[0].kind == UPDATE else [peers]
    start = functools.partial(start_programs, folder=folder, precision=cases[0].precision, threads=threads)
    with start([OURS]) as ours:
        for group in groups or [[]]:
            with start(group) as programs:
                for case, group_turns in take_turns({**ours, **programs}, cases, rounds).items():
                    for name in names:
                        turns[case][name] += group_turns.get(name, [None] * rounds)
    return turns


def take_turns(programs: Mapping[str, WorkerProcess], cases: Sequence[Case], rounds: int) -> Turns:
    """Measures every program in every case; a turn is None where a program cannot run the case.

    All programs are warmed up first. In a round, all programs run a case one after the other before the next
    case begins, so that compared times lie within seconds.
    """
    turns: Turns = {case: {name: [] for name in programs} for case in cases}
    calls = {case: warm_up(programs, case) for case in cases}
    for number in range(rounds):
        log(f"{cases[0].kind}, {cases[0].precision}: round {number + 1} of {rounds}")
        for case in cases:
            for name, program in programs.items():
                turns[case][name].append(run_turn(program, case, calls[case].get(name)))
    return turns


def warm_up(programs: Mapping[str, WorkerProcess], case: Case) -> dict[str, int]:
    """Warms the programs up for a case; the number of calls in a turn, for each program that runs it."""
    calls = {}
    for name, program in programs.items():
        if not PEERS[name].supports(case):
            continue
        try:
            response = program.request({"do": "prepare", "case": case.name})
            seconds, difference = response["seconds"], response["difference"]
            if (difference or 0) > TOLERANCE[case.precision]:
                raise WorkerError(f"{name}: {case.name} is {difference:.2g} away from our answer")
        except WorkerError as error:
            log(str(error))
            continue
        calls[name] = max(1, min(MAX_CALLS, round(TURN_SECONDS / seconds)))
        distance = "" if difference is None else f", {difference:.1e} from ours"
        log(f"{name}: {case.name} takes {seconds:.3g} s{distance}")
    return calls


def run_turn(program: WorkerProcess, case: Case, calls: int | None) -> Turn | None:
    """Measures a program for one turn; None where it fails, or where `calls` is None."""
    if calls is None:
        return None
    try:
        return Turn(**program.request({"do": "run", "case": case.name, "times": calls}))
    except WorkerError as error:
        log(str(error))
        return None


@contextmanager
def start_programs(
    names: Sequence[str], folder: Path, precision: str, threads: int
) -> Iterator[dict[str, WorkerProcess]]:
    """The processes of programs that started, and whose encoders have as many parameters as ours."""
    expected = json.loads((folder / "facts.json").read_text("utf-8"))["parameters"]
    with ExitStack() as stack:
        programs = {}
        for name in names:
            peer = PEERS[name]
            setting = Setting(str(folder), precision, threads, peer.options)
            command = [str(python_of(name)), "-m", "benchmarks.peers.worker", name]
            command.append(json.dumps(setting._asdict()))
            environment = {**process_environment(threads), **peer.variables}
            programs[name] = WorkerProcess(name, command, environment, folder / f"{name}.log")
            stack.callback(programs[name].close)
        for name, program in list(programs.items()):
            try:
                parameters = program.read_start()["parameters"]
                if parameters not in (None, expected):
                    raise WorkerError(f"{name}: {parameters:,} parameters, not {expected:,}")
            except WorkerError as error:
                log(str(error))
                del programs[name]
        yield programs


def python_of(name: str) -> Path:
    """The interpreter of a peer."""
    environment = PEERS[name].environment
    return ENVIRONMENTS / environment / "bin/python" if environment else Path(sys.executable)


def process_environment(threads: int) -> dict[str, str]:
    """The environment variables of a program."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "passive",  # threads that spin would take the cores from the next program
        "TF_NUM_INTRAOP_THREADS": str(threads),
        "TF_NUM_INTEROP_THREADS": str(threads),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": "0",  # ours_frozen sets 1
        "KERAS_BACKEND": "tensorflow",
        "HF_HUB_OFFLINE": "1",
    }


def log(line: str) -> None:
    """Prints a line on the standard error."""
    print(line, file=sys.stderr, flush=True)
