"""Does it learn? A small network on real text, in some twenty minutes on two cores.

    python -m benchmarks.learning --text corpus/*.txt --output learning

Trains a vocabulary, prepares the text, holds a tenth of the documents out, pre-trains and evaluates; prints
Markdown: the loss beside the entropy of the masked tokens under their own frequencies, the sentence order
with the probability that a coin does as well, and what waiting for input, logging and checkpoints cost. The
folder holds the run; started again, it goes on where it stopped.
"""

from __future__ import annotations

import functools
import json
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import albert_tf
from albert_tf import cli
from albert_tf.pretraining.evaluation import evaluate_run
from albert_tf.training import loop
from albert_tf.training.metrics_logger import MetricsLogger
from benchmarks import smoke

VOCABULARY_SIZE = 4000
CONFIG = albert_tf.AlbertConfig(
    vocab_size=VOCABULARY_SIZE,
    embedding_size=128,
    hidden_size=128,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=512,
    max_position_embeddings=128,
    initializer_range=0.06,  # with 0.02 it stays where it predicts frequencies
)
FLAGS = {
    "optimizer": "adamw",
    "learning_rate": 1e-3,
    "batch_size": 32,
    "seq_length": 128,
    "log_every": 100,
    "eval_every": 1000,
    "checkpoint_every": 1000,
}


def main() -> None:
    """Prints the table."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--text", nargs="+", required=True, help="text files, a sentence a line")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument("--steps", type=int, default=6000, help="updates (6000)")
    parser.add_argument("--seed", type=int, default=0, help="of everything random (0)")
    flags = smoke.read_flags(parser, text=smoke.text_file, output=smoke.output_folder, steps=2)
    vocabulary, prepared = prepare(flags.text, flags.output)
    run = flags.output / "run"
    seconds: dict[str, float] = {}
    for owner, name in ((loop, "write_checkpoint"), (loop, "delete_checkpoint"), (MetricsLogger, "record")):
        setattr(owner, name, timed(getattr(owner, name), name, seconds))
    started = time.monotonic()
    pretrain(run, prepared, vocabulary, steps=flags.steps, seed=flags.seed)
    seconds["all"] = time.monotonic() - started
    show(run, [f"{prepared}/eval-*"], seconds)


def prepare(text: list[str], output: Path, vocab_size: int = VOCABULARY_SIZE) -> tuple[Path, Path]:
    """A vocabulary and a folder of documents, unless they are there."""
    output.mkdir(parents=True, exist_ok=True)
    vocabulary, prepared = output / "spiece.model", output / "prepared"
    if not vocabulary.exists():
        command("vocab", "--input", *text, "--vocab_size", vocab_size, "--output", vocabulary)
    if not prepared.exists():
        places = ["--vocabulary", vocabulary, "--output", prepared]
        command("prepare", "--input", *text, *places, "--eval_share", 0.1, "--dedup")
    return vocabulary, prepared


def pretrain(
    run: Path,
    prepared: Path,
    vocabulary: Path,
    steps: int,
    config: albert_tf.AlbertConfig = CONFIG,
    program: str = "pretrain",
    **changes: object,
) -> None:
    """Trains the network, or goes on; `distill` is another program that does."""
    file = run.with_name(f"{run.name}.json")
    file.write_text(config.to_json_string(), encoding="utf-8")
    places = {"train": f"{prepared}/train-*", "eval": f"{prepared}/eval-*", "vocabulary": vocabulary}
    length = {"steps": steps, "warmup_steps": min(500, steps // 3)}
    flags = {"config": file, "output": run, **places, **length, **FLAGS, **changes}
    command(program, *(word for name, value in flags.items() for word in (f"--{name}", value)))


def command(*words: object) -> None:
    """Runs a command of the product, and stops where it fails."""
    if status := cli.run([str(word) for word in words]):
        raise SystemExit(status)


def timed(function: Callable, name: str, seconds: dict[str, float]) -> Callable:
    """The function, with the time that it takes added up by name."""

    @functools.wraps(function)
    def measured(*arguments: object, **keywords: object) -> object:
        started = time.monotonic()
        try:
            return function(*arguments, **keywords)
        finally:
            seconds[name] = seconds.get(name, 0.0) + time.monotonic() - started

    return measured


def show(run: Path, held_out: list[str], seconds: dict[str, float]) -> None:
    """Prints what came out."""
    figures = evaluate_run(run, held_out)
    pairs = pairs_of(run, held_out)
    correct = round(figures["eval_sop_accuracy"] * pairs)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    training = [line for line in lines if "input_wait" in line]
    # Weighted by the time that each interval took.
    times = [1 / line["examples_per_second"] for line in training]
    wait = sum(line["input_wait"] * t for line, t in zip(training, times, strict=True)) / sum(times)
    rate = statistics.median(line["examples_per_second"] for line in training)
    minutes = training[-1]["step"] * FLAGS["batch_size"] / rate / 60
    saving = seconds["write_checkpoint"] + seconds.get("delete_checkpoint", 0.0)
    entropy, loss = figures["eval_mlm_unigram_entropy"], figures["eval_mlm_loss"]
    rows = {
        "masked tokens, nats": f"{loss:.3f}",
        "their entropy under their own frequencies, nats": f"{entropy:.3f}",
        "nats below": f"{entropy - loss:.3f}",
        "masked tokens, accuracy": f"{figures['eval_mlm_accuracy']:.3f}",
        "sentence order, accuracy": f"{figures['eval_sop_accuracy']:.3f} of {pairs} pairs",
        "that a coin does as well": f"p = {tail(correct, pairs):.1e}",
        "examples/s, median": f"{rate:.0f}",
        "training at that rate, minutes": f"{minutes:.1f}",
        "waiting for input": f"{wait:.2%}",
        "logging": f"{seconds['record'] / seconds['all']:.2%}",
        "checkpoints": f"{saving / seconds['all']:.2%}",
    }
    print("| what | figure |\n|---|---|")
    for name, value in rows.items():
        print(f"| {name} | {value} |")


def pairs_of(run: Path, held_out: list[str]) -> int:
    """How many pairs `evaluate_run` looks at."""
    batches = albert_tf.pretraining_dataset(
        held_out, run / "spiece.model", seq_length=FLAGS["seq_length"], shuffle=False, repeat=False
    )
    return sum(int((batch["sentence_order_labels"] >= 0).numpy().sum()) for batch in batches)


def tail(correct: int, pairs: int) -> float:
    """The probability that so many fair coins show at least so many heads."""
    terms = (
        math.lgamma(pairs + 1) - math.lgamma(k + 1) - math.lgamma(pairs - k + 1) - pairs * math.log(2)
        for k in range(correct, pairs + 1)
    )
    return sum(map(math.exp, terms))


if __name__ == "__main__":
    main()
