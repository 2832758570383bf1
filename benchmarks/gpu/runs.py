"""Times commands: from text to a pre-trained run, a classifier, and its predictions."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from albert_tf.config import PRESETS

ROOT = Path(__file__).resolve().parents[2]
WORDS, SENTENCE_WORDS, DOCUMENT_SENTENCES = 5000, 20, 30


class Size(NamedTuple):
    """The amount of data, and the size of the network."""

    vocab_size: int
    documents: int
    config: dict[str, int]
    batch_size: int
    steps: int  # of pre-training
    sentences: int  # to fine-tune on
    prediction_rows: int


FULL = Size(4000, 3000, {}, 256, 150, 8000, 20000)
SMALL = Size(
    300,
    40,
    {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 256},
    8,
    20,
    200,
    200,
)


def run_commands(folder: Path, small: bool, xla: str, deadline: float) -> Iterator[dict[str, Any]]:
    """Runs the commands one after the other, and yields a line of measurements for each.

    Args:
      folder: an empty folder for text, runs and predictions.
      small: True: a network that a CPU trains in seconds.
      xla: further flag of the training commands, such as --no-xla; may be empty.
      deadline: seconds since the epoch, after which no further command starts.
    """
    size = SMALL if small else FULL
    flags = f"--precision bfloat16 {xla}"
    config = PRESETS["albert_base_v2"].replace(vocab_size=size.vocab_size, **size.config)
    write_inputs(folder, size)
    (folder / "config.json").write_text(config.to_json_string(), "utf-8")
    commands: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
        "vocab": (f"--input text.txt --vocab_size {size.vocab_size} --output spiece.model", dict),
        "pretrain": (
            "--config config.json --train text.txt --vocabulary spiece.model --output run --seq_length 128 "
            f"--batch_size {size.batch_size} --steps {size.steps} --warmup_steps 10 --optimizer adamw "
            f"--learning_rate 1e-4 --log_every {size.steps // 5} --eval_every 0 --checkpoint_every 0 {flags}",
            lambda: read_rates(folder / "run"),
        ),
        "finetune": (
            "--task classification --train train.tsv --eval eval.tsv --text sentence --label label "
            "--epochs 2 --init_from run --output tuned --seq_length 128 --batch_size 32 --eval_every 0 "
            f"--checkpoint_every 0 {flags}",
            lambda: read_rates(folder / "tuned"),
        ),
        "predict": (
            "--run tuned --input asked.tsv --text sentence --output answers.tsv --batch_size 32",
            lambda: {"rows": size.prediction_rows},
        ),
    }
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    for name, (command, read_metrics) in commands.items():
        line: dict[str, Any] = {"framework": "ours", "kind": name, "flags": command}
        if time.time() > deadline:
            yield {**line, "left_out": "no time was left"}
            continue
        start = time.perf_counter()
        program = [sys.executable, "-m", "albert_tf", name, *command.split()]
        process = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True)
        if process.returncode:
            yield {**line, "error": process.stderr.strip().splitlines()[-1:]}
            return
        yield {**line, "seconds": time.perf_counter() - start, **read_metrics()}


def read_rates(run: Path) -> dict[str, Any]:
    """Examples per second, and the share of time spent waiting for batches, by the last line of a run's log.

    The time of the first line includes compiling.
    """
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    training = [line for line in lines if "examples_per_second" in line]
    names = ("examples_per_second", "input_wait")
    return {name: training[-1][name] for name in names if name in training[-1]}


def write_inputs(folder: Path, size: Size) -> None:
    """Writes text of made-up words, with frequencies as in a language, and tables of sentences.

    The label of a sentence is "yes" if its first word is one of the twenty most frequent ones.
    """
    generator = random.Random(0)
    syllables = [first + second for first in "bdfgklmnprstv" for second in "aeiou"]
    words = ["".join(generator.choices(syllables, k=generator.randint(1, 4))) for _ in range(WORDS)]
    weights = [1 / rank for rank in range(1, WORDS + 1)]

    def sentence() -> list[str]:
        return generator.choices(words, weights, k=generator.randint(5, 2 * SENTENCE_WORDS))

    with (folder / "text.txt").open("w", encoding="utf-8") as file:
        for _ in range(size.documents):
            file.writelines(" ".join(sentence()) + ".\n" for _ in range(DOCUMENT_SENTENCES))
            file.write("\n")
    frequent = set(words[:20])
    for name, rows in (
        ("train", size.sentences),
        ("eval", size.sentences // 10),
        ("asked", size.prediction_rows),
    ):
        sentences: Sequence[list[str]] = [sentence() for _ in range(rows)]
        lines = [f"{' '.join(row)}\t{'yes' if row[0] in frequent else 'no'}" for row in sentences]
        (folder / f"{name}.tsv").write_text("\n".join(["sentence\tlabel", *lines]) + "\n", "utf-8")
