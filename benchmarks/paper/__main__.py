"""Repeats the experiments of the articles in miniature.

    python -m benchmarks.paper --text 'corpus/*.txt' --glue glue --output paper --budget 4h

Pre-trains small networks of each variant of each experiment with several seeds, evaluates masked words and
both sentence tasks on held-out text, and fine-tunes on samples of SST-2, MRPC and RTE. Writes a report:
tables, plots, and a verdict on each claim of the articles, by a rule that was fixed before the training
(verdicts.py). `--budget quick` only shows that everything runs, with two seeds and SST-2 alone. Started
again, the program continues where it stopped; it needs only `results.jsonl` in the output folder for that.
"""

from __future__ import annotations

from pathlib import Path

from absl import logging

from albert_tf.errors import InputError
from albert_tf.pretraining.budget import parse_duration
from benchmarks import smoke
from benchmarks.paper.experiments import EXPERIMENTS, QUICK, Scale
from benchmarks.paper.report import create_report, to_markdown, write_report
from benchmarks.paper.training import ExperimentRunner

SMOKE = QUICK._replace(vocab_size=smoke.VOCABULARY_SIZE, steps=2, batch_size=4, examples=8)
TITLE = "The articles' experiments in miniature"


def main() -> None:
    """Trains and reports."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--text", nargs="+", required=True, help="text files or globs, a sentence a line")
    parser.add_argument("--glue", type=Path, required=True, help="folder of SST-2, MRPC and RTE")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument(
        "--tables", nargs="+", choices=EXPERIMENTS, default=list(EXPERIMENTS), help="experiments (all)"
    )
    parser.add_argument("--budget", default="quick", help="largest total time, such as 4h; or quick (quick)")
    parser.add_argument("--seeds", type=int, nargs="+", help="(0 1 2; quick: 0 1)")
    flags = smoke.read_flags(
        parser, text=smoke.text_file, glue=smoke.glue, output=smoke.output_folder, tables=["masks"],
        seeds=[0, 1],
    )  # fmt: skip
    try:
        seconds = None if flags.budget == "quick" else parse_duration(flags.budget)
    except InputError as error:
        parser.error(str(error))
    scale = SMOKE if flags.smoke else QUICK if seconds is None else Scale()
    logging.set_verbosity(logging.WARNING)
    seeds = flags.seeds or ([0, 1] if seconds is None else [0, 1, 2])
    runner = ExperimentRunner(flags.output, flags.text, flags.glue, flags.tables, seeds, scale, seconds)
    runner.train()
    blocks = create_report(flags.tables, runner.results, runner.plan.scale._asdict())
    write_report(flags.output, TITLE, blocks)
    print(to_markdown(blocks), end="")


if __name__ == "__main__":
    main()
