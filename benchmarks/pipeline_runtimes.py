"""Texts a second of `pipeline`: TensorFlow beside OpenVINO, in float32 and in bfloat16, from text.

    python benchmarks/pipeline_runtimes.py --data SST-2
    python benchmarks/pipeline_runtimes.py --run run --data SST-2 --rounds 9

The texts are those of SST-2's dev set, in batches of 32; the network is the run that --run names, or of
--config's shape (albert_base_v2) with random weights, which take as long. All pipelines are in one process
and take turns, round by round. What is printed, as Markdown, is the median of the rounds with its range, the
ratio to TensorFlow in the same precision, the share of labels that are those of TensorFlow in float32, and
the largest difference of their probabilities.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import albert_tf
from albert_tf.config import PRESETS, AlbertConfig
from albert_tf.tokenizers import train_vocabulary
from albert_tf.utils.choices import OPENVINO, PRECISIONS, TENSORFLOW

ROWS = [(precision, runtime) for precision in PRECISIONS for runtime in (TENSORFLOW, OPENVINO)]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="GLUE's folder of SST-2")
    add("--run", help="fine-tuned run directory (random weights)")
    add(
        "--config",
        default="albert_base_v2",
        help="preset or JSON file of the random network (albert_base_v2)",
    )
    add(
        "--vocabulary",
        help="of the random network (8,000 pieces of SST-2's training text, or its vocab_size)",
    )
    add("--rounds", type=int, default=5, help="timed rounds over all texts (5)")
    add("--texts", type=int, help="number of texts (all)")
    flags = parser.parse_args()
    texts = sentences(flags.data / "dev.tsv")[: flags.texts]
    with tempfile.TemporaryDirectory() as folder:
        run = flags.run or random_run(flags.config, flags.vocabulary, flags.data, Path(folder))
        pipelines = {
            (precision, runtime): albert_tf.pipeline(run, runtime=runtime, precision=precision, batch_size=32)
            for precision, runtime in ROWS
        }
        answers = {row: ask(texts) for row, ask in pipelines.items()}  # warm: each shape has been computed
        rates: dict[tuple[str, str], list[float]] = {row: [] for row in ROWS}
        for _ in range(flags.rounds):
            for row, ask in pipelines.items():
                start = time.perf_counter()
                ask(texts)
                rates[row].append(len(texts) / (time.perf_counter() - start))
    print("| precision | runtime | texts/s | × TensorFlow | same labels | largest difference |")
    print("|---|---|---|---|---|---|")
    expected = answers[ROWS[0]]
    for precision, runtime in ROWS:
        found, values = answers[precision, runtime], rates[precision, runtime]
        rate, ratio = statistics.median(values), statistics.median(rates[precision, TENSORFLOW])
        pairs = list(zip(found, expected, strict=True))
        same = statistics.fmean(one["label"] == other["label"] for one, other in pairs)
        apart = max(abs(one["score"] - other["score"]) for one, other in pairs)
        spread = f"{rate:.1f} ({min(values):.1f} to {max(values):.1f})"
        cells = (precision, runtime, spread, f"{rate / ratio:.2f}", f"{100 * same:.1f} %", f"{apart:.1e}")
        print(f"| {' | '.join(cells)} |", flush=True)


def sentences(file: Path) -> list[str]:
    """The texts of a file of SST-2."""
    with file.open(encoding="utf-8") as lines:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row["sentence"] for row in rows]


def random_run(config: str, vocabulary: str | None, data: Path, folder: Path) -> Path:
    """A run of a classifier of two labels that has learnt nothing."""
    network = PRESETS[config] if config in PRESETS else AlbertConfig.from_json_file(config)
    if vocabulary is None:
        network = network.replace(vocab_size=min(8000, network.vocab_size))
        (folder / "texts.txt").write_text("\n".join(sentences(data / "train.tsv")), encoding="utf-8")
        vocabulary = str(folder / "spiece.model")
        train_vocabulary(folder / "texts.txt", vocabulary, vocab_size=network.vocab_size)
    model = albert_tf.AlbertClassifier(network, num_labels=2)
    task = {"task": "sst-2", "labels": ["0", "1"], "seq_length": 128}
    albert_tf.save(model, folder / "run", vocabulary, task=task)
    return folder / "run"


if __name__ == "__main__":
    main()
