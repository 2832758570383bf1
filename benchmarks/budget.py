"""What does pre-training learn in a given time? Ideas beside a recipe, each for the same minutes.

    python -m benchmarks.budget --text reviews.txt --output budget --minutes 15 --ideas before one-layer
    python -m benchmarks.budget --text reviews.txt --output budget --ideas one-machine one-machine+wide

Each row is an idea, or several joined by `+`: what it changes of the row `before`, which is four layers in
two groups, as they are trained without a recipe, or of `one-machine`, the recipe one_machine, where that
comes first. How many updates the minutes allow is what `pretrain --budget` times first; the learning rate
falls to 0 at the end of them. The recipe's network is one that the minutes are enough for; where an idea
changes the network, it changes that of two layers, 128 wide. All are evaluated on the same held-out
documents with the paper's masks (15 %, up to three words) and pairs of 128 tokens. Prints Markdown. The
folder holds the runs; started again, it goes on where it stopped. `benchmarks/transfer.py` then says what
fine-tuning gets from one of them, with `--run budget/IDEA-MINUTES-SEED`.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from albert_tf import AlbertConfig
from albert_tf.pretraining.budget import ONE_MACHINE
from albert_tf.pretraining.evaluation import evaluate_run
from albert_tf.pretraining.pretraining_settings import read_recipe
from benchmarks import learning, smoke

TWO_LAYERS = ONE_MACHINE[1].config
MASKS = {"seq_length": 128, "masked_lm_prob": 0.15, "max_ngram": 3}  # all are asked the same


class Idea(NamedTuple):
    """What differs from the row that it is an idea for."""

    flags: Mapping[str, Any] = {}
    network: Mapping[str, Any] = {}
    source: str = ""


FIRST = {
    "before": Idea(
        flags={"optimizer": "adamw", "learning_rate": 1e-3, "batch_size": 64, "seq_length": 128},
        network={
            "num_hidden_layers": 4,
            "num_hidden_groups": 2,
            "embedding_size": 128,
            "hidden_size": 128,
            "num_attention_heads": 4,
            "intermediate_size": 512,
            "initializer_range": 0.06,
        },
    ),
    "one-machine": Idea({"recipe": "one_machine"}),
}
IDEAS = {
    "one-group": Idea(network={"num_hidden_groups": 1}, source="Lan et al. 2020, Table 3"),
    "one-layer": Idea(
        network={"num_hidden_groups": 1, "num_hidden_layers": 1},
        source="Gong et al. 2019: begin shallow",
    ),
    "two-layers": Idea(network={"num_hidden_layers": 2}),
    "small-batch": Idea({"batch_size": 32}),
    "large-batch": Idea({"batch_size": 64, "stages": "none"}),
    "short": Idea({"seq_length": 64, "batch_size": 128}, source="Devlin et al. 2019, A.2: short first"),
    "short-small-batch": Idea({"seq_length": 64, "batch_size": 32}),
    "words": Idea({"max_ngram": 1}, source="Devlin et al. 2019: masks of single words"),
    "ngrams": Idea({"max_ngram": 3}, source="Lan et al. 2020, §4.1"),
    "masks-15": Idea({"masked_lm_prob": 0.15}, source="Devlin et al. 2019"),
    "masks-30": Idea({"masked_lm_prob": 0.3}, source="Wettig et al. 2023"),
    "masks-40": Idea({"masked_lm_prob": 0.4}, source="Wettig et al. 2023"),
    "rate-5e-4": Idea({"learning_rate": 5e-4}),
    "rate-2e-3": Idea({"learning_rate": 2e-3}),
    "lamb": Idea({"optimizer": "lamb", "learning_rate": 5e-3}, source="You et al. 2020"),
    "beta-98": Idea({"beta_2": 0.98}, source="Liu et al. 2019"),
    "clip-half": Idea({"clip_norm": 0.5}, source="Geiping and Goldstein 2023"),
    "initializer-0.02": Idea(network={"initializer_range": 0.02}),
    "no-sentences": Idea({"sentence_objective": "none"}, source="Liu et al. 2019"),
    "wide": Idea(network={"hidden_size": 256, "num_attention_heads": 8, "intermediate_size": 1024}),
    "deep": Idea(network={"num_hidden_layers": 4}),
    "all-alike": Idea({"stages": "none"}),
    "bfloat16": Idea({"precision": "bfloat16"}),
    "counts": Idea(
        {"word_embeddings": "cooccurrence"}, source="Levy and Goldberg 2014: embeddings are factors of counts"
    ),
    "random-embeddings": Idea({"word_embeddings": "random"}),
}


def main() -> None:
    """Prints the table, a row as soon as it is known."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--text", nargs="+", required=True, help="text files, a sentence a line")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument("--minutes", type=float, default=15, help="of training (15)")
    names = [*FIRST, *IDEAS]
    parser.add_argument(
        "--ideas", nargs="+", default=[*FIRST], help=f"of {', '.join(names)} ({' '.join(FIRST)})"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="(0)")
    parser.add_argument("--vocab_size", type=int, default=8000, help="pieces (8000)")
    flags = smoke.read_flags(
        parser, text=smoke.text_file, output=smoke.output_folder, minutes=0.05, ideas="one-machine",
        vocab_size=1000,
    )  # fmt: skip
    ideas = {title: joined(title) for title in flags.ideas}
    vocabulary, prepared = learning.prepare(flags.text, flags.output, flags.vocab_size)
    print("| idea | seed | updates | examples/s | nats below the entropy | masked | order | source |")
    print("|---" * 8 + "|")
    for title, idea in ideas.items():
        for seed in flags.seeds:
            run = flags.output / f"{title}-{flags.minutes:g}-{seed}"
            figures = trained(run, idea, flags.minutes, seed, prepared, vocabulary)
            print(f"| {title} | {seed} | {' | '.join(figures)} | {idea.source} |", flush=True)


def joined(title: str) -> Idea:
    """The idea of a title; where several are joined by `+`, later ones have the last word."""
    first, *names = title.split("+") if title.split("+")[0] in FIRST else ["before", *title.split("+")]
    if unknown := [name for name in names if name not in IDEAS]:
        raise SystemExit(
            f"{', '.join(unknown)}: none of {', '.join(IDEAS)}; {' or '.join(FIRST)} can only come first"
        )
    parts = [FIRST[first], *(IDEAS[name] for name in names)]
    flags = {name: value for part in parts for name, value in part.flags.items()}
    network = {name: value for part in parts for name, value in part.network.items()}
    return Idea(flags, network, "; ".join(part.source for part in parts if part.source))


def trained(run: Path, idea: Idea, minutes: float, seed: int, prepared: Path, vocabulary: Path) -> list[str]:
    """Trains for the minutes, and evaluates; the cells of the row."""
    config = {}
    if idea.network:
        network = TWO_LAYERS if "recipe" in idea.flags else AlbertConfig()
        config = {"config": run.with_name(f"{run.name}.json")}
        config["config"].write_text(network.replace(**idea.network).to_json_string(), encoding="utf-8")
    places = {"train": prepared, "vocabulary": vocabulary, "output": run}
    intervals = {"log_every": 200, "eval_every": 0, "checkpoint_every": 0}
    flags = {**config, **places, **idea.flags, **intervals, "budget": f"{minutes:g}m", "seed": seed}
    learning.command("pretrain", *(word for name, value in flags.items() for word in (f"--{name}", value)))
    figures = evaluate_run(run, [str(prepared)], **MASKS)
    below = figures["eval_mlm_unigram_entropy"] - figures["eval_mlm_loss"]
    order = figures.get("eval_sop_accuracy")
    return [
        f"{read_recipe(run).steps:,}",
        f"{examples_per_second(run):.0f}",
        f"{below:.3f}",
        f"{figures['eval_mlm_accuracy']:.3f}",
        "–" if order is None else f"{order:.3f}",
    ]


def examples_per_second(run: Path) -> float:
    """The median of what a run has logged, without the first line: it has the time that tracing took."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return statistics.median([line["examples_per_second"] for line in lines if "learning_rate" in line][1:])


if __name__ == "__main__":
    main()
