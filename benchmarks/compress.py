"""How good is an ALBERT that was made of a BERT? Compressed, distilled and fine-tuned, step by step.

    python -m benchmarks.compress --teacher minilm --text corpus/*.txt --glue glue --output compress

Makes an ALBERT of the teacher with each way to begin its blocks, and distils each for a few updates on text.
Then the best of them is distilled for all updates, and so is a network of the same shape from random weights.
Prints Markdown for each network: its parameters; the cosine distance from the teacher's states on held-out
text; Spearman's correlation of the embeddings' cosines with the scores of STS-B's dev set, without training;
and the accuracy on SST-2 after fine-tuning on some of its rows, as mean and range of the seeds. Started
again, the program continues where it stopped.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

import albert_tf
from albert_tf.conversion.compress import BLOCKS, compress
from albert_tf.runs.run_directory import RunDirectory, read_metrics
from albert_tf.tasks.glue import read_glue_split
from benchmarks import smoke
from benchmarks.learning import run_albert_tf
from benchmarks.markdown_tables import format_range, print_header, print_row
from benchmarks.transfer import sample_examples

SEQ_LENGTH = 64


def main() -> None:
    """Trains and prints the table, a row as soon as it is known."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--teacher", type=Path, required=True, help="run of a BERT with its vocabulary")
    parser.add_argument("--text", nargs="+", required=True, help="text files, a sentence a line")
    parser.add_argument("--glue", type=Path, required=True, help="folder with STS-B and SST-2")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument("--embedding_size", type=int, default=128, help="(128)")
    parser.add_argument("--groups", type=int, default=1, help="(1)")
    parser.add_argument(
        "--blocks", nargs="+", choices=BLOCKS, default=list(BLOCKS), help="to choose from (all)"
    )
    parser.add_argument("--choice_steps", type=int, default=200, help="updates to choose the blocks by (200)")
    parser.add_argument("--steps", type=int, default=3000, help="updates of the students (3000)")
    parser.add_argument("--batch_size", type=int, default=32, help="(32)")
    parser.add_argument(
        "--learning_rate", type=float, default=5e-4, help="learning rate of distillation (5e-4)"
    )
    parser.add_argument("--rows", type=int, default=6000, help="training examples of SST-2 (6000)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of fine-tuning (3)")
    flags = smoke.read_flags(
        parser, teacher=smoke.bert_run, text=smoke.text_file, glue=smoke.glue, output=smoke.output_folder,
        embedding_size=16, blocks="mean", choice_steps=2, steps=3, batch_size=4, rows=8, seeds=1,
    )  # fmt: skip
    print_header("network", "parameters", "cosine distance", "STS-B, as it is", "SST-2")
    print_network(flags, "the teacher", flags.teacher, is_finetuned=True)
    distances = {}
    for blocks in flags.blocks:
        compressed = flags.output / blocks
        if not compressed.exists():
            compress(flags.teacher, compressed, flags.embedding_size, flags.groups, blocks)
        print_network(flags, f"compressed, blocks: {blocks}", compressed)
        student = distill_student(flags, compressed, flags.choice_steps)
        distances[blocks] = print_network(flags, f"{blocks}, {flags.choice_steps} updates", student)
    best = min(distances, key=lambda blocks: distances[blocks])
    for name, start in ((best, flags.output / best), ("random weights", write_random_run(flags, best))):
        student = distill_student(flags, start, flags.steps)
        print_network(flags, f"{name}, {flags.steps} updates", student, is_finetuned=True)


def write_random_run(flags: argparse.Namespace, blocks: str) -> Path:
    """A run with the shape of a compressed network and random weights, written unless it exists."""
    run, compressed = flags.output / "random", RunDirectory(flags.output / blocks)
    if not run.exists():
        model = albert_tf.AlbertEncoder(compressed.config)
        albert_tf.save(model, run, compressed.vocabulary, tokenizer=compressed.tokenizer)
    return run


def distill_student(flags: argparse.Namespace, start: Path, steps: int) -> Path:
    """Distils a student that begins with a run's weights; returns the student's run."""
    run = flags.output / f"{start.name}-{steps}"
    run_albert_tf(
        "distill", teacher=flags.teacher, init_from=start, output=run, steps=steps,
        warmup_steps=max(steps // 20, 1), batch_size=flags.batch_size, seq_length=SEQ_LENGTH,
        learning_rate=flags.learning_rate, log_every=50, eval_every=steps,
        checkpoint_every=min(steps, 250), train=flags.text,
    )  # fmt: skip
    return run


def print_network(flags: argparse.Namespace, name: str, run: Path, *, is_finetuned: bool = False) -> float:
    """Prints a row of the table; returns the cosine distance, NaN where there is none."""
    encoder = albert_tf.load(run).encoder
    parameters = sum(int(np.prod(variable.shape)) for variable in encoder.variables)
    lines = read_metrics(run) if (run / "metrics.jsonl").exists() else []
    distances = [line["eval_cosine_loss"] for line in lines if "eval_cosine_loss" in line]
    print_row(
        name,
        f"{parameters:,}",
        f"{distances[-1]:.4f}" if distances else "",
        f"{sts_b_spearman(flags, run):.4f}",
        finetuned_accuracy(flags, run) if is_finetuned else "",
    )
    return distances[-1] if distances else float("nan")


def sts_b_spearman(flags: argparse.Namespace, run: Path) -> float:
    """Spearman's correlation of STS-B's scores with the cosines of mean-pooled embeddings."""
    file = flags.output / "sts-b" / f"{run.name}.json"
    if file.exists():
        return json.loads(file.read_text())
    records = list(read_glue_split("sts-b", flags.glue / "STS-B", "dev"))
    embed = albert_tf.pipeline(run, "feature-extraction", pooling="mean", normalize=True)
    first, second = (
        np.array(embed([getattr(record, side) for record in records])) for side in ("text", "text_pair")
    )
    scores = [float(record.label) for record in records]
    correlation = float(spearmanr((first * second).sum(axis=1), scores).statistic)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(correlation))
    return correlation


def finetuned_accuracy(flags: argparse.Namespace, run: Path) -> str:
    """The accuracy on SST-2's dev set after fine-tuning on some of its rows: mean and range of the seeds."""
    data, output = flags.output / "sst-2", flags.output / f"sst-2-{run.name}"
    data.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", flags.rows), ("dev", None)):
        with (flags.glue / "SST-2" / f"{split}.tsv").open(encoding="utf-8") as file:
            head, rows = next(file), list(file)
        sample = rows if count is None else sample_examples(rows, count)
        (data / f"{split}.tsv").write_text("".join([head, *sample]), encoding="utf-8")
    run_albert_tf(
        "finetune", task="sst-2", data=data, init_from=run, output=output, runs=flags.seeds, epochs=3,
        batch_size=32, seq_length=SEQ_LENGTH, learning_rate=5e-5, pooling="mean",
    )  # fmt: skip
    return format_range(list(best_accuracies(output)), average=statistics.mean)


def best_accuracies(output: Path) -> Iterator[float]:
    """The accuracy of the best step of each seed."""
    for run in sorted(output.glob("seed-*")):
        yield max(line["eval_accuracy"] for line in read_metrics(run) if "eval_accuracy" in line)


if __name__ == "__main__":
    main()
