"""`albert-tf finetune`: labelled data and a run, a module or a network to a fine-tuned run."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
from pathlib import Path
from typing import Any

from absl import logging

from albert_tf.cli.flags import (
    FIGURES,
    column_flags,
    columns_given,
    config_named,
    field_flags,
    given,
    tokenizer_flags,
    tokenizer_given,
)
from albert_tf.config import PRESETS
from albert_tf.finetuning.recipes import OWN_DATA, RECIPES, FinetuningRecipe
from albert_tf.recipes import QuestionSettings
from albert_tf.startup import quiet_start
from albert_tf.training.settings import Execution, LoopSettings

SUMMARY = "train a model of labelled data, or resume"

_EVERY = "once an epoch, at most 1000"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    tasks = ", ".join(name for name in RECIPES if name != "race-v2")
    parser.add_argument("--task", required=True, metavar="TASK", help=f"one of {tasks}")
    parser.add_argument("--data", metavar="DIR", help="folder of the task's original files (GLUE, race)")
    parser.add_argument("--train", metavar="FILE", help="file to train on (of all other tasks)")
    parser.add_argument("--eval", metavar="FILE", help="file to evaluate on (a tenth of --train)")
    column_flags(parser)
    parser.add_argument("--output", required=True, help="run directory; resumed where it holds checkpoints")
    parser.add_argument(
        "--init_from",
        metavar="RUN",
        help="run to take the weights from, a published name, or hub:DIR, the folder of a TF 2 encoder",
    )
    parser.add_argument(
        "--config", help=f"a network of random weights: a JSON file, or one of {', '.join(PRESETS)}"
    )
    parser.add_argument("--vocabulary", help="SentencePiece model, where the weights come without one")
    field_flags(parser, FinetuningRecipe, default=_defaults())
    field_flags(parser, QuestionSettings)
    parser.add_argument(
        "--threshold", type=float, help="multi_label: probability from which on a text has a label (0.5)"
    )
    parser.add_argument("--freeze", choices=["encoder"], help="train the head alone")
    parser.add_argument("--runs", type=int, help="train so many times, with a seed each, and sum up")
    parser.add_argument("--seed", type=int, default=0, help="of everything random (0)")
    field_flags(parser, Execution)
    every = {"eval_every": _EVERY, "checkpoint_every": _EVERY, "log_every": "once an epoch, at most 100"}
    field_flags(parser, LoopSettings, default=every)
    tokenizer_flags(parser)
    parser.epilog = FIGURES


def _defaults() -> dict[str, str]:
    """The defaults that the help names: the value of all tasks, else that for own data."""
    texts = {}
    for field in dataclasses.fields(FinetuningRecipe):
        values = {name: _spelled(getattr(recipe, field.name)) for name, recipe in RECIPES.items()}
        own = " or ".join(dict.fromkeys(values[name] for name in OWN_DATA))
        is_one = len(set(values.values())) == 1
        texts[field.name] = own if is_one else f"{own} for own data, the paper's for other tasks"
    return texts


def _spelled(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def run(flags: argparse.Namespace) -> None:
    """Trains."""
    with quiet_start():
        from albert_tf.finetuning.run import finetune
        from albert_tf.finetuning.runs import finetune_runs
        from albert_tf.finetuning.settings import Finetuning
    settings = Finetuning(
        output=flags.output,
        task=flags.task,
        data=flags.data,
        train=flags.train,
        eval=flags.eval,
        columns=columns_given(flags),
        init_from=flags.init_from,
        config=None if flags.config is None else config_named(flags.config),
        vocabulary=flags.vocabulary,
        tokenizer=tokenizer_given(flags),
        recipe=given(flags, FinetuningRecipe),
        questions=given(flags, QuestionSettings),
        threshold=flags.threshold,
        freeze=flags.freeze,
        seed=flags.seed,
        execution=Execution(**given(flags, Execution)),
        loop=given(flags, LoopSettings),
        command=flags.command_line,
    )
    if flags.runs is None:
        finetune(settings)
        best_run = flags.output
    else:
        best_run = str(finetune_runs(settings, flags.runs))
    for command in next_commands(best_run, flags.task, flags.data, flags.train):
        logging.info("next: %s", command)


def next_commands(run: str, task: str, data: str | None, train: str | None) -> list[str]:
    """The commands that use a fine-tuned run, as they are typed.

    Args:
      run: its directory.
      task: a name in TASKS.
      data: the folder of its task, where it has one.
      train: else the file that it has learned from, whose ending those to predict for have.
    """
    from albert_tf.finetuning.tasks import find_task

    ending = Path((train or "").removesuffix(".gz")).suffix
    is_file = data is None and not find_task(task).kind.has_windows
    source, output = data or f"new{ending}", f"predicted{ending}" if is_file else "predictions"
    return [
        shlex.join(["albert-tf", "predict", "--run", run, "--input", source, "--output", output]),
        shlex.join(["python", "-m", "hub_export", "--run", run, "--output", f"{run}-hub"]),
    ]
