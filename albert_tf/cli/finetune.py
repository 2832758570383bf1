"""`albert-tf finetune`: labelled data and a run, a module or a network to a fine-tuned run."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from absl import logging

from albert_tf.cli import flags as shared
from albert_tf.config import PRESETS
from albert_tf.constants import WORDS
from albert_tf.finetuning.finetuning_recipes import FINETUNING_RECIPES, EvaluationSettings, FinetuningRecipe
from albert_tf.process import quiet_start
from albert_tf.recipes import QuestionSettings
from albert_tf.training.compute_settings import LoopSettings

# What the help says of hyper-parameters that are not given, where these differ from task to task.
OWN = {
    name: "default: the paper's, for its tasks"
    if x is None
    else f"default: {x}; for tasks of the paper, its value"
    for name, x in vars(FINETUNING_RECIPES["classification"]).items()
    if any(getattr(recipe, name) != x for recipe in FINETUNING_RECIPES.values())
}

SUMMARY = "train a model of labelled data, or resume"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    add = parser.add_argument
    add("--task", required=True, metavar="TASK", help=f"one of {', '.join(FINETUNING_RECIPES)}")
    train, dev = "files or globs to train on (of all other tasks)", "the same, to evaluate on"
    shared.paths_flag(parser, "--train", train, required=False)
    shared.paths_flag(parser, "--eval", f"{dev} (a share of --train)", required=False)
    data_flags(parser)
    origin = "run to take the weights from, a published name, or hub:DIR, the folder of a TF 2 encoder"
    add("--init_from", metavar="RUN", help=origin)
    add("--config", help=f"a network of random weights: a JSON file, or one of {', '.join(PRESETS)}")
    add("--vocabulary", help="SentencePiece model, where the weights come without one")
    shared.field_flags(parser, FinetuningRecipe, OWN)
    shared.field_flags(parser, QuestionSettings)
    words = "of plain text for a tagger: spaces stand between them, or punctuation marks are words, too"
    add("--words", choices=WORDS, help=f"{words} (punctuation)")
    add("--runs", type=int, help="train so many times, with a seed each, and sum up")
    every = dict.fromkeys(("eval_every", "checkpoint_every"), "once an epoch, at most 1000")
    shared.report_flag(parser)
    shared.run_flags(parser, {**every, "log_every": "once an epoch, at most 100"})
    parser.epilog = shared.METRICS_HELP


def data_flags(parser: shared.Flags) -> None:
    """Flags of labelled data, and of what is learnt from them, besides the files."""
    add = parser.add_argument
    add("--data", metavar="DIR", help=shared.DATA_HELP)
    shared.column_flags(parser)
    two = "or the second of two labels (where it is the likelier); auto: the best on what is evaluated on"
    threshold = f"probability from which on a text has a label of multi_label (0.5), {two}"
    add("--threshold", type=_threshold, help=threshold)
    shared.field_flags(parser, EvaluationSettings, {"best_by": "the first of the task's figures"})
    add("--freeze", choices=["encoder"], help="train the head alone")
    layers = "fewer layers than --init_from has: shared ones are applied so often, of others every k-th"
    add("--num_hidden_layers", type=int, metavar="L", help=f"{layers} is taken (all)")


def _threshold(word: str) -> float | str:
    return word if word == "auto" else float(word)


_threshold.__name__ = "number or auto"  # for argparse's errors


def run(flags: argparse.Namespace) -> None:
    """Trains."""
    with quiet_start():
        from albert_tf.finetuning.evaluation import evaluation
        from albert_tf.finetuning.finetune import finetune, finetune_runs
        from albert_tf.finetuning.finetuned_model import load_finetuned
        from albert_tf.finetuning.finetuning_settings import Finetuning
    settings = Finetuning(**provided_settings(flags), words=flags.words)
    shared.check_report(flags)
    run = flags.output
    if flags.runs is None:
        dev = finetune(settings)
    else:
        best, dev = finetune_runs(settings, flags.runs)
        run = str(best)
    if dev:
        found = evaluation(load_finetuned(run, xla=settings.execution.xla), dev)
        data = flags.data or ", ".join(flags.eval or ["what is held out of " + ", ".join(flags.train)])
        shared.give_report(found.report(run), flags.report, f"Evaluation of {run} on {data}")
    predict = ["albert-tf", "predict", "--run", run, "--input", "FILE", "--output", "FILE"]
    export = ["python", "-m", "hub_export", "--run", run, "--output", f"{run}-hub"]
    for words in (predict, export):
        logging.info("next: %s", shlex.join(words))


def provided_settings(flags: argparse.Namespace) -> dict[str, Any]:
    """Settings that the command line names, by the fields of Finetuning."""
    alike = ("task", "data", "train", "eval", "vocabulary", "threshold", "freeze", "num_hidden_layers")
    return {
        **shared.provided_run(flags),
        **{name: getattr(flags, name) for name in alike},
        "columns": shared.provided_columns(flags),
        "config": None if flags.config is None else shared.config_named(flags.config),
        "tokenizer": shared.provided_tokenizer(flags),
        "recipe": shared.provided(flags, FinetuningRecipe),
        "evaluation": shared.provided(flags, EvaluationSettings),
        "questions": shared.provided(flags, QuestionSettings),
        "loop": shared.provided(flags, LoopSettings),
    }
