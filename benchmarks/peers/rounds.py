"""Programs in processes of their own, asked one after the other, round by round."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.peers.asking import Asked, NoAnswer
from benchmarks.peers.compared import OURS, PEERS, UPDATE, Case, Setting
from benchmarks.peers.results import Turn

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / ".venv-peers"

TURN = 0.5  # seconds that a program computes at a time, where one call takes less
MOST_CALLS = 20  # of a turn
# The largest difference from our pooled outputs, which lie between -1 and 1.
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.1}

Turns = dict[Case, dict[str, list["Turn | None"]]]


def measure(names: Sequence[str], cases: Sequence[Case], folder: Path, threads: int, rounds: int) -> Turns:
    """The turns of peers in cases of one kind and precision; None for a round without them.

    All are there at once, but for updates: after one TensorFlow keeps gigabytes for the next, so that each
    peer is there with ours alone, for as many rounds as all of them would be. The rounds are counted on.
    """
    turns: Turns = {case: {name: [] for name in names} for case in cases}
    others = [name for name in names if name != OURS]
    together = [[name] for name in others] if cases[0].kind == UPDATE else [others]
    setting = functools.partial(started, folder=folder, precision=cases[0].precision, threads=threads)
    with setting([OURS]) as ours:
        for group in together or [[]]:
            with setting(group) as programs:
                for case, found in take_turns({**ours, **programs}, cases, rounds).items():
                    for name in names:
                        turns[case][name] += found.get(name, [None] * rounds)
    return turns


def take_turns(programs: Mapping[str, Asked], cases: Sequence[Case], rounds: int) -> Turns:
    """The turns of every program in every case; None for what it cannot do.

    All that can do a case are warmed up for it. A round asks every program for a case, in their order, before
    it goes on to the next case, so that what is compared was measured within seconds.
    """
    turns: Turns = {case: {name: [] for name in programs} for case in cases}
    calls = {case: ready(programs, case) for case in cases}
    for number in range(rounds):
        say(f"{cases[0].kind}, {cases[0].precision}: round {number + 1} of {rounds}")
        for case in cases:
            for name, program in programs.items():
                turns[case][name].append(turn(program, case, calls[case].get(name)))
    return turns


def ready(programs: Mapping[str, Asked], case: Case) -> dict[str, int]:
    """How often each program that can do the case is to do it in a turn, once it is warm."""
    calls = {}
    for name, program in programs.items():
        if not PEERS[name].does(case):
            continue
        try:
            answer = program.ask({"do": "prepare", "case": case.name})
            if (answer["difference"] or 0) > TOLERANCE[case.precision]:
                raise NoAnswer(f"{name}: {case.name} is {answer['difference']:.2g} away from our answer")
        except NoAnswer as error:
            say(str(error))
            continue
        calls[name] = max(1, min(MOST_CALLS, round(TURN / answer["seconds"])))
        away = "" if answer["difference"] is None else f", {answer['difference']:.1e} from ours"
        say(f"{name}: {case.name} takes {answer['seconds']:.3g} s{away}")
    return calls


def turn(program: Asked, case: Case, calls: int | None) -> Turn | None:
    """Asks a program once; None where it does not answer, or is not to be asked."""
    if calls is None:
        return None
    try:
        return Turn(**program.ask({"do": "run", "case": case.name, "times": calls}))
    except NoAnswer as error:
        say(str(error))
        return None


@contextmanager
def started(names: Sequence[str], folder: Path, precision: str, threads: int) -> Iterator[dict[str, Asked]]:
    """The programs that have started, all at once, and whose networks have as many parameters as ours."""
    expected = json.loads((folder / "facts.json").read_text("utf-8"))["parameters"]
    with ExitStack() as stack:
        programs = {}
        for name in names:
            peer = PEERS[name]
            setting = Setting(str(folder), precision, threads, peer.options)
            command = [str(python_of(name)), "-m", "benchmarks.peers.worker", name]
            command.append(json.dumps(setting._asdict()))
            environment = {**variables(threads), **peer.variables}
            programs[name] = Asked(name, command, environment, folder / f"{name}.log")
            stack.callback(programs[name].close)
        for name, program in list(programs.items()):
            try:
                parameters = program.first()["parameters"]
                if parameters not in (None, expected):
                    raise NoAnswer(f"{name}: {parameters:,} parameters, not {expected:,}")
            except NoAnswer as error:
                say(str(error))
                del programs[name]
        yield programs


def python_of(name: str) -> Path:
    """The interpreter of a peer."""
    environment = PEERS[name].environment
    return ENVIRONMENTS / environment / "bin/python" if environment else Path(sys.executable)


def variables(threads: int) -> dict[str, str]:
    """The environment of a program."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "passive",  # threads that spin would compute at the cost of who is asked next
        "TF_NUM_INTRAOP_THREADS": str(threads),
        "TF_NUM_INTEROP_THREADS": str(threads),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": "0",  # but for the peer that is about it
        "KERAS_BACKEND": "tensorflow",
        "HF_HUB_OFFLINE": "1",
    }


def say(line: str) -> None:
    """On the standard error."""
    print(line, file=sys.stderr, flush=True)
