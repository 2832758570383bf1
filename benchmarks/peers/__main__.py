"""Compares ALBERT here and in other programs: times as ratios to ours, memory, and plain matrix products.

    python -m benchmarks.peers
    python -m benchmarks.peers --cases 'forward-*-float32' --peers openvino 'keras_hub*' --rounds 3
    python -m benchmarks.peers --sentences glue/SST-2/dev.tsv --vocabulary 30k-clean.model

`make bench` creates the environments of the peers in .venv-peers and runs this program. README.md beside this
file describes the programs. They have the same random weights and a process each, which is warmed up and
waits while another one computes. In a round all programs run a case one after the other. Prints a table as
Markdown, and a line on the standard error for each program that fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from albert_tf import PRESETS
from benchmarks import smoke
from benchmarks.peers.cases import (
    CASES,
    OURS,
    PEERS,
    QUICK,
    TEXT,
    UPDATE,
    Case,
    match_patterns,
    read_config,
    read_sentences,
)
from benchmarks.peers.matmul_shapes import case_flops
from benchmarks.peers.results import format_case, format_case_header, to_json
from benchmarks.peers.rounds import ROOT, Turns, log, measure, process_environment, python_of

# Cases and peers of --smoke, which compiles nothing.
SMALLEST = ["forward-1x16-float32", "text-32x128-float32"]
SIMPLEST = ["matmul", "model_garden", "keras_hub", "huggingface", "onnx_runtime", "openvino"]
CASES_HELP = f"""names or patterns; '*': all, in about an hour ({" ".join(QUICK)}):
{" ".join(CASES)}"""


def main() -> None:
    """Prints the table."""
    options = read_flags()
    sentences = read_sentences(options.sentences, options.limit) if options.sentences else []
    cases = [CASES[name] for name in options.cases if CASES[name].kind != TEXT or sentences]
    if len(cases) < len(options.cases):
        log("no text without --sentences and --vocabulary")
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="peers-") as scratch:
        folder = Path(scratch)
        write_network(folder, options, cases, sentences)
        settings = [options.preset, f"{options.threads} threads", f"{options.rounds} rounds"]
        print(*settings, *[f"{len(sentences)} sentences"] * bool(sentences), sep=", ")
        print("\n" + format_case_header(options.peers), flush=True)
        measured: Turns = {}
        for _, group in groupby(cases, key=process_group):
            group_cases = list(group)
            names = [name for name in options.peers if any(map(PEERS[name].supports, group_cases))]
            measured.update(measure(names, group_cases, folder, options.threads, options.rounds))
            for case in group_cases:
                flops = case_flops(read_config(folder), case)
                print(format_case(case, measured[case], options.peers, flops, len(sentences)), flush=True)
    log(f"{(time.monotonic() - start) / 60:.0f} minutes")
    if options.output:
        options.output.write_text(json.dumps(to_json(measured), indent=1), encoding="utf-8")


def read_flags() -> argparse.Namespace:
    """Reads the command line, with the names of cases and peers in place of patterns."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--preset", default="albert_base_v2", help="(albert_base_v2)")
    parser.add_argument("--cases", nargs="+", default=QUICK, help=CASES_HELP)
    parser.add_argument("--peers", nargs="+", default=["*"], help="beside ours (all): " + " ".join(PEERS))
    parser.add_argument("--rounds", type=int, default=3, help="turns of each program for each case (3)")
    parser.add_argument(
        "--threads",
        type=int,
        default=len(os.sched_getaffinity(0)),
        help="threads of each program (all cores)",
    )
    parser.add_argument("--sentences", type=Path, help="text, a line each, or a .tsv with a column sentence")
    parser.add_argument("--vocabulary", type=Path, help="SentencePiece model, for --sentences")
    parser.add_argument(
        "--limit", type=int, default=128, help="sentences to take from the file's start (128)"
    )
    parser.add_argument("--output", type=Path, help="JSON file for the seconds of every call")
    options = smoke.read_flags(
        parser, preset=smoke.PRESET, cases=SMALLEST, peers=SIMPLEST, rounds=1, limit=8,
        sentences=smoke.text_file, vocabulary=smoke.vocabulary,
    )  # fmt: skip
    if (options.sentences is None) != (options.vocabulary is None):
        parser.error("--sentences and --vocabulary go together")
    try:
        options.cases = match_patterns(CASES, options.cases)
        options.peers = match_patterns(PEERS, [OURS, *options.peers])
    except ValueError as error:
        parser.error(str(error))
    if options.smoke:
        use_other_environments()
    for name in [name for name in options.peers if not python_of(name).exists()]:
        if not options.smoke:
            parser.error(f"{name}: {python_of(name)} is missing: `make bench` makes it")
        log(f"{name} is left out: {python_of(name)} is missing")
        options.peers.remove(name)
    return options


def use_other_environments() -> None:
    """Replaces the environments of peers by others of this checkout that have their packages."""
    environments = {
        "onnx-runtime": sys.prefix,
        "openvino": sys.prefix,
        "huggingface": str(ROOT / ".venv-interop"),
    }
    for name, peer in PEERS.items():
        PEERS[name] = peer._replace(environment=environments.get(peer.environment or "", peer.environment))


def process_group(case: Case) -> object:
    """A key of the cases that share processes. An update has its own ones, since its memory is measured."""
    return case if case.kind == UPDATE else (case.kind, case.precision)


def write_network(
    folder: Path, options: argparse.Namespace, cases: Sequence[Case], sentences: list[str]
) -> None:
    """Writes the network and its outputs, in a process of their own."""
    log("writing the network")
    settings = {
        "config": PRESETS[options.preset].to_dict(),
        "vocabulary": options.vocabulary and str(options.vocabulary.resolve()),
        "sentences": sentences,
        "cases": [case.name for case in cases],
    }
    (folder / "settings.json").write_text(json.dumps(settings), "utf-8")  # too long for a command line
    command = [sys.executable, "-m", "benchmarks.peers.network_files", str(folder)]
    subprocess.run(command, check=True, env=process_environment(options.threads), cwd=ROOT)


if __name__ == "__main__":
    main()
