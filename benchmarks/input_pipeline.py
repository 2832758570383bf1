"""How fast text becomes masked batches, beside SentencePiece, and in how much memory.

    python -m benchmarks.input_pipeline --vocabulary spiece.model --text corpus/*.txt
    python -m benchmarks.input_pipeline --vocabulary spiece.model --text corpus/*.txt --memory 5 50 500

Prints Markdown. Speed: (a) text to batches and (b) prepared documents to batches, both of 64 rows of 512
tokens, and (c) `prepare` from its start to its end; each takes turns with
`SentencePieceProcessor.encode(lines, num_threads=2)` on the same text, (c) with the text repeated to 60 MB.
(a), (b) and SentencePiece are warmed up before each turn, (c) by an earlier run. The ratio is the median of
the ratios of the turns: by the clock, and by the processors' time, which other programs on the machine
disturb less. Tokens are those of text, without special ones and padding; of (c) all that are written.

Memory: the peak of a fresh process that reads the text, repeated to so many megabytes, once. Of (a) and (b)
it is the largest resident set; of (c) the proportional set sizes (memory that several processes share counts
once) of the process and all that it starts, added up ten times a second.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import resource
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

BATCH_SIZE, SEQ_LENGTH = 64, 512
WARM_UP_BATCHES, BATCHES = 60, 200  # of one turn: some 6 million tokens
WARM_UP_LINES = 20_000
PREPARED_MEGABYTES = 60  # of text for (c), which has a start to make up for
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
    parser.add_argument("--alone", choices=TASKS, help=argparse.SUPPRESS)  # in a process of its own
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
    """The table of rates."""
    from albert_tf.data.prepare import prepare

    print("| what | rounds | million tokens/s | SentencePiece's | ratio | from … to | by processors' time |")
    print("|---|---|---|---|---|---|---|")
    theirs = sentencepiece_turn(text, vocabulary)
    with tempfile.TemporaryDirectory() as folder:
        prepare(text, f"{folder}/prepared", vocabulary, report=lambda line: None)
        large = repeated(text, PREPARED_MEGABYTES, Path(folder))
        for task in tasks:
            if task in BEAM_OPTIONS:
                ours, count = prepare_turn(large, vocabulary, folder, task), max(rounds // 2, 1)
            elif task != "empty":
                ours = batches_turn(text if task == "a" else f"{folder}/prepared", vocabulary)
                count = rounds
            else:
                continue
            pairs = [(ours(), theirs()) for _ in range(count)]
            ratios = [one.by_clock / other.by_clock for one, other in pairs]
            by_processor = [one.by_processor / other.by_processor for one, other in pairs]
            rates = [
                statistics.median(turn.by_clock for turn in side) / 1e6 for side in zip(*pairs, strict=True)
            ]
            print(
                f"| {TASKS[task]} | {count} | {rates[0]:.2f} | {rates[1]:.2f} "
                f"| {statistics.median(ratios):.2f} | {min(ratios):.2f} … {max(ratios):.2f} "
                f"| {statistics.median(by_processor):.2f} |",
                flush=True,
            )


class Turn(NamedTuple):
    """What one turn has done, in tokens a second."""

    by_clock: float
    by_processor: float


def timed(work: Callable[[], int]) -> Turn:
    """A turn of some work, which returns how many tokens it was."""
    started, cpu_started = time.perf_counter(), sum(os.times()[:4])
    tokens = work()
    seconds, by_processor = time.perf_counter() - started, sum(os.times()[:4]) - cpu_started
    return Turn(tokens / seconds, tokens / max(by_processor, 0.01))  # the kernel counts in hundredths


def sentencepiece_turn(text: list[str], vocabulary: str) -> Callable[[], Turn]:
    """SentencePiece with two threads."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(vocabulary)
    lines = [line for file in text for line in Path(file).read_text("utf-8").splitlines() if line.strip()]

    def turn() -> Turn:
        processor.encode(lines[:WARM_UP_LINES], num_threads=2)
        return timed(lambda: sum(map(len, processor.encode(lines, num_threads=2))))

    return turn


def batches_turn(inputs: list[str] | str, vocabulary: str) -> Callable[[], Turn]:
    """A pipeline, started anew in each turn: one that waits would fill its buffers in the other's turn."""
    import albert_tf

    dataset = albert_tf.pretraining_dataset(inputs, vocabulary, BATCH_SIZE, SEQ_LENGTH)

    def turn() -> Turn:
        iterator = iter(dataset)

        def tokens(batches: int) -> int:
            masks = (next(iterator)["input_mask"].numpy() for _ in range(batches))
            return sum(int(mask.sum()) - 3 * BATCH_SIZE for mask in masks)

        tokens(WARM_UP_BATCHES)
        return timed(lambda: tokens(BATCHES))

    return turn


def prepare_turn(text: str, vocabulary: str, folder: str, task: str) -> Callable[[], Turn]:
    """`prepare` from its start to its end."""
    from albert_tf.data.prepare import prepare

    numbers = itertools.count()

    def tokens() -> int:
        output = f"{folder}/{task}-{next(numbers)}"
        stats = prepare(text, output, vocabulary, BEAM_OPTIONS[task], report=lambda line: None)
        return stats["counts"]["tokens"]

    return lambda: timed(tokens)


def print_memory(text: list[str], vocabulary: str, sizes: list[int], tasks: list[str]) -> None:
    """The table of peaks, each of a process of its own."""
    print("| what | " + " | ".join(f"{size} MB of text" for size in sizes) + " |")
    print("|---|" + "---|" * len(sizes))
    with tempfile.TemporaryDirectory() as folder:
        files = [repeated(text, size, Path(folder)) for size in sizes]
        for task in sorted(tasks, key=list(TASKS).index, reverse=True):  # (b) reads what (c) has written
            peaks = [peak(task, file, vocabulary) for file in files]
            print(f"| {TASKS[task]} | " + " | ".join(peaks) + " |", flush=True)


def peak(task: str, text: str, vocabulary: str) -> str:
    """The megabytes that a task takes at most, in a process of its own and those that it starts."""
    words = ["--vocabulary", vocabulary, "--text", text, "--alone", task]
    command = [sys.executable, "-m", "benchmarks.input_pipeline", *words]
    most = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            most = max(most, sum(map(proportional_kilobytes, descendants(process.pid))))
            time.sleep(SECONDS_BETWEEN_SAMPLES)
        assert process.stdout is not None
        resident = process.stdout.read().strip()
    if process.returncode:
        sys.exit(f"{TASKS[task]} failed on {text}")
    whole_tree = f"{most // 1024} MB"
    return {"a": f"{resident} MB", "b": f"{resident} MB", "empty": f"{resident} MB; {whole_tree}"}.get(
        task, whole_tree
    )


def descendants(process: int) -> list[int]:
    """A process and all that it and those have started."""
    parents: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # Behind the name in brackets, which may hold anything: state, parent.
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    found = [process]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def proportional_kilobytes(process: int) -> int:
    """A process' memory, its share of what it has in common with others; 0 of one that has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def print_peak(task: str, text: str, vocabulary: str) -> None:
    """Does a task once and prints the megabytes of this process' largest resident set."""
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
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


def repeated(text: list[str], megabytes: int, folder: Path) -> str:
    """A file of so many megabytes, the text again and again."""
    path = folder / f"{megabytes}.txt"
    content = b"\n\n".join(Path(file).read_bytes() for file in text) + b"\n\n"
    with path.open("wb") as file:
        left = megabytes * 1_000_000
        while left > 0:
            left -= file.write(content[:left])
    return str(path)


if __name__ == "__main__":
    main()
