"""`albert-tf finetune`: labelled data and a run, a module or a network to a fine-tuned run."""

from __future__ import annotations

import argparse
import dataclasses
import shlex

from absl import logging

from albert_tf.cli.flags import (
    FIGURES,
    column_flags,
    columns_given,
    config_named,
    field_flags,
    given,
    run_flags,
    run_given,
    tokenizer_given,
)
from albert_tf.config import PRESETS
from albert_tf.finetuning.recipes import RECIPES, FinetuningRecipe
from albert_tf.recipes import QuestionSettings
from albert_tf.startup import quiet_start
from albert_tf.training.settings import LoopSettings

SUMMARY = "train a model of labelled data, or resume"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    parser.add_argument("--task", required=True, metavar="TASK", help=f"one of {', '.join(RECIPES)}")
    parser.add_argument("--data", metavar="DIR", help="folder of the task's original files (GLUE, race)")
    parser.add_argument("--train", metavar="FILE", help="file to train on (of all other tasks)")
    parser.add_argument("--eval", metavar="FILE", help="file to evaluate on (a tenth of --train)")
    column_flags(parser)
    parser.add_argument(
        "--init_from",
        metavar="RUN",
        help="run to take the weights from, a published name, or hub:DIR, the folder of a TF 2 encoder",
    )
    parser.add_argument(
        "--config", help=f"a network of random weights: a JSON file, or one of {', '.join(PRESETS)}"
    )
    parser.add_argument("--vocabulary", help="SentencePiece model, where the weights come without one")
    own = dataclasses.asdict(RECIPES["classification"])
    field_flags(
        parser, FinetuningRecipe, {name: f"{x} for own data, else the task's" for name, x in own.items()}
    )
    field_flags(parser, QuestionSettings)
    parser.add_argument(
        "--threshold", type=float, help="multi_label: probability from which on a text has a label (0.5)"
    )
    parser.add_argument("--freeze", choices=["encoder"], help="train the head alone")
    parser.add_argument("--runs", type=int, help="train so many times, with a seed each, and sum up")
    every = dict.fromkeys(("eval_every", "checkpoint_every"), "once an epoch, at most 1000")
    run_flags(parser, {**every, "log_every": "once an epoch, at most 100"})
    parser.epilog = FIGURES


def run(flags: argparse.Namespace) -> None:
    """Trains."""
    with quiet_start():
        from albert_tf.finetuning.run import finetune
        from albert_tf.finetuning.runs import finetune_runs
        from albert_tf.finetuning.settings import Finetuning
    alike = ("task", "data", "train", "eval", "vocabulary", "threshold", "freeze")
    settings = Finetuning(
        **run_given(flags),
        **{name: getattr(flags, name) for name in alike},
        columns=columns_given(flags),
        config=None if flags.config is None else config_named(flags.config),
        tokenizer=tokenizer_given(flags),
        recipe=given(flags, FinetuningRecipe),
        questions=given(flags, QuestionSettings),
        loop=given(flags, LoopSettings),
    )
    run = flags.output
    if flags.runs is None:
        finetune(settings)
    else:
        run = str(finetune_runs(settings, flags.runs))
    predict = ["albert-tf", "predict", "--run", run, "--input", "FILE", "--output", "FILE"]
    export = ["python", "-m", "hub_export", "--run", run, "--output", f"{run}-hub"]
    for words in (predict, export):
        logging.info("next: %s", shlex.join(words))
