"""How long commands take to start.

    python -m benchmarks.startup

Runs each command of the table several times, in a process of its own, and prints the median seconds as
Markdown, beside those of an import of TensorFlow. `predict` and `pipeline` answer one text by a classifier of
albert_base's shape with random weights, or by the run of --run.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks import smoke
from benchmarks.markdown_tables import print_header, print_row
from benchmarks.serving import write_untrained_run
from benchmarks.timers import time_process

ALBERT = ("-m", "albert_tf")
PIPELINE = "import albert_tf; print(albert_tf.pipeline({run!r})('A fine film.'))"
TENSORFLOW = "import tensorflow, tensorflow_text, tf_keras; tensorflow.config.list_physical_devices()"


def commands(run: str, folder: str) -> dict[str, list[str]]:
    """The arguments of `python` for each row, by the title of the row."""
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


def main() -> None:
    """Prints the table."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--run", help="run directory of a classifier (albert_base's shape, untrained)")
    parser.add_argument("--times", type=int, default=7, help="runs of each command (7)")
    options = smoke.read_flags(parser, times=1)
    with tempfile.TemporaryDirectory() as folder:
        preset = smoke.PRESET if options.smoke else "albert_base_v2"
        rows = commands(options.run or str(write_untrained_run(Path(folder), preset)), folder)
        times: dict[str, list[float]] = {name: [] for name in rows}
        for _ in range(options.times):
            for name, arguments in rows.items():
                times[name].append(time_process([sys.executable, *arguments]))
    print_header("what", "seconds")
    for name, seconds in times.items():
        print_row(name, f"{statistics.median(seconds):.2f}")


if __name__ == "__main__":
    main()
