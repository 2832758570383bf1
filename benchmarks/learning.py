"""Does pre-training learn? A small network on real text, in about twenty minutes on two cores.

    python -m benchmarks.learning --text corpus/*.txt --output learning

Trains a vocabulary, prepares the text (a tenth of the documents is held out), pre-trains and evaluates.
Prints Markdown: the loss and the entropy of the masked tokens under their own frequencies, the accuracy of
sentence order with the probability that a coin is as good, and the time of waiting for input, logging and
checkpoints. The folder holds the run; started again, the program continues where it stopped.
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
from benchmarks.markdown_tables import print_header, print_row

VOCABULARY_SIZE = 4000
CONFIG = albert_tf.AlbertConfig(
    vocab_size=VOCABULARY_SIZE, embedding_size=128, hidden_size=128, num_hidden_layers=3,
    num_attention_heads=4, intermediate_size=512, max_position_embeddings=128,
    initializer_range=0.06,  # with 0.02 the network learns frequencies alone
)  # fmt: skip
FLAGS = {
    "optimizer": "adamw", "learning_rate": 1e-3, "batch_size": 32, "seq_length": 128,
    "log_every": 100, "eval_every": 1000, "checkpoint_every": 1000,
}  # fmt: skip


def main() -> None:
    """Prints the table."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--text", nargs="+", required=True, help="text files, a sentence a line")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument("--steps", type=int, default=6000, help="updates (6000)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (0)")
    flags = smoke.read_flags(parser, text=smoke.text_file, output=smoke.output_folder, steps=2)
    vocabulary, prepared = prepare(flags.text, flags.output)
    run = flags.output / "run"
    seconds: dict[str, float] = {}
    for owner, name in ((loop, "write_checkpoint"), (loop, "delete_checkpoint"), (MetricsLogger, "record")):
        setattr(owner, name, add_up_seconds(getattr(owner, name), name, seconds))
    start = time.monotonic()
    pretrain(run, prepared, vocabulary, steps=flags.steps, seed=flags.seed)
    seconds["all"] = time.monotonic() - start
    print_results(run, [f"{prepared}/eval-*"], seconds)


def prepare(text: list[str], output: Path, vocab_size: int = VOCABULARY_SIZE) -> tuple[Path, Path]:
    """The vocabulary and the folder of documents, made unless they exist."""
    output.mkdir(parents=True, exist_ok=True)
    vocabulary, prepared = output / "spiece.model", output / "prepared"
    if not vocabulary.exists():
        run_albert_tf("vocab", "--input", *text, "--vocab_size", vocab_size, "--output", vocabulary)
    if not prepared.exists():
        paths = ["--vocabulary", vocabulary, "--output", prepared]
        run_albert_tf("prepare", "--input", *text, *paths, "--eval_share", 0.1, "--dedup")
    return vocabulary, prepared


def pretrain(run: Path, prepared: Path, vocabulary: Path, steps: int, seed: int) -> None:
    """Pre-trains the network, or resumes its run."""
    file = run.with_name(f"{run.name}.json")
    file.write_text(CONFIG.to_json_string(), encoding="utf-8")
    run_albert_tf(
        "pretrain", config=file, output=run, train=f"{prepared}/train-*", eval=f"{prepared}/eval-*",
        vocabulary=vocabulary, steps=steps, warmup_steps=min(500, steps // 3), seed=seed, **FLAGS,
    )  # fmt: skip


def run_albert_tf(*arguments: object, **flags: object) -> None:
    """Runs a command of albert-tf in this process, and exits if it fails.

    Args:
      arguments: the command, and further arguments as on the command line.
      flags: flags with a value each; items of a list are separate arguments.
    """
    words = list(arguments)
    for name, value in flags.items():
        words += [f"--{name}", *(value if isinstance(value, list | tuple) else [value])]
    if status := cli.run([str(word) for word in words]):
        raise SystemExit(status)


def add_up_seconds(function: Callable, name: str, seconds: dict[str, float]) -> Callable:
    """The function, whose calls add their time to an entry of `seconds`."""

    @functools.wraps(function)
    def timed_function(*arguments: object, **keywords: object) -> object:
        start = time.monotonic()
        try:
            return function(*arguments, **keywords)
        finally:
            seconds[name] = seconds.get(name, 0.0) + time.monotonic() - start

    return timed_function


def print_results(run: Path, held_out: list[str], seconds: dict[str, float]) -> None:
    """Evaluates the run and prints the table."""
    metrics = evaluate_run(run, held_out)
    pairs = count_pairs(run, held_out)
    correct = round(metrics["eval_sop_accuracy"] * pairs)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    training = [line for line in lines if "input_wait" in line]
    # Each line is weighted by the time of its interval.
    times = [1 / line["examples_per_second"] for line in training]
    wait = sum(line["input_wait"] * t for line, t in zip(training, times, strict=True)) / sum(times)
    rate = statistics.median(line["examples_per_second"] for line in training)
    minutes = training[-1]["step"] * FLAGS["batch_size"] / rate / 60
    saving = seconds["write_checkpoint"] + seconds.get("delete_checkpoint", 0.0)
    entropy, loss = metrics["eval_mlm_unigram_entropy"], metrics["eval_mlm_loss"]
    rows = {
        "masked tokens, nats": f"{loss:.3f}",
        "their entropy under their own frequencies, nats": f"{entropy:.3f}",
        "nats below": f"{entropy - loss:.3f}",
        "masked tokens, accuracy": f"{metrics['eval_mlm_accuracy']:.3f}",
        "sentence order, accuracy": f"{metrics['eval_sop_accuracy']:.3f} of {pairs} pairs",
        "that a coin does as well": f"p = {binomial_tail(correct, pairs):.1e}",
        "examples/s, median": f"{rate:.0f}",
        "training at that rate, minutes": f"{minutes:.1f}",
        "waiting for input": f"{wait:.2%}",
        "logging": f"{seconds['record'] / seconds['all']:.2%}",
        "checkpoints": f"{saving / seconds['all']:.2%}",
    }
    print_header("what", "figure")
    for name, value in rows.items():
        print_row(name, value)


def count_pairs(run: Path, held_out: list[str]) -> int:
    """The number of segment pairs that `evaluate_run` reads."""
    batches = albert_tf.pretraining_dataset(
        held_out, run / "spiece.model", seq_length=FLAGS["seq_length"], shuffle=False, repeat=False
    )
    return sum(int((batch["sentence_order_labels"] >= 0).numpy().sum()) for batch in batches)


def binomial_tail(correct: int, pairs: int) -> float:
    """The probability of at least `correct` heads in `pairs` throws of a fair coin."""
    terms = (
        math.lgamma(pairs + 1) - math.lgamma(k + 1) - math.lgamma(pairs - k + 1) - pairs * math.log(2)
        for k in range(correct, pairs + 1)
    )
    return sum(map(math.exp, terms))


if __name__ == "__main__":
    main()
