"""Does pre-training help? Fine-tunes a run's network from its weights and from random weights.

    python -m benchmarks.transfer --run run --output transfer --imdb imdb --sst-2 glue/SST-2 --mrpc glue/MRPC

Both see the same batches for the same number of updates, with three seeds each. A tenth of the training data
chooses the learning rate of each; the test data is read once, after the last update. Two baselines are
logistic regression on TF-IDF of words and pairs of words (cross-validation chooses its regularisation), and
the share of the most frequent label. Prints Markdown: accuracies, as median and range of the seeds. The
folder holds the runs; started again, the program continues where it stopped.
"""

from __future__ import annotations

import argparse
import collections
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

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
from benchmarks.markdown_tables import format_range, print_header, print_row

IMDB_EXAMPLES = 2400
SST2_EXAMPLES = 2000
STARTS = ("pre-trained", "from scratch")
LEARNING_RATES = (1e-4, 3e-4, 1e-3)

T = TypeVar("T")


class Example(NamedTuple):
    """A text or a pair of texts, and its label."""

    text: str
    pair: str | None
    label: str


class TrainTest(NamedTuple):
    """Examples to train on, and examples to test on."""

    train: list[Example]
    test: list[Example]


def main() -> None:
    """Prints the table, a row as soon as it is known."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--run", type=Path, required=True, help="a pre-trained run with its vocabulary")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    for name in DATASETS:
        parser.add_argument(f"--{name}", type=Path, metavar="DIR", help="folder of its files (left out)")
    parser.add_argument("--steps", type=int, default=1500, help="updates of each run (1500)")
    parser.add_argument("--batch_size", type=int, default=32, help="(32)")
    parser.add_argument("--seq_length", type=int, default=128, help="tokens (128)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each start (3)")
    parser.add_argument("--pooling", choices=POOLINGS, default="first", help="what the head reads (first)")
    rates = " ".join(map(str, LEARNING_RATES))
    parser.add_argument(
        "--learning_rates", type=float, nargs="+", default=LEARNING_RATES, help=f"to choose from ({rates})"
    )
    flags = smoke.read_flags(
        parser, run=smoke.pretrained_run, output=smoke.output_folder, **{"sst-2": smoke.sst2}, steps=2,
        batch_size=4, seeds=1, seq_length=16, learning_rates=1e-3,
    )  # fmt: skip
    titles = ("data", "examples", "tested on", "most frequent label", "TF-IDF")
    print_header(*titles, *reversed(STARTS), "learning rates")
    for name, read in DATASETS.items():
        folder = getattr(flags, name.replace("-", "_"))
        for title, data in read(folder) if folder else ():
            print_row(title, *table_cells(flags, flags.output / title.replace(" ", "_"), data))


def table_cells(flags: argparse.Namespace, output: Path, data: TrainTest) -> Iterator[str]:
    """The cells of a dataset's row, without its title."""
    yield from (f"{len(examples):,}" for examples in data)
    yield f"{most_frequent_share(data.test):.3f}"
    yield f"{score_bag_of_words(data):.3f}"
    train, test = (
        write_example_lines(output / f"{name}.jsonl", examples) for name, examples in data._asdict().items()
    )
    rates = []
    for start in reversed(STARTS):
        folder = output / start.replace(" ", "_")
        settings = make_settings_fn(flags, start, train, is_pair=data.train[0].pair is not None)
        rate = choose_learning_rate(flags.learning_rates, settings, folder)
        yield format_range(measure_accuracies(flags, settings(folder / f"{rate}", rate, test)))
        rates.append(f"{rate:g}")
    yield ", ".join(rates)


# Arguments: output, learning rate, evaluation file.
SettingsFn = Callable[[Path, float, Path | None], Finetuning]


def make_settings_fn(flags: argparse.Namespace, start: str, train: Path, is_pair: bool) -> SettingsFn:
    """A function that makes the settings of a run. Only the first weights differ between the starts."""
    weights = {"init_from": flags.run}
    if start != STARTS[0]:
        run = RunDirectory(flags.run)
        weights = {"config": run.config, "vocabulary": run.vocabulary, "tokenizer": run.tokenizer}
    names = ("steps", "batch_size", "seq_length", "pooling")

    def settings(output: Path, rate: float, test: Path | None) -> Finetuning:
        return Finetuning(
            output=output,
            task="classification",
            train=train,
            eval=test,
            columns=Columns("text", "pair" if is_pair else None, "label"),
            recipe={"learning_rate": rate, **{name: getattr(flags, name) for name in names}},
            loop={"eval_every": 0, "checkpoint_every": 0},  # once, after the last step
            **weights,
        )

    return settings


def choose_learning_rate(rates: Sequence[float], settings: SettingsFn, output: Path) -> float:
    """The learning rate with the best accuracy on the tenth of the data that `finetune` holds out."""
    if len(rates) == 1:
        return rates[0]
    accuracies = {}
    for rate in rates:
        run_settings = settings(output / f"choice-{rate}", rate, None)
        finetune(run_settings)
        accuracies[rate] = best_metrics(RunDirectory(run_settings.output))["accuracy"] or 0.0
    return max(accuracies, key=lambda rate: accuracies[rate])


def measure_accuracies(flags: argparse.Namespace, settings: Finetuning) -> list[float]:
    """Fine-tunes with each seed; the accuracies on the test data."""
    finetune_runs(settings, flags.seeds)
    summary = json.loads((Path(settings.output) / SUMMARY_FILE).read_text(encoding="utf-8"))
    return [metrics["accuracy"] for metrics in summary["runs"].values()]


def score_bag_of_words(data: TrainTest) -> float:
    """Accuracy of logistic regression on TF-IDF; for pairs also on their differences and products."""
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    vectorizer.fit([text for example in data.train for text in (example.text, example.pair) if text])

    def features(examples: Sequence[Example]) -> sparse.csr_matrix:
        first = vectorizer.transform([example.text for example in examples])
        if examples[0].pair is None:
            return first
        second = vectorizer.transform([example.pair for example in examples])
        return sparse.hstack([first, second, abs(first - second), first.multiply(second)]).tocsr()

    model = LogisticRegressionCV(Cs=np.logspace(-1, 2, 7), max_iter=1000)
    model.fit(features(data.train), [example.label for example in data.train])
    return model.score(features(data.test), [example.label for example in data.test])


def most_frequent_share(examples: Sequence[Example]) -> float:
    """The share of the most frequent label."""
    ((_, count),) = collections.Counter(example.label for example in examples).most_common(1)
    return count / len(examples)


def write_example_lines(file: Path, examples: Sequence[Example]) -> Path:
    """Writes examples as JSON lines; returns the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(example._asdict(), ensure_ascii=False) + "\n" for example in examples)
    file.write_text("".join(lines), encoding="utf-8")
    return file


def sample_examples(examples: Sequence[T], count: int) -> list[T]:
    """A random sample without replacement, the same in each call."""
    return [examples[index] for index in np.random.default_rng(0).permutation(len(examples))[:count]]


def read_imdb(folder: Path, count: int = IMDB_EXAMPLES) -> TrainTest:
    """A sample of the film reviews in `train`, and all in `test`, a file each in `neg` and `pos`."""

    def read_split(split: str) -> list[Example]:
        labels = ("neg", "pos")
        files = [(file, label) for label in labels for file in sorted((folder / split / label).iterdir())]
        return [Example(file.read_text(encoding="utf-8"), None, label) for file, label in files]

    return TrainTest(sample_examples(read_split("train"), count), read_split("test"))


def read_sst2(folder: Path) -> Iterator[tuple[str, TrainTest]]:
    """SST-2 with a sample of its training data, and with all of it."""
    data = read_glue("sst-2", folder)
    yield f"SST-2 {SST2_EXAMPLES:,}", data._replace(train=sample_examples(data.train, SST2_EXAMPLES))
    yield "SST-2 all", data


def read_glue(task: str, folder: Path) -> TrainTest:
    """Training and development set of a GLUE task, whose test set has no labels."""

    def to_example(record: TextRecord) -> Example:
        assert record.label is not None
        return Example(record.text, record.text_pair, record.label)

    splits = (read_glue_split(task, folder, split) for split in ("train", "dev"))
    return TrainTest(*(list(map(to_example, records)) for records in splits))


DATASETS: dict[str, Callable[[Path], Iterable[tuple[str, TrainTest]]]] = {
    "imdb": lambda folder: [(f"IMDB {IMDB_EXAMPLES:,}", read_imdb(folder))],
    "sst-2": read_sst2,
    "mrpc": lambda folder: [("MRPC", read_glue("mrpc", folder))],
    "rte": lambda folder: [("RTE", read_glue("rte", folder))],
}


if __name__ == "__main__":
    main()
