"""`albert-tf distill`: trains a smaller network on text or labelled data, with a trained run as teacher."""

from __future__ import annotations

import argparse

from albert_tf.cli import finetune, pretrain
from albert_tf.cli import flags as shared
from albert_tf.config import PRESETS
from albert_tf.errors import InputError
from albert_tf.finetuning.finetuning_recipes import (
    EvaluationSettings,
    FinetuningRecipe,
    SoftLabels,
    SoftTargets,
)
from albert_tf.recipes import PRETRAINING_RECIPES, PretrainingRecipe, QuestionSettings
from albert_tf.signals import quiet_start
from albert_tf.text.tokenizer_config import TOKENIZER_DEFAULTS
from albert_tf.training.compute_settings import LoopSettings

SUMMARY = "train a smaller model with a trained one as its teacher, or resume"

# The recipe of a student that is not a preset.
DEFAULT_STUDENT_RECIPE = "distilbert_base_uncased"

_TEXT_FIELDS = shared.field_names(PretrainingRecipe) | shared.field_names(SoftTargets)
_TASK_FIELDS = shared.field_names(FinetuningRecipe) | shared.field_names(SoftLabels)
_TASK_FLAGS = (
    *("unlabelled", "data", *shared.COLUMN_FLAGS, "threshold"),
    *("freeze", "num_hidden_layers", "doc_stride"),
    *shared.field_names(EvaluationSettings),
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of the command."""
    add = parser.add_argument
    add("--teacher", required=True, metavar="RUN", help="trained run, or a published name")
    add("--config", help=f"the student (that of --init_from): a JSON file, or one of {', '.join(PRESETS)}")
    shared.add_paths_flag(
        parser, "--train", f"{shared.TEXT_HELP}; with --task files of its examples", required=False
    )
    shared.add_paths_flag(parser, "--eval", "the same, to evaluate on (a part of --train)", required=False)
    add("--vocabulary", help="vocabulary of a teacher that comes without one")
    add("--init_from", metavar="RUN", help="run to take the student's weights from (the teacher)")
    recipes = (
        f"hyper-parameters (the preset's, else {DEFAULT_STUDENT_RECIPE}): {', '.join(PRETRAINING_RECIPES)}"
    )
    add("--recipe", choices=PRETRAINING_RECIPES, metavar="NAME", help=recipes)
    weights = {"soft_weight": "5; with --task 0.5", "mlm_weight": "2"}
    headless = "; 0 of a teacher without a head for masked tokens"
    shared.add_field_flags(parser, SoftTargets, {name: value + headless for name, value in weights.items()})
    shared.add_field_flags(parser, PretrainingRecipe, "the recipe's")
    task_group = parser.add_argument_group("of a teacher that is fine-tuned")
    task_group.add_argument(
        "--task",
        metavar="TASK",
        help="task of the teacher; --config, --init_from or --num_hidden_layers is the student",
    )
    texts = "texts that only the teacher labels: tables, or .txt files with blank lines between texts"
    shared.add_paths_flag(task_group, "--unlabelled", texts, required=False)
    finetune.add_data_flags(task_group)
    shared.add_field_flags(task_group, SoftLabels, exclude=shared.field_names(SoftTargets))
    shared.add_field_flags(
        task_group, FinetuningRecipe, finetune.TASK_DEFAULTS, exclude=shared.field_names(PretrainingRecipe)
    )
    shared.add_field_flags(task_group, QuestionSettings, only=["doc_stride"])
    intervals = ("log_every", "eval_every", "checkpoint_every")
    shared.add_run_flags(
        parser, {name: f"{getattr(LoopSettings, name)}; with --task once an epoch" for name in intervals}
    )


def run(flags: argparse.Namespace) -> None:
    """Trains the student."""
    if flags.task is None:
        shared.check_unused(flags, [*_TASK_FLAGS, *_TASK_FIELDS - _TEXT_FIELDS], "a teacher without --task")
        _pretrain(flags)
    else:
        shared.check_unused(flags, ["recipe", *_TEXT_FIELDS - _TASK_FIELDS], f"--task {flags.task}")
        _finetune(flags)


def _pretrain(flags: argparse.Namespace) -> None:
    """Trains the student on text."""
    if (flags.config is None and flags.init_from is None) or flags.train is None:
        raise InputError(
            "name the student's network by --config or --init_from, and the text by --train, or a --task"
        )
    with quiet_start():
        from albert_tf.conversion.init_from import resolve_run
        from albert_tf.finetuning.distill import Distillation, default_soft_targets, distill
        from albert_tf.runs.run_directory import RunDirectory
    teacher = resolve_run(flags.teacher)
    targets = default_soft_targets(teacher, **shared.provided_fields(flags, SoftTargets))
    output = RunDirectory(flags.output, "output")
    if flags.config is not None:
        config = shared.resolve_config(flags.config)
    else:  # a run that has begun does not need `init_from`, which may no longer exist
        config = output.config if output.has_recipe else resolve_run(flags.init_from, flags.vocabulary).config
    if not targets.needs_masks:
        flags.masked_lm_prob = getattr(flags, "masked_lm_prob", 0.0)
    is_chosen = flags.recipe is not None
    flags.recipe = flags.recipe or (
        flags.config if flags.config in PRETRAINING_RECIPES else DEFAULT_STUDENT_RECIPE
    )
    flags.sentence_objective = getattr(flags, "sentence_objective", "none")
    (size,) = pretrain.candidate_sizes(flags, config, is_begun=output.has_recipe, warns=is_chosen)
    vocabulary = teacher.resolve_vocabulary(flags.vocabulary)
    tokenizer = {**teacher.tokenizer_of(vocabulary), **shared.provided(flags, TOKENIZER_DEFAULTS)}
    settings = Distillation(
        **shared.provided_run_settings(flags),
        **{name: tokenizer[name] for name in TOKENIZER_DEFAULTS},
        **{name: getattr(flags, name) for name in ("teacher", "train", "eval")},
        vocabulary=vocabulary,
        config=size.config,
        recipe=size.recipe,
        targets=targets,
        loop=LoopSettings(**shared.provided_fields(flags, LoopSettings)),
    )
    distill(settings)


def _finetune(flags: argparse.Namespace) -> None:
    """Trains the student on labelled data."""
    with quiet_start():
        from albert_tf.finetuning.distill import TaskDistillation, distill_task
    targets = SoftLabels(**shared.provided_fields(flags, SoftLabels))
    distill_task(
        TaskDistillation(
            **finetune.provided_settings(flags),
            teacher=flags.teacher,
            unlabelled=flags.unlabelled,
            targets=targets,
        )
    )
