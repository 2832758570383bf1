"""How much does pre-training learn in some minutes? Compares changes of a recipe in equal time.

    python -m benchmarks.budget --text reviews.txt --output budget --minutes 15 --ideas before one-layer
    python -m benchmarks.budget --text reviews.txt --output budget --ideas one-machine one-machine+wide

Each row is an ablation, or several joined by `+`. They change the row `before`: four layers in two groups,
trained without a recipe. If `one-machine` comes first, they change the recipe one_machine. The flag
`--budget` of `pretrain` measures first how many updates the minutes allow; the learning rate falls to 0 at
the end. The recipe chooses a network for the minutes. An ablation of the network changes the one of two
layers, 128 wide. All runs are evaluated on the same held-out documents, with the paper's masks (15 %, up to
three words) and pairs of 128 tokens. Prints Markdown. The folder holds the runs; started again, the program
continues where it stopped. `python -m benchmarks.transfer --run budget/IDEA-MINUTES-SEED` fine-tunes one of
them.
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
from benchmarks.markdown_tables import print_header, print_row

TWO_LAYERS = ONE_MACHINE[1].config
EVAL_EXAMPLES = {"seq_length": 128, "masked_lm_prob": 0.15, "max_ngram": 3}  # the same for all runs


class Ablation(NamedTuple):
    """Changes of a base.

    Attributes:
      flags: flags of `pretrain`.
      network: fields of the config.
      source: article that suggests the change.
    """

    flags: Mapping[str, Any] = {}
    network: Mapping[str, Any] = {}
    source: str = ""


BASES = {
    "before": Ablation(
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
    "one-machine": Ablation({"recipe": "one_machine"}),
}
ABLATIONS = {
    "one-group": Ablation(network={"num_hidden_groups": 1}, source="Lan et al. 2020, Table 3"),
    "one-layer": Ablation(
        network={"num_hidden_groups": 1, "num_hidden_layers": 1},
        source="Gong et al. 2019: begin shallow",
    ),
    "two-layers": Ablation(network={"num_hidden_layers": 2}),
    "small-batch": Ablation({"batch_size": 32}),
    "large-batch": Ablation({"batch_size": 64, "stages": "none"}),
    "short": Ablation({"seq_length": 64, "batch_size": 128}, source="Devlin et al. 2019, A.2: short first"),
    "short-small-batch": Ablation({"seq_length": 64, "batch_size": 32}),
    "words": Ablation({"max_ngram": 1}, source="Devlin et al. 2019: masks of single words"),
    "ngrams": Ablation({"max_ngram": 3}, source="Lan et al. 2020, §4.1"),
    "masks-15": Ablation({"masked_lm_prob": 0.15}, source="Devlin et al. 2019"),
    "masks-30": Ablation({"masked_lm_prob": 0.3}, source="Wettig et al. 2023"),
    "masks-40": Ablation({"masked_lm_prob": 0.4}, source="Wettig et al. 2023"),
    "rate-5e-4": Ablation({"learning_rate": 5e-4}),
    "rate-2e-3": Ablation({"learning_rate": 2e-3}),
    "lamb": Ablation({"optimizer": "lamb", "learning_rate": 5e-3}, source="You et al. 2020"),
    "beta-98": Ablation({"beta_2": 0.98}, source="Liu et al. 2019"),
    "clip-half": Ablation({"clip_norm": 0.5}, source="Geiping and Goldstein 2023"),
    "initializer-0.02": Ablation(network={"initializer_range": 0.02}),
    "no-sentences": Ablation({"sentence_objective": "none"}, source="Liu et al. 2019"),
    "wide": Ablation(network={"hidden_size": 256, "num_attention_heads": 8, "intermediate_size": 1024}),
    "deep": Ablation(network={"num_hidden_layers": 4}),
    "all-alike": Ablation({"stages": "none"}),
    "bfloat16": Ablation({"precision": "bfloat16"}),
    "counts": Ablation(
        {"word_embeddings": "cooccurrence"}, source="Levy and Goldberg 2014: embeddings are factors of counts"
    ),
    "random-embeddings": Ablation({"word_embeddings": "random"}),
}


def main() -> None:
    """Prints the table, a row as soon as it is known."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--text", nargs="+", required=True, help="text files, a sentence a line")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument("--minutes", type=float, default=15, help="minutes of training (15)")
    names = ", ".join([*BASES, *ABLATIONS])
    parser.add_argument("--ideas", nargs="+", default=[*BASES], help=f"of {names} ({' '.join(BASES)})")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="(0)")
    parser.add_argument("--vocab_size", type=int, default=8000, help="pieces (8000)")
    flags = smoke.read_flags(
        parser, text=smoke.text_file, output=smoke.output_folder, minutes=0.05, ideas="one-machine",
        vocab_size=1000,
    )  # fmt: skip
    ablations = {title: parse_ablation(title) for title in flags.ideas}
    vocabulary, prepared = learning.prepare(flags.text, flags.output, flags.vocab_size)
    titles = ("idea", "seed", "updates", "examples/s", "nats below the entropy", "masked", "order", "source")
    print_header(*titles)
    for title, ablation in ablations.items():
        for seed in flags.seeds:
            run = flags.output / f"{title}-{flags.minutes:g}-{seed}"
            cells = train_and_evaluate(run, ablation, flags.minutes, seed, prepared, vocabulary)
            print_row(title, f"{seed}", *cells, ablation.source)


def parse_ablation(title: str) -> Ablation:
    """The changes of a title; of several that are joined by `+`, later ones replace earlier ones."""
    base, *names = title.split("+") if title.split("+")[0] in BASES else ["before", *title.split("+")]
    if unknown := [name for name in names if name not in ABLATIONS]:
        raise SystemExit(
            f"{', '.join(unknown)}: none of {', '.join(ABLATIONS)}; {' or '.join(BASES)} can only come first"
        )
    changes = [BASES[base], *(ABLATIONS[name] for name in names)]
    flags = {name: value for change in changes for name, value in change.flags.items()}
    network = {name: value for change in changes for name, value in change.network.items()}
    return Ablation(flags, network, "; ".join(change.source for change in changes if change.source))


def train_and_evaluate(
    run: Path, ablation: Ablation, minutes: float, seed: int, prepared: Path, vocabulary: Path
) -> list[str]:
    """Trains for some minutes, and evaluates; the cells of the row."""
    flags: dict[str, Any] = {}
    if ablation.network:
        network = TWO_LAYERS if "recipe" in ablation.flags else AlbertConfig()
        flags["config"] = run.with_name(f"{run.name}.json")
        flags["config"].write_text(network.replace(**ablation.network).to_json_string(), encoding="utf-8")
    flags |= {"train": prepared, "vocabulary": vocabulary, "output": run, **ablation.flags}
    intervals = {"log_every": 200, "eval_every": 0, "checkpoint_every": 0}
    learning.run_albert_tf("pretrain", **flags, **intervals, budget=f"{minutes:g}m", seed=seed)
    metrics = evaluate_run(run, [str(prepared)], **EVAL_EXAMPLES)
    gain = metrics["eval_mlm_unigram_entropy"] - metrics["eval_mlm_loss"]
    order = metrics.get("eval_sop_accuracy")
    return [
        f"{read_recipe(run).steps:,}",
        f"{examples_per_second(run):.0f}",
        f"{gain:.3f}",
        f"{metrics['eval_mlm_accuracy']:.3f}",
        "–" if order is None else f"{order:.3f}",
    ]


def examples_per_second(run: Path) -> float:
    """The median rate in a run's log, without the first line, whose time includes tracing."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return statistics.median([line["examples_per_second"] for line in lines if "learning_rate" in line][1:])


if __name__ == "__main__":
    main()
