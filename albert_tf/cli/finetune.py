"""`albert-tf finetune`: trains a model on labelled data, from a run, a module or random weights."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from absl import logging

from albert_tf.cli import flags as shared
from albert_tf.config import PRESETS
from albert_tf.constants import WORDS_CHOICES
from albert_tf.finetuning.finetuning_recipes import FINETUNING_RECIPES, EvaluationSettings, FinetuningRecipe
from albert_tf.recipes import QuestionSettings
from albert_tf.signals import quiet_start
from albert_tf.text.tokenizer_config import TOKENIZER_DEFAULTS
from albert_tf.training.compute_settings import LoopSettings

# Texts for --help about the defaults of hyper-parameters that differ from task to task.
TASK_DEFAULTS = {
    name: "default: the paper's, for its tasks"
    if value is None
    else f"default: {value}; for tasks of the paper, its value"
    for name, value in vars(FINETUNING_RECIPES["classification"]).items()
    if any(getattr(recipe, name) != value for recipe in FINETUNING_RECIPES.values())
}
TASK_DEFAULTS["seq_length"] += f"; multiple_choice: {FINETUNING_RECIPES['multiple_choice'].seq_length}"

SUMMARY = "train a model of labelled data, or resume"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of the command."""
    add = parser.add_argument
    add("--task", required=True, metavar="TASK", help=f"one of {', '.join(FINETUNING_RECIPES)}")
    train, dev = "files or globs to train on (of all other tasks)", "the same, to evaluate on"
    shared.add_paths_flag(parser, "--train", train, required=False)
    shared.add_paths_flag(parser, "--eval", f"{dev} (a share of --train)", required=False)
    add_data_flags(parser)
    origin = "run to take the weights from, a published name, or hub:DIR, the folder of a TF 2 encoder"
    add("--init_from", metavar="RUN", help=origin)
    add("--config", help=f"a network of random weights: a JSON file, or one of {', '.join(PRESETS)}")
    add("--vocabulary", help="SentencePiece model, if the weights come without one")
    shared.add_field_flags(parser, FinetuningRecipe, TASK_DEFAULTS)
    shared.add_field_flags(parser, QuestionSettings)
    words = "how plain text is split for a tagger: at spaces, or also at punctuation marks"
    add("--words", choices=WORDS_CHOICES, help=f"{words} (punctuation)")
    add("--runs", type=int, help="number of runs, each with another seed; a summary is written, too")
    every = dict.fromkeys(("eval_every", "checkpoint_every"), "once an epoch, at most 1000")
    shared.add_report_flag(parser)
    shared.add_run_flags(parser, {**every, "log_every": "once an epoch, at most 100"})
    parser.epilog = shared.METRICS_HELP


def add_data_flags(parser: shared.Flags) -> None:
    """Adds the flags about labelled data, except for the files, and about the training on them."""
    add = parser.add_argument
    add("--data", metavar="DIR", help=shared.DATA_HELP)
    shared.add_column_flags(parser)
    least = "smallest probability for a label: each label of multi_label, or the second of two labels (0.5)"
    auto = "auto: the best value on the evaluation data"
    add("--threshold", type=_parse_threshold, help=f"{least}; {auto}")
    shared.add_field_flags(parser, EvaluationSettings, {"best_by": "the first of the task's figures"})
    add("--freeze", choices=["encoder"], help="train the head alone")
    layers = "layers, fewer than --init_from has: shared layers are applied L times; of others every k-th"
    add("--num_hidden_layers", type=int, metavar="L", help=f"{layers} is taken (all)")


def _parse_threshold(word: str) -> float | str:
    return word if word == "auto" else float(word)


_parse_threshold.__name__ = "number or auto"  # for argparse's errors


def run(flags: argparse.Namespace) -> None:
    """Trains the model, and evaluates it."""
    with quiet_start():
        from albert_tf.finetuning.evaluation import evaluate_records
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
        result = evaluate_records(load_finetuned(run, xla=settings.compute.xla), dev)
        data = flags.data or ", ".join(flags.eval or ["what is held out of " + ", ".join(flags.train)])
        shared.output_report(result.report(run), flags.report, f"Evaluation of {run} on {data}")
    predict = ["albert-tf", "predict", "--run", run, "--input", "FILE", "--output", "FILE"]
    export = ["python", "-m", "hub_export", "--run", run, "--output", f"{run}-hub"]
    for words in (predict, export):
        logging.info("next: %s", shlex.join(words))


def provided_settings(flags: argparse.Namespace) -> dict[str, Any]:
    """The settings that the command line names, by the fields of Finetuning."""
    same_names = ("task", "data", "train", "eval", "vocabulary", "threshold", "freeze", "num_hidden_layers")
    return {
        **shared.provided_run_settings(flags),
        **{name: getattr(flags, name) for name in same_names},
        "columns": shared.provided_columns(flags),
        "config": None if flags.config is None else shared.resolve_config(flags.config),
        "tokenizer": shared.provided(flags, TOKENIZER_DEFAULTS),
        "recipe": shared.provided_fields(flags, FinetuningRecipe),
        "evaluation": shared.provided_fields(flags, EvaluationSettings),
        "questions": shared.provided_fields(flags, QuestionSettings),
        "loop": shared.provided_fields(flags, LoopSettings),
    }
