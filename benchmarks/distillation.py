"""Does a teacher help? A network of half the depth on film reviews, with its teacher and alone.

    python benchmarks/distillation.py --text imdb_unlabelled.txt --output distillation

Pre-trains a small BERT, the teacher, and then networks of every other layer of it: with the teacher, and
alone on the same text and masks for the same updates, beginning with the teacher's layers or at random, with
several seeds each. Prints Markdown: loss and accuracy of masked tokens in held-out reviews, the mean of the
seeds and their range. Started again, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import learning
import smoke

from albert_tf.pretraining.evaluation import evaluate_run

TEACHER = learning.CONFIG.replace(num_hidden_layers=4, sharing="none", max_position_embeddings=64)
STUDENT = TEACHER.replace(num_hidden_layers=2)
EXAMPLES = {"sentence_objective": "none", "seq_length": 64, "masked_lm_prob": 0.3, "max_ngram": 1}
FLAGS = {**EXAMPLES, "log_every": 500, "eval_every": 0, "checkpoint_every": 1000}


def main() -> None:
    """Trains and prints the table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--text", nargs="+", required=True, help="text files, a sentence a line")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument("--teacher_steps", type=int, default=6000, help="updates of the teacher (6000)")
    parser.add_argument("--steps", type=int, default=1000, help="updates of each student (1000)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each student (3)")
    flags = smoke.read_flags(parser, text=smoke.text, output=smoke.folder, teacher_steps=2, steps=2, seeds=1)
    vocabulary, prepared = learning.prepare(flags.text, flags.output)
    teacher = flags.output / "teacher"
    changes = {**FLAGS, "word_embeddings": "cooccurrence"}
    learning.pretrain(teacher, prepared, vocabulary, flags.teacher_steps, TEACHER, **changes)

    def train(program: str, run: Path, seed: int, **changes: object) -> None:
        options = {**FLAGS, "seed": seed, **changes}
        learning.pretrain(run, prepared, vocabulary, flags.steps, STUDENT, program=program, **options)

    ways: dict[str, Callable[[Path, int], None]] = {
        "with the teacher": lambda run, seed: train("distill", run, seed, teacher=teacher),
        "alone, from the teacher's layers": lambda run, seed: train("pretrain", run, seed, init_from=teacher),
        "alone, from random weights": lambda run, seed: train("pretrain", run, seed),
    }
    print("| network | masked tokens, nats | accuracy |\n|---|---|---|")
    show("the teacher", [teacher], prepared)
    for name, way in ways.items():
        runs = [flags.output / f"{name.replace(' ', '_')}-{seed}" for seed in range(flags.seeds)]
        for seed, run in enumerate(runs):
            way(run, seed)
        show(name, runs, prepared)


def show(name: str, runs: list[Path], prepared: Path) -> None:
    """Prints a row: of some runs the mean, the least and the most."""
    found = [evaluate_run(run, [f"{prepared}/eval-*"]) for run in runs]
    cells = []
    for metric in ("eval_mlm_loss", "eval_mlm_accuracy"):
        values = [figures[metric] for figures in found]
        cells.append(f"{statistics.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})")
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
