"""Speed and memory of the input pipeline, from text to masked batches, compared with SentencePiece.

    python -m benchmarks.input_pipeline --vocabulary spiece.model --text corpus/*.txt
    python -m benchmarks.input_pipeline --vocabulary spiece.model --text corpus/*.txt --memory 5 50 500

Prints Markdown. Speed: (a) text to batches and (b) prepared documents to batches, both of 64 rows of 512
tokens, and (c) `prepare` from start to end. Each takes turns with
`SentencePieceProcessor.encode(lines, num_threads=2)` on the same text; for (c) the text is repeated to 60 MB.
(a), (b) and SentencePiece are warmed up before each turn, (c) by an earlier run. The ratio is the median of
the turns' ratios, by the clock and by CPU time, which other programs on the machine disturb less. Special
tokens and padding do not count; for (c) all written tokens count.

Memory: the peak of a fresh process that reads the text once, repeated to some megabytes. For (a) and (b) it
is the largest resident set. For (c) it is the sum of the proportional set sizes (shared memory counts once)
of the process and its descendants, measured ten times a second.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks import smoke
from benchmarks.markdown_tables import print_header, print_row
from benchmarks.memory import max_resident_bytes

BATCH_SIZE, SEQ_LENGTH = 64, 512
WARM_UP_BATCHES, BATCHES = 60, 200  # of one turn: about 6 million tokens
WARM_UP_LINES = 20_000
PREPARED_MEGABYTES = 60  # text for (c), so much that its start-up hardly counts
SECONDS_BETWEEN_SAMPLES = 0.1
TASKS = {
    "empty": "nothing, TensorFlow and Beam imported",
    "a": "(a) text to batches",
    "b": "(b) prepared to batches",
    "c": "(c) prepare",
    "c2": "(c) prepare, 2 workers",
}
BEAM_OPTIONS = {"c": [], "c2": ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]}


def main() -> None:
    """Prints the tables."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--vocabulary", required=True, help="SentencePiece model")
    parser.add_argument("--text", nargs="+", required=True, help="text files, a sentence a line")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each pair (7)")
    parser.add_argument("--memory", type=int, nargs="+", help="megabytes; measures memory instead of speed")
    parser.add_argument(
        "--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="all; for memory (b) needs (c)"
    )
    parser.add_argument("--alone", choices=TASKS, help=argparse.SUPPRESS)  # one task, in this process
    flags = smoke.read_flags(parser, vocabulary=smoke.vocabulary, text=smoke.text_file, rounds=1)
    if flags.smoke:
        globals().update(WARM_UP_BATCHES=1, BATCHES=1, PREPARED_MEGABYTES=1)
    if flags.alone:
        print_peak(flags.alone, flags.text[0], flags.vocabulary)
    elif flags.memory:
        print_memory(flags.text, flags.vocabulary, flags.memory, flags.tasks)
    else:
        print_speed(flags.text, flags.vocabulary, flags.rounds, flags.tasks)


def print_speed(text: list[str], vocabulary: str, rounds: int, tasks: list[str]) -> None:
    """Prints the table of rates."""
    from albert_tf.data.prepare import prepare

    titles = ("what", "rounds", "million tokens/s", "SentencePiece's", "ratio", "from … to")
    print_header(*titles, "by processors' time")
    measure_sentencepiece = sentencepiece_turn(text, vocabulary)
    with tempfile.TemporaryDirectory() as folder:
        prepare(text, f"{folder}/prepared", vocabulary, report=lambda line: None)
        large = write_repeated(text, PREPARED_MEGABYTES, Path(folder))
        for task in tasks:
            if task in BEAM_OPTIONS:
                measure, count = prepare_turn(large, vocabulary, folder, task), max(rounds // 2, 1)
            elif task != "empty":
                measure = batches_turn(text if task == "a" else f"{folder}/prepared", vocabulary)
                count = rounds
            else:
                continue
            pairs = [(measure(), measure_sentencepiece()) for _ in range(count)]
            ratios = [ours.by_clock / theirs.by_clock for ours, theirs in pairs]
            cpu_ratios = [ours.by_cpu / theirs.by_cpu for ours, theirs in pairs]
            rates = [statistics.median(turn.by_clock for turn in side) for side in zip(*pairs, strict=True)]
            print_row(
                TASKS[task],
                f"{count}",
                *(f"{rate / 1e6:.2f}" for rate in rates),
                f"{statistics.median(ratios):.2f}",
                f"{min(ratios):.2f} … {max(ratios):.2f}",
                f"{statistics.median(cpu_ratios):.2f}",
            )


class Throughput(NamedTuple):
    """Tokens per second, by the clock and by CPU time."""

    by_clock: float
    by_cpu: float


def measure_throughput(work: Callable[[], int]) -> Throughput:
    """The throughput of a function that returns its number of tokens."""
    start, cpu_start = time.perf_counter(), sum(os.times()[:4])
    tokens = work()
    seconds, cpu_seconds = time.perf_counter() - start, sum(os.times()[:4]) - cpu_start
    return Throughput(tokens / seconds, tokens / max(cpu_seconds, 0.01))  # os.times counts in hundredths


def sentencepiece_turn(text: list[str], vocabulary: str) -> Callable[[], Throughput]:
    """A function that measures SentencePiece with two threads."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(vocabulary)
    lines = [line for file in text for line in Path(file).read_text("utf-8").splitlines() if line.strip()]

    def measure() -> Throughput:
        processor.encode(lines[:WARM_UP_LINES], num_threads=2)
        return measure_throughput(lambda: sum(map(len, processor.encode(lines, num_threads=2))))

    return measure


def batches_turn(inputs: list[str] | str, vocabulary: str) -> Callable[[], Throughput]:
    """A function that measures a new iterator, since a waiting one would fill its buffers."""
    import albert_tf

    dataset = albert_tf.pretraining_dataset(inputs, vocabulary, BATCH_SIZE, SEQ_LENGTH)

    def measure() -> Throughput:
        iterator = iter(dataset)

        def count_tokens(batches: int) -> int:
            masks = (next(iterator)["input_mask"].numpy() for _ in range(batches))
            return sum(int(mask.sum()) - 3 * BATCH_SIZE for mask in masks)

        count_tokens(WARM_UP_BATCHES)
        return measure_throughput(lambda: count_tokens(BATCHES))

    return measure


def prepare_turn(text: str, vocabulary: str, folder: str, task: str) -> Callable[[], Throughput]:
    """A function that measures `prepare` from start to end."""
    from albert_tf.data.prepare import prepare

    numbers = itertools.count()

    def count_tokens() -> int:
        output = f"{folder}/{task}-{next(numbers)}"
        stats = prepare(text, output, vocabulary, BEAM_OPTIONS[task], report=lambda line: None)
        return stats["counts"]["tokens"]

    return lambda: measure_throughput(count_tokens)


def print_memory(text: list[str], vocabulary: str, sizes: list[int], tasks: list[str]) -> None:
    """Prints the table of peaks, each of a process of its own."""
    print_header("what", *(f"{size} MB of text" for size in sizes))
    with tempfile.TemporaryDirectory() as folder:
        files = [write_repeated(text, size, Path(folder)) for size in sizes]
        for task in sorted(tasks, key=list(TASKS).index, reverse=True):  # (b) reads the output of (c)
            print_row(TASKS[task], *(measure_peak(task, file, vocabulary) for file in files))


def measure_peak(task: str, text: str, vocabulary: str) -> str:
    """The largest memory, in megabytes, of a process that does a task, and of its descendants."""
    flags = ["--vocabulary", vocabulary, "--text", text, "--alone", task]
    command = [sys.executable, "-m", "benchmarks.input_pipeline", *flags]
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(proportional_kilobytes, descendants(process.pid))))
            time.sleep(SECONDS_BETWEEN_SAMPLES)
        assert process.stdout is not None
        resident = process.stdout.read().strip()
    if process.returncode:
        sys.exit(f"{TASKS[task]} failed on {text}")
    total = f"{peak // 1024} MB"
    return {"a": f"{resident} MB", "b": f"{resident} MB", "empty": f"{resident} MB; {total}"}.get(task, total)


def descendants(process: int) -> list[int]:
    """A process, its children, their children, and so on."""
    parents: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The state and the parent follow the name, which is in brackets and may have any characters.
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    processes = [process]
    for ancestor in processes:  # grows meanwhile
        processes += [child for child, parent in parents.items() if parent == ancestor]
    return processes


def proportional_kilobytes(process: int) -> int:
    """The proportional set size of a process; 0 if it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def print_peak(task: str, text: str, vocabulary: str) -> None:
    """Does a task once, and prints the largest resident set of this process in megabytes."""
    import albert_tf
    from albert_tf.data.prepare import prepare

    prepared = f"{text}.prepared"
    if task in BEAM_OPTIONS:
        shutil.rmtree(prepared, ignore_errors=True)
        prepare(text, prepared, vocabulary, BEAM_OPTIONS[task], report=lambda line: None)
    elif task != "empty":
        inputs = prepared if task == "b" else text
        for _ in albert_tf.pretraining_dataset(inputs, vocabulary, BATCH_SIZE, SEQ_LENGTH, repeat=False):
            pass
    print(max_resident_bytes() // 2**20)


def write_repeated(text: list[str], megabytes: int, folder: Path) -> str:
    """Writes a file of some megabytes, which repeats the text."""
    path = folder / f"{megabytes}.txt"
    content = b"\n\n".join(Path(file).read_bytes() for file in text) + b"\n\n"
    with path.open("wb") as file:
        left = megabytes * 1_000_000
        while left > 0:
            left -= file.write(content[:left])
    return str(path)


if __name__ == "__main__":
    main()
