"""Distillation: a student learns from a teacher, on text or on a task."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from absl import logging

from albert_tf.config import AlbertConfig
from albert_tf.conversion.init_from import init_from_run, resolve_run
from albert_tf.errors import InputError, check_range
from albert_tf.finetuning.distillation_losses import SOFT_LABELS, pretraining_loss_sums, task_loss_sums
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.finetuned_model import run_task
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.finetuning.soft_targets import SoftLabels, SoftTargets
from albert_tf.finetuning.teacher import read_teacher, teacher_record
from albert_tf.io import PathLike
from albert_tf.models.loss_sums import LossFn
from albert_tf.pretraining.pretrain import pretrain
from albert_tf.pretraining.pretraining_settings import Pretraining
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.runs.warm_start import config_differences
from albert_tf.settings import flatten_record
from albert_tf.tasks.task import FinetuningTask
from albert_tf.text.tokenizer import open_tokenizer
from albert_tf.training.trainer import LogLine


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distillation(Pretraining):
    """Settings of pre-training with a teacher, besides those of pre-training.

    Args:
      teacher: a pre-trained run, or a published name, whose vocabulary is that of the student.
      targets: the weights of the losses.
    """

    teacher: PathLike
    targets: SoftTargets = dataclasses.field(default_factory=SoftTargets)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskDistillation(Finetuning):
    """Settings of fine-tuning with a teacher, besides those of fine-tuning.

    Args:
      teacher: a run that is fine-tuned for the same task.
      targets: the weights of the losses.
    """

    teacher: PathLike
    targets: SoftLabels = dataclasses.field(default_factory=SoftLabels)

    def _check_start(self) -> None:
        if self.init_from is None and self.config is None and self.num_hidden_layers is None:
            raise InputError("the student's network is missing: name it by `config`, or a run by `init_from`")
        if self.recipe.get("early_exit"):
            raise InputError("early_exit: a student learns the teacher's last layer alone: leave it out")


Settings = TypeVar("Settings", Distillation, TaskDistillation)


def distill(settings: Distillation, report: LogLine = logging.info) -> None:
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
    pretrain(settings, report, lambda own: pretraining_loss_sums(own, taught_by(), settings.targets))


def distill_task(settings: TaskDistillation, report: LogLine = logging.info) -> None:
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
        origin = resolve_run(settings.init_from)
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

    def objective(kind: FinetuningTask) -> LossFn:
        return task_loss_sums(kind, read_teacher(teacher, settings.execution, kind.labels), settings.targets)

    finetune(settings, report, objective)


def _opened(
    teacher: PathLike, vocabulary: PathLike | None, tokenizer: Mapping[str, bool]
) -> tuple[RunDirectory, Path]:
    """The teacher's run and its vocabulary; an InputError if the student is to have another one."""
    run = resolve_run(teacher)
    return run, init_from_run(run, vocabulary, tokenizer).vocabulary


def _check_positions(teacher: RunDirectory, config: AlbertConfig, seq_length: int) -> None:
    """InputError if a student asks for longer sequences than the teacher can read."""
    remedy, most = f"{teacher} has no more positions", teacher.config.max_position_embeddings
    teacher.config.check_length(seq_length, remedy)
    check_range("max_position_embeddings", config.max_position_embeddings, at_most=most, remedy=remedy)


def _recorded(settings: Settings, teacher: RunDirectory) -> Settings:
    """The settings with the entries of recipe.json about the teacher."""
    entries = {**teacher_record(teacher), **flatten_record(settings.targets)}
    return dataclasses.replace(settings, entries=entries)


def _started(settings: Settings, teacher: RunDirectory, config: AlbertConfig, report: LogLine) -> Settings:
    """The settings of a student that begins with the teacher's layers, if its widths are the same."""
    if settings.init_from is not None:
        return settings
    differing = config_differences(teacher.config, config)
    if not differing:
        return dataclasses.replace(settings, init_from=settings.teacher)
    if not RunDirectory(settings.output).steps():
        report(f"weights at random, since {teacher} is of another network: {'; '.join(differing)}")
    return settings
