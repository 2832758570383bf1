"""A teacher and text, or a teacher and labelled data, to the run directory of a student."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from absl import logging

from albert_tf.checkpoints.directory import RunDirectory
from albert_tf.checkpoints.growth import differences
from albert_tf.config import AlbertConfig
from albert_tf.conversion.start import run_at, start_of_run
from albert_tf.distillation.objectives import SOFT_LABELS, pretraining_terms, task_terms
from albert_tf.distillation.settings import Distillation, TaskDistillation
from albert_tf.distillation.teacher import read_teacher, teacher_record
from albert_tf.finetuning.run import finetune
from albert_tf.finetuning.trained import run_task
from albert_tf.models.losses import Objective
from albert_tf.pretraining.run import pretrain
from albert_tf.tasks.kind import FinetunedKind
from albert_tf.tokenizers.kinds import open_tokenizer
from albert_tf.training.run_settings import PathLike
from albert_tf.training.trainer import Report
from albert_tf.utils.checks import check_range
from albert_tf.utils.errors import InputError
from albert_tf.utils.records import flat

Settings = TypeVar("Settings", Distillation, TaskDistillation)


def distill(settings: Distillation, report: Report = logging.info) -> None:
    """Pre-trains a student with a teacher, or goes on where a former call stopped.

    The student begins with layers of the teacher, spread evenly over its depth; with the teacher's own layers
    where these are shared; at random where the widths differ, which is reported. Where `init_from` names a
    run, it begins with that.

    Args and Raises: as `pretrain`, and an InputError if the teacher has another vocabulary, no head for
    masked tokens, or fewer positions, or if cosine_weight is not 0 though the hidden sizes differ.
    """
    lowercase, strip_accents = settings.lowercase, settings.strip_accents
    tokenizer = {"lowercase": lowercase, "strip_accents": strip_accents}
    teacher, vocabulary = _opened(settings.teacher, settings.vocabulary, tokenizer)
    if teacher.task["model"] != "pretrainer":
        raise InputError(f"{teacher} has no head for masked tokens: name a pre-trained `teacher`, or `task`")
    pieces = len(open_tokenizer(vocabulary).vocabulary)
    if teacher.config.vocab_size != pieces:
        raise InputError(
            f"vocab_size={teacher.config.vocab_size} of {teacher} is not the {pieces} pieces of its "
            "vocabulary: name another `teacher`"
        )
    config = settings.config.replace(vocab_size=pieces)
    if settings.targets.cosine_weight and config.hidden_size != teacher.config.hidden_size:
        raise InputError(
            f"hidden_size={config.hidden_size} and {teacher.config.hidden_size} of {teacher} differ, so "
            "that their states have no cosine: set cosine_weight=0"
        )
    _check_positions(teacher, config, settings.recipe.examples.seq_length)
    settings = _started(_recorded(settings, teacher), teacher, config, report)
    taught_by = functools.cache(lambda: read_teacher(teacher, settings.execution))
    pretrain(settings, report, lambda own: pretraining_terms(own, taught_by(), settings.targets))


def distill_task(settings: TaskDistillation, report: Report = logging.info) -> None:
    """Fine-tunes a student with a teacher that is fine-tuned for the same task, or goes on.

    Where the student begins: as `distill` says; with the teacher's head, too.

    Args and Raises: as `finetune`, and an InputError if the teacher has another vocabulary, task or labels,
    or fewer positions, or if the task is not a classification or regression of whole texts.
    """
    if settings.entry.kind not in SOFT_LABELS:
        kinds = ", ".join(kind.name for kind in SOFT_LABELS)
        raise InputError(f"task={settings.task!r} has no soft labels: choose one of the kinds {kinds}")
    if settings.init_from is None and settings.config is None:  # the teacher with fewer layers
        settings = dataclasses.replace(settings, init_from=settings.teacher)
    asked, tokenizer, config = settings.vocabulary, settings.tokenizer, settings.config
    if settings.init_from is not None:
        origin = run_at(settings.init_from)
        asked, tokenizer = asked or origin.vocabulary, {**origin.tokenizer, **tokenizer}
        config = config or origin.config
    assert config is not None
    teacher, vocabulary = _opened(settings.teacher, asked, tokenizer)
    if (there := run_task(teacher.task, teacher)) != settings.task:
        raise InputError(f"{teacher} is fine-tuned for {there} and not for {settings.task}")
    _check_positions(teacher, config, settings.hyper_parameters(config).seq_length)
    if settings.config is not None:
        config = config.replace(vocab_size=teacher.config.vocab_size)
        settings = _started(settings, teacher, config, report)
    settings = _recorded(settings, teacher)
    settings = dataclasses.replace(settings, vocabulary=vocabulary, tokenizer=teacher.tokenizer)

    def objective(kind: FinetunedKind) -> Objective:
        return task_terms(kind, read_teacher(teacher, settings.execution, kind.labels), settings.targets)

    finetune(settings, report, objective)


def _opened(
    teacher: PathLike, vocabulary: PathLike | None, tokenizer: Mapping[str, bool]
) -> tuple[RunDirectory, Path]:
    """The teacher's run and its vocabulary; an InputError if the student is to have another one."""
    run = run_at(teacher)
    return run, start_of_run(run, vocabulary, tokenizer).vocabulary


def _check_positions(teacher: RunDirectory, config: AlbertConfig, seq_length: int) -> None:
    """InputError if a student asks for longer sequences than the teacher can read."""
    remedy, most = f"{teacher} has no more positions", teacher.config.max_position_embeddings
    teacher.config.check_length(seq_length, remedy)
    check_range("max_position_embeddings", config.max_position_embeddings, at_most=most, remedy=remedy)


def _recorded(settings: Settings, teacher: RunDirectory) -> Settings:
    """The settings with the entries of recipe.json about the teacher."""
    entries = {**teacher_record(teacher), **flat(settings.targets)}
    return dataclasses.replace(settings, entries=entries)


def _started(settings: Settings, teacher: RunDirectory, config: AlbertConfig, report: Report) -> Settings:
    """The settings of a student that begins with the teacher's layers, if its widths are the same."""
    if settings.init_from is not None:
        return settings
    differing = differences(teacher.config, config)
    if not differing:
        return dataclasses.replace(settings, init_from=settings.teacher)
    if not RunDirectory(settings.output).steps():
        report(f"weights at random, since {teacher} is of another network: {'; '.join(differing)}")
    return settings
