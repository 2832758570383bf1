"""What a user waits for before anything happens.

    python -m benchmarks.startup

Starts each command of the table so many times, each in a process of its own, one after the other, and prints
the median in Markdown, with what an import of TensorFlow takes beside it. `predict` and `pipeline` answer one
text by a classifier of albert_base's shape with random weights, or by the run that --run names.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import smoke
from benchmarks.serving import untrained

ALBERT = ("-m", "albert_tf")
PIPELINE = "import albert_tf; print(albert_tf.pipeline({run!r})('A fine film.'))"
TENSORFLOW = "import tensorflow, tensorflow_text, tf_keras; tensorflow.config.list_physical_devices()"


def commands(run: str, folder: str) -> dict[str, list[str]]:
    """The words behind `python` of each row, by what the table calls it."""
    table = f"{folder}/one.csv"
    Path(table).write_text("text\nA fine film.\n", "utf-8")
    return {
        "`albert-tf --version`": [*ALBERT, "--version"],
        "`albert-tf --help`": [*ALBERT, "--help"],
        "`import albert_tf`": ["-c", "import albert_tf"],
        "`predict`, a wrong flag": [*ALBERT, "predict", "--bogus"],
        "`pretrain`, a missing file": [
            *ALBERT, "pretrain", "--train", "no.txt", "--vocabulary", table, "--output", "no", "--config",
            "albert_base_v2",
        ],
        "`predict` of one text": [
            *ALBERT, "predict", "--run", run, "--input", table, "--text", "text",
            "--output", f"{folder}/out.csv",
        ],
        "`albert_tf.pipeline(run)` to its first answer": ["-c", PIPELINE.format(run=run)],
        "Python alone": ["-c", ""],
        "TensorFlow, TF Text and Keras alone": ["-c", TENSORFLOW],
    }  # fmt: skip


def seconds(words: list[str]) -> float:
    """How long a process runs."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, *words], capture_output=True, check=False)
    return time.perf_counter() - begin


def main() -> None:
    """Prints the table."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--run", help="run directory of a classifier (albert_base's shape, untrained)")
    parser.add_argument("--times", type=int, default=7, help="that each is started (7)")
    options = smoke.read_flags(parser, times=1)
    with tempfile.TemporaryDirectory() as folder:
        preset = smoke.PRESET if options.smoke else "albert_base_v2"
        rows = commands(options.run or str(untrained(Path(folder), preset)), folder)
        times: dict[str, list[float]] = {name: [] for name in rows}
        for _ in range(options.times):
            for name, words in rows.items():
                times[name].append(seconds(words))
    print("| what | seconds |\n|---|---|")
    for name, found in times.items():
        print(f"| {name} | {statistics.median(found):.2f} |")


if __name__ == "__main__":
    main()
