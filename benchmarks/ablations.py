"""What the sentence objectives and the sharing of parameters do, at equal steps, beside the paper's tables.

    python benchmarks/ablations.py --text corpus/*.txt --output ablations

Trains the network of `learning.py` with none, NSP and SOP, and with the four sharings, and prints Markdown:
figures on held-out documents, and in the last columns the paper's, which are of another world (ALBERT-base on
16 GB of text, 125,000 steps of 4096 examples). Started again, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import functools
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import learning
import smoke
import tensorflow as tf

import albert_tf
from albert_tf.pretraining.loss import pretraining_loss_fn
from albert_tf.runs.build_model import build_model
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.training.metrics_logger import evaluator, loss_metrics

# Lan et al. 2020, Table 5: accuracies in per cent of masked tokens, of next sentences, of sentence order.
PAPER_OBJECTIVES = {"none": (54.9, 52.4, 53.3), "nsp": (54.5, 90.5, 52.0), "sop": (54.0, 78.9, 86.5)}
# Table 4, E = 128: parameters in millions, mean score of five tasks after fine-tuning.
PAPER_SHARINGS = {"all": (12, 80.1), "attention": (64, 81.7), "ffn": (38, 80.2), "none": (89, 81.6)}


def main() -> None:
    """Trains and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--text", nargs="+", required=True, help="text files, a sentence a line")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument("--steps", type=int, default=800, help="updates of each (800)")
    flags = smoke.read_flags(parser, text=smoke.text, output=smoke.folder, steps=2)
    if flags.smoke:  # half of the runs
        for table, names in ((PAPER_OBJECTIVES, ["nsp"]), (PAPER_SHARINGS, ["attention", "ffn"])):
            for name in names:
                del table[name]
    vocabulary, prepared = learning.prepare(flags.text, flags.output)
    runs = [(objective, "all") for objective in PAPER_OBJECTIVES]
    runs += [("sop", sharing) for sharing in PAPER_SHARINGS if sharing != "all"]
    for objective, sharing in runs:
        config = learning.CONFIG.replace(sharing=sharing)
        run = run_of(flags.output, objective, sharing)
        rest = {"sentence_objective": objective, "eval_every": 0, "checkpoint_every": 500}
        learning.pretrain(run, prepared, vocabulary, flags.steps, config, **rest)
    held_out = f"{prepared}/eval-*"
    print_objectives(flags.output, held_out)
    print_sharings(flags.output, held_out)


def run_of(output: Path, objective: str, sharing: str) -> Path:
    """The run directory of a variant."""
    return output / f"{objective}-{sharing}"


def print_objectives(output: Path, held_out: str) -> None:
    """The table of the sentence objectives; every sentence head is asked both questions, as in the paper."""
    row("trained with", "masked tokens, nats", "accuracy", "next sentence", "order", *["paper's"] * 3)
    row(*["---"] * 8)
    for objective, paper in PAPER_OBJECTIVES.items():
        run = run_of(output, objective, "all")
        ours = figures(run, held_out, objective)
        heads = ["–", "–"]
        if objective != "none":
            heads = [f"{figures(run, held_out, asked)[f'{asked}_accuracy']:.1%}" for asked in ("nsp", "sop")]
        row(objective, f"{ours['mlm_loss']:.3f}", f"{ours['mlm_accuracy']:.1%}", *heads, *paper)


def print_sharings(output: Path, held_out: str) -> None:
    """The table of the sharings."""
    print()
    row("shared", "parameters", "masked tokens, nats", "accuracy", "sentence order", *["paper's"] * 2)
    row(*["---"] * 7)
    for sharing, (millions, score) in PAPER_SHARINGS.items():
        run = run_of(output, "sop", sharing)
        ours = figures(run, held_out, "sop")
        total = albert_tf.parameter_count(RunDirectory(run).config)["total"]
        shares = [f"{ours[name]:.1%}" for name in ("mlm_accuracy", "sop_accuracy")]
        row(sharing, f"{total:,}", f"{ours['mlm_loss']:.3f}", *shares, f"{millions} M", score)


def row(*cells: object) -> None:
    """Prints a line of a table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def figures(run: Path, held_out: str, asked: str) -> dict[str, float]:
    """A run's figures on held-out text, its sentence head asked as if `asked` were its objective."""
    stored = RunDirectory(run)
    model = build_model(stored.config, {**stored.task, "sentence_objective": asked}, stored.variables())
    batches = questions(held_out, run.parent / "spiece.model", asked)
    return loss_metrics(evaluator(model, pretraining_loss_fn(asked))(batches))


@functools.cache
def questions(held_out: str, vocabulary: Path, asked: str) -> tf.data.Dataset:
    """Held-out text as examples of a sentence objective, the same for all runs."""
    return albert_tf.pretraining_dataset(
        held_out,
        vocabulary,
        seq_length=learning.FLAGS["seq_length"],
        sentence_objective=asked,
        shuffle=False,
        repeat=False,
    )


if __name__ == "__main__":
    main()
