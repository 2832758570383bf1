"""What does an ALBERT keep of the BERT that it was made of? Compressed, distilled, fine-tuned, step by step.

    python -m benchmarks.compress --teacher minilm --text corpus/*.txt --glue glue --output compress

Makes an ALBERT of the teacher with each beginning of its blocks, distils each for a few updates on text, the
best of them for all, and a network of the same shape from random weights for as many. Of each network it
prints parameters, the cosine distance from the teacher's states on held-out text, the correlation (Spearman)
of the embeddings' cosines with the scores of STS-B's dev set, without training, and the accuracy on SST-2
after fine-tuning on some of its rows, of the seeds the mean and the range. Prints Markdown. Started again, it
goes on where it stopped.
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
from albert_tf import cli
from albert_tf.conversion.compress import BLOCKS, compress
from albert_tf.runs.run_directory import RunDirectory, read_metrics
from albert_tf.tasks.glue import read_glue_split
from benchmarks import smoke

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
    parser.add_argument("--learning_rate", type=float, default=5e-4, help="of distillation (5e-4)")
    parser.add_argument("--rows", type=int, default=6000, help="of SST-2 (6000)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of fine-tuning (3)")
    flags = smoke.read_flags(
        parser, teacher=smoke.bert_run, text=smoke.text_file, glue=smoke.glue, output=smoke.output_folder,
        embedding_size=16, blocks="mean", choice_steps=2, steps=3, batch_size=4, rows=8, seeds=1,
    )  # fmt: skip
    print("| network | parameters | cosine distance | STS-B, as it is | SST-2 |\n|---|---|---|---|---|")
    row(flags, "the teacher", flags.teacher, is_tuned=True)
    distances = {}
    for blocks in flags.blocks:
        begun = flags.output / blocks
        if not begun.exists():
            compress(flags.teacher, begun, flags.embedding_size, flags.groups, blocks)
        row(flags, f"compressed, blocks: {blocks}", begun)
        run = distilled(flags, f"{blocks}-{flags.choice_steps}", begun, flags.choice_steps)
        distances[blocks] = row(flags, f"{blocks}, {flags.choice_steps} updates", run)
    chosen = min(distances, key=lambda blocks: distances[blocks])
    for name, begun in ((chosen, flags.output / chosen), ("random weights", random_start(flags, chosen))):
        run = distilled(flags, f"{begun.name}-{flags.steps}", begun, flags.steps)
        row(flags, f"{name}, {flags.steps} updates", run, is_tuned=True)


def random_start(flags: argparse.Namespace, chosen: str) -> Path:
    """A run of a compressed network's shape with random weights."""
    run, there = flags.output / "random", RunDirectory(flags.output / chosen)
    if not run.exists():
        model = albert_tf.AlbertEncoder(there.config)
        albert_tf.save(model, run, there.vocabulary, tokenizer=there.tokenizer)
    return run


def distilled(flags: argparse.Namespace, name: str, begun: Path, steps: int) -> Path:
    """The run of a student that begins with another."""
    run = flags.output / name
    every = {"log_every": 50, "eval_every": steps, "checkpoint_every": min(steps, 250)}
    options = {
        "teacher": flags.teacher, "init_from": begun, "output": run, "steps": steps,
        "warmup_steps": max(steps // 20, 1), "batch_size": flags.batch_size, "seq_length": SEQ_LENGTH,
        "learning_rate": flags.learning_rate, **every,
    }  # fmt: skip
    words = [str(word) for option, value in options.items() for word in (f"--{option}", value)]
    if cli.run(["distill", *words, "--train", *flags.text]) != 0:
        raise SystemExit(f"{run} failed")
    return run


def row(flags: argparse.Namespace, name: str, run: Path, *, is_tuned: bool = False) -> float:
    """Prints a row of the table; returns the cosine distance, NaN where there is none."""
    encoder = albert_tf.load(run).encoder
    parameters = sum(int(np.prod(variable.shape)) for variable in encoder.variables)
    found = [line["eval_cosine_loss"] for line in _metrics(run) if "eval_cosine_loss" in line]
    distance = found[-1] if found else float("nan")
    cells = [f"{parameters:,}", f"{distance:.4f}" if found else "", f"{similarity(flags, run):.4f}"]
    cells.append(tuned(flags, run) if is_tuned else "")
    print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return distance


def _metrics(run: Path) -> list[dict]:
    return read_metrics(run) if (run / "metrics.jsonl").exists() else []


def similarity(flags: argparse.Namespace, run: Path) -> float:
    """Spearman's correlation of STS-B's scores with the cosine of mean-pooled embeddings."""
    file = flags.output / "sts-b" / f"{run.name}.json"
    if file.exists():
        return json.loads(file.read_text())
    records = list(read_glue_split("sts-b", flags.glue / "STS-B", "dev"))
    embed = albert_tf.pipeline(run, "feature-extraction", pooling="mean", normalize=True)
    first, second = (
        np.array(embed([getattr(record, side) for record in records])) for side in ("text", "text_pair")
    )
    scores = [float(record.label) for record in records]
    found = float(spearmanr((first * second).sum(axis=1), scores).statistic)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found))
    return found


def tuned(flags: argparse.Namespace, run: Path) -> str:
    """The accuracy on SST-2's dev set after fine-tuning on some rows of it: mean and range of the seeds."""
    data, output = flags.output / "sst-2", flags.output / f"sst-2-{run.name}"
    data.mkdir(parents=True, exist_ok=True)
    for part, lines in (("train", flags.rows), ("dev", None)):
        with (flags.glue / "SST-2" / f"{part}.tsv").open(encoding="utf-8") as file:
            kept = [next(file), *_some(list(file), lines)]
        (data / f"{part}.tsv").write_text("".join(kept), encoding="utf-8")
    options = {
        "task": "sst-2", "data": data, "init_from": run, "output": output, "runs": flags.seeds, "epochs": 3,
        "batch_size": 32, "seq_length": SEQ_LENGTH, "learning_rate": 5e-5, "pooling": "mean",
    }  # fmt: skip
    if cli.run(["finetune", *(str(w) for name, value in options.items() for w in (f"--{name}", value))]):
        raise SystemExit(f"{output} failed")
    found = list(accuracies(output))
    return f"{statistics.mean(found):.3f} ({min(found):.3f} to {max(found):.3f})"


def accuracies(output: Path) -> Iterator[float]:
    """Of the best step of each seed."""
    for run in sorted(output.glob("seed-*")):
        yield max(line["eval_accuracy"] for line in read_metrics(run) if "eval_accuracy" in line)


def _some(lines: list[str], count: int | None) -> list[str]:
    order = np.random.default_rng(0).permutation(len(lines))[:count]
    return lines if count is None else [lines[place] for place in order]


if __name__ == "__main__":
    main()
