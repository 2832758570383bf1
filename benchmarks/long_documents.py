"""Do head and tail, or windows, help where texts are longer than an input? Film reviews at 128 tokens.

    python -m benchmarks.long_documents --init_from run --data imdb --output long_documents

Fine-tunes a run on 2,400 reviews with each setting of --long, for the same epochs and with three seeds. The
test data is read once, after the last update. Prints Markdown: the accuracy (median and range of the seeds),
and the time of a prediction (median of the seeds), after a first prediction, which traces the network.
Windows need more updates for the same epochs. Started again, the program continues where it stopped.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from albert_tf.finetuning.finetune import finetune_runs
from albert_tf.finetuning.finetuned_model import load_finetuned
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.tasks.columns import Columns
from benchmarks import smoke, transfer
from benchmarks.markdown_tables import format_range, print_header, print_row
from benchmarks.timers import time_call

LONG_TEXT_RECIPES = {
    "truncate": {"long": "truncate"},
    "head_tail": {"long": "head_tail"},
    "windows, mean": {"long": "windows", "window_pooling": "mean"},
    "windows, max": {"long": "windows", "window_pooling": "max"},
}


def main() -> None:
    """Trains and prints the table, a row as soon as it is known."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--init_from", required=True, help="a pre-trained run, or a published name")
    parser.add_argument("--data", type=Path, required=True, help="folder of IMDB's `train` and `test`")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument(
        "--reviews", type=int, default=2400, help="reviews to train on, and to test on (2400)"
    )
    parser.add_argument("--epochs", type=float, default=5.0, help="(5)")
    parser.add_argument("--learning_rate", type=float, default=3e-4, help="(3e-4)")
    parser.add_argument("--batch_size", type=int, default=32, help="inputs of an update (32)")
    parser.add_argument("--seq_length", type=int, default=128, help="tokens (128)")
    parser.add_argument("--doc_stride", type=int, default=96, help="tokens from one window to the next (96)")
    parser.add_argument("--pooling", default="mean", help="what the head reads, first or mean (mean)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each setting (3)")
    flags = smoke.read_flags(
        parser, init_from=smoke.pretrained_run, data=smoke.imdb, output=smoke.output_folder, reviews=8,
        epochs=1, batch_size=4, seq_length=16, doc_stride=8, seeds=1,
    )  # fmt: skip
    data = transfer.read_imdb(flags.data, flags.reviews)
    train, test = (
        transfer.write_example_lines(
            flags.output / f"{name}.jsonl", transfer.sample_examples(examples, flags.reviews)
        )
        for name, examples in data._asdict().items()
    )
    print_header("texts", "accuracy", "ms a text")
    for name, recipe in LONG_TEXT_RECIPES.items():
        names = ("epochs", "learning_rate", "batch_size", "seq_length", "pooling")
        settings = Finetuning(
            output=flags.output / name.replace(", ", "_"),
            init_from=flags.init_from,
            task="classification",
            train=train,
            eval=test,
            columns=Columns("text", None, "label"),
            recipe={**{name: getattr(flags, name) for name in names}, **recipe},
            questions={"doc_stride": flags.doc_stride} if recipe["long"] == "windows" else {},
            loop={"eval_every": 0, "checkpoint_every": 0},  # once, after the last step
        )
        _, dev = finetune_runs(settings, flags.seeds)
        (records,) = dev.values()
        runs = (Path(settings.output) / f"seed-{seed}" for seed in range(flags.seeds))
        accuracies, times = zip(*(evaluate_and_time(run, records) for run in runs), strict=True)
        print_row(name, format_range(accuracies), f"{statistics.median(times):.2f}")


def evaluate_and_time(run: Path, records: list) -> tuple[float, float]:
    """The accuracy of a run on records, and the milliseconds of a prediction."""
    model = load_finetuned(run)
    predictions = model.predict(records).predictions
    seconds = time_call(lambda: model.predict(records))
    return model.task.metrics(records, predictions)["accuracy"], 1000 * seconds / len(records)


if __name__ == "__main__":
    main()
