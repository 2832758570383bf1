"""What does pre-training bring? A run's network fine-tuned from its weights, and from random ones.

    python -m benchmarks.transfer --run run --output transfer --imdb imdb --sst-2 glue/SST-2 --mrpc glue/MRPC

Both see the same batches for the same number of updates, with three seeds each. The learning rate of each is
chosen on a tenth of its training data; the test data is looked at once, after the last update. Beside them
stands logistic regression on TF-IDF of words and pairs of words, its regularisation chosen by
cross-validation, and the share of the most frequent label. Prints Markdown: accuracies, of the seeds the
median and the range. The folder holds the runs; started again, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import collections
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegressionCV

from albert_tf.constants import POOLINGS
from albert_tf.finetuning.finetune import finetune, finetune_runs
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.finetuning.reports import best_metrics
from albert_tf.runs.run_directory import SUMMARY_FILE, RunDirectory
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.examples import TextRecord
from albert_tf.tasks.glue import read_glue_split
from benchmarks import smoke

REVIEWS = 2400  # of IMDB
FEW = 2000  # of SST-2
WAYS = ("pre-trained", "from scratch")
RATES = (1e-4, 3e-4, 1e-3)


class Example(NamedTuple):
    """A text or a pair of texts, and its label."""

    text: str
    pair: str | None
    label: str


class Data(NamedTuple):
    """What is learnt, and what is asked."""

    train: list[Example]
    test: list[Example]


def main() -> None:
    """Prints the table, a row as soon as it is known."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--run", type=Path, required=True, help="a pre-trained run with its vocabulary")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    for name in DATA:
        parser.add_argument(f"--{name}", type=Path, metavar="DIR", help="folder of its files (left out)")
    parser.add_argument("--steps", type=int, default=1500, help="updates of each run (1500)")
    parser.add_argument("--batch_size", type=int, default=32, help="(32)")
    parser.add_argument("--seq_length", type=int, default=128, help="tokens (128)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each way (3)")
    parser.add_argument("--pooling", choices=POOLINGS, default="first", help="what the head reads (first)")
    rates = " ".join(map(str, RATES))
    parser.add_argument(
        "--learning_rates", type=float, nargs="+", default=RATES, help=f"to choose from ({rates})"
    )
    flags = smoke.read_flags(
        parser,
        run=smoke.pretrained_run,
        output=smoke.output_folder,
        **{"sst-2": smoke.sst2},
        steps=2,
        batch_size=4,
        seeds=1,
        seq_length=16,
        learning_rates=1e-3,
    )
    head = [
        "data",
        "examples",
        "tested on",
        "most frequent label",
        "TF-IDF",
        *reversed(WAYS),
        "learning rates",
    ]
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for name, folders in DATA.items():
        folder = getattr(flags, name.replace("-", "_"))
        for title, data in folders(folder) if folder else ():
            print(
                f"| {' | '.join([title, *cells(flags, flags.output / title.replace(' ', '_'), data)])} |",
                flush=True,
            )


def cells(flags: argparse.Namespace, output: Path, data: Data) -> Iterator[str]:
    """A row of the table but for its title."""
    yield from (f"{len(part):,}" for part in data)
    yield f"{frequent(data.test):.3f}"
    yield f"{bag_of_words(data):.3f}"
    files = [written(output / f"{name}.jsonl", part) for name, part in data._asdict().items()]
    rates = []
    for way in reversed(WAYS):
        settings = fine_tuning(flags, way, files[0], is_pair=data.train[0].pair is not None)
        rate = chosen_rate(flags.learning_rates, settings, output / way.replace(" ", "_"))
        accuracies = tested(flags, settings(output / way.replace(" ", "_") / f"{rate}", rate, files[1]))
        yield f"{np.median(accuracies):.3f} ({min(accuracies):.3f} to {max(accuracies):.3f})"
        rates.append(f"{rate:g}")
    yield ", ".join(rates)


# From an output, a learning rate and what to evaluate on.
Settings = Callable[[Path, float, Path | None], Finetuning]


def fine_tuning(flags: argparse.Namespace, way: str, train: Path, is_pair: bool) -> Settings:
    """What the runs of a way have in common: everything but the start is the same for both."""
    weights = {"init_from": flags.run}
    if way != WAYS[0]:
        weights = {
            "config": RunDirectory(flags.run).config,
            "vocabulary": RunDirectory(flags.run).vocabulary,
            "tokenizer": RunDirectory(flags.run).tokenizer,
        }

    def settings(output: Path, rate: float, test: Path | None) -> Finetuning:
        return Finetuning(
            output=output,
            task="classification",
            train=train,
            eval=test,
            columns=Columns("text", "pair" if is_pair else None, "label"),
            recipe={
                "learning_rate": rate,
                "steps": flags.steps,
                "batch_size": flags.batch_size,
                "seq_length": flags.seq_length,
                "pooling": flags.pooling,
            },
            loop={"eval_every": 0, "checkpoint_every": 0},  # at the end: no step is chosen
            **weights,
        )

    return settings


def chosen_rate(rates: Sequence[float], settings: Settings, output: Path) -> float:
    """The learning rate that does best on a tenth of the training data, which `finetune` holds out."""
    if len(rates) == 1:
        return rates[0]
    accuracies = {}
    for rate in rates:
        chosen = settings(output / f"choice-{rate}", rate, None)
        finetune(chosen)
        accuracies[rate] = best_metrics(RunDirectory(chosen.output))["accuracy"] or 0.0
    return max(accuracies, key=lambda rate: accuracies[rate])


def tested(flags: argparse.Namespace, settings: Finetuning) -> list[float]:
    """The accuracies of the seeds on the test data."""
    finetune_runs(settings, flags.seeds)
    summary = json.loads((Path(settings.output) / SUMMARY_FILE).read_text(encoding="utf-8"))
    return [figures["accuracy"] for figures in summary["runs"].values()]


def bag_of_words(data: Data) -> float:
    """Accuracy of logistic regression on TF-IDF; of pairs also on what both texts have, and one alone has."""
    vectors = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    vectors.fit([text for example in data.train for text in (example.text, example.pair) if text])

    def features(examples: Sequence[Example]) -> sparse.csr_matrix:
        first = vectors.transform([example.text for example in examples])
        if examples[0].pair is None:
            return first
        second = vectors.transform([example.pair for example in examples])
        return sparse.hstack([first, second, abs(first - second), first.multiply(second)]).tocsr()

    model = LogisticRegressionCV(Cs=np.logspace(-1, 2, 7), max_iter=1000)
    model.fit(features(data.train), [example.label for example in data.train])
    return model.score(features(data.test), [example.label for example in data.test])


def frequent(examples: Sequence[Example]) -> float:
    """The share of the label that most have."""
    ((_, count),) = collections.Counter(example.label for example in examples).most_common(1)
    return count / len(examples)


def written(file: Path, examples: Sequence[Example]) -> Path:
    """A file of JSON lines."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(example._asdict(), ensure_ascii=False) + "\n" for example in examples)
    file.write_text("".join(lines), encoding="utf-8")
    return file


def some(examples: list[Example], count: int) -> list[Example]:
    """So many of them, the same each time."""
    return [examples[place] for place in np.random.default_rng(0).permutation(len(examples))[:count]]


def imdb(folder: Path, reviews: int = REVIEWS) -> Iterator[tuple[str, Data]]:
    """Film reviews, a file each, in `train` and `test`, `neg` and `pos`."""
    parts = []
    for part in Data._fields:
        files = [
            (file, label) for label in ("neg", "pos") for file in sorted((folder / part / label).iterdir())
        ]
        parts.append([Example(file.read_text(encoding="utf-8"), None, label) for file, label in files])
    yield f"IMDB {reviews:,}", Data(some(parts[0], reviews), parts[1])


def sst2(folder: Path) -> Iterator[tuple[str, Data]]:
    """All of it, and a few of its examples."""
    data = glue("sst-2", folder)
    yield f"SST-2 {FEW:,}", data._replace(train=some(data.train, FEW))
    yield "SST-2 all", data


def glue(task: str, folder: Path) -> Data:
    """Training and development set of a task, whose test set has no labels."""

    def example(record: TextRecord) -> Example:
        assert record.label is not None
        return Example(record.text, record.text_pair, record.label)

    return Data(
        *([example(record) for record in read_glue_split(task, folder, part)] for part in ("train", "dev"))
    )


DATA: dict[str, Callable[[Path], Iterator[tuple[str, Data]]]] = {
    "imdb": imdb,
    "sst-2": sst2,
    "mrpc": lambda folder: iter([("MRPC", glue("mrpc", folder))]),
    "rte": lambda folder: iter([("RTE", glue("rte", folder))]),
}


if __name__ == "__main__":
    main()
