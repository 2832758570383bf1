"""Commands as they are typed: from text to a pre-trained run, a classifier, and its predictions."""

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
    """How much is made, and how large the network is."""

    vocab_size: int
    documents: int
    config: dict[str, int]
    batch_size: int
    steps: int  # of pre-training
    sentences: int  # to fine-tune on
    asked: int  # sentences to predict


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
    """Runs the commands one after the other; a line of figures of each.

    Args:
      folder: an empty one for text, runs and predictions.
      small: with a network that a CPU trains in seconds.
      xla: a flag of the commands that say it, such as --no-xla; empty: as typed.
      deadline: seconds since the epoch; what has not begun by then is left out.
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
            lambda: rates(folder / "run"),
        ),
        "finetune": (
            "--task classification --train train.tsv --eval eval.tsv --text sentence --label label "
            "--epochs 2 --init_from run --output tuned --seq_length 128 --batch_size 32 --eval_every 0 "
            f"--checkpoint_every 0 {flags}",
            lambda: rates(folder / "tuned"),
        ),
        "predict": (
            "--run tuned --input asked.tsv --text sentence --output answers.tsv --batch_size 32",
            lambda: {"rows": size.asked},
        ),
    }
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    for name, (command, figures) in commands.items():
        line: dict[str, Any] = {"framework": "ours", "kind": name, "flags": command}
        if time.time() > deadline:
            yield {**line, "left_out": "no time was left"}
            continue
        started = time.perf_counter()
        program = [sys.executable, "-m", "albert_tf", name, *command.split()]
        done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            yield {**line, "error": done.stderr.strip().splitlines()[-1:]}
            return
        yield {**line, "seconds": time.perf_counter() - started, **figures()}


def rates(run: Path) -> dict[str, Any]:
    """Examples a second, and the share of time spent waiting for batches, of the last line of a run's log.

    In the time of the first line the update was compiled.
    """
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    trained = [line for line in lines if "examples_per_second" in line]
    names = ("examples_per_second", "input_wait")
    return {name: trained[-1][name] for name in names if name in trained[-1]}


def write_inputs(folder: Path, size: Size) -> None:
    """Text of made-up words, rare and frequent as in a language, and tables of sentences.

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
    for name, rows in (("train", size.sentences), ("eval", size.sentences // 10), ("asked", size.asked)):
        sentences: Sequence[list[str]] = [sentence() for _ in range(rows)]
        lines = [f"{' '.join(row)}\t{'yes' if row[0] in frequent else 'no'}" for row in sentences]
        (folder / f"{name}.tsv").write_text("\n".join(["sentence\tlabel", *lines]) + "\n", "utf-8")
