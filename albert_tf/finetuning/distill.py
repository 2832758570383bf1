"""Distillation: a student learns from a teacher, on text or on a task, by soft targets and hidden states."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.config import AlbertConfig
from albert_tf.constants import INPUT_MASK, MLM_WEIGHTS, SOFT_WEIGHTS, WEIGHTS, Tensors
from albert_tf.conversion.init_from import resolve_run
from albert_tf.errors import InputError, check_range
from albert_tf.finetuning.data import read_unlabelled
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.finetuned_model import run_task
from albert_tf.finetuning.finetuning_recipes import SoftLabels, SoftTargets
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.io import PathLike
from albert_tf.models.loss_sums import LossFn, LossSum
from albert_tf.pretraining.pretrain import pretrain
from albert_tf.pretraining.pretraining_settings import Pretraining
from albert_tf.runs.load_save import check_finite, load
from albert_tf.runs.run_directory import RunDirectory, provenance_record
from albert_tf.runs.warm_start import config_differences
from albert_tf.settings import flatten_record
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.formats import Records
from albert_tf.tasks.multi_label import MultiLabel
from albert_tf.tasks.regression import Regression
from albert_tf.tasks.task import FinetuningTask
from albert_tf.text.files import Paths, path_list
from albert_tf.text.tokenizer import open_tokenizer
from albert_tf.training.compute_settings import ComputeConfig
from albert_tf.training.stages import is_fused
from albert_tf.training.trainer import LogLine


def softmax_divergence(student: tf.Tensor, teacher: tf.Tensor, temperature: float) -> tf.Tensor:
    """T² · KL(softmax(t / T) ‖ softmax(s / T)): float32 [...] of logits [..., C].

    T² keeps the size of the gradient, which falls as 1 / T². The divergence has the gradient of the
    cross-entropy with soft targets, and is 0 where both agree.
    """
    log_student, log_teacher = (tf.nn.log_softmax(logits / temperature) for logits in (student, teacher))
    divergence = tf.reduce_sum(tf.exp(log_teacher) * (log_teacher - log_student), axis=-1)
    return temperature**2 * divergence


def sigmoid_divergence(student: tf.Tensor, teacher: tf.Tensor, temperature: float) -> tf.Tensor:
    """T² · KL(σ(t / T) ‖ σ(s / T)), the mean over the labels: float32 [...] of logits [..., K]."""
    soft, student = teacher / temperature, student / temperature
    targets = tf.sigmoid(soft)
    cross_entropy, entropy = (
        tf.nn.sigmoid_cross_entropy_with_logits(targets, logits) for logits in (student, soft)
    )
    return temperature**2 * tf.reduce_mean(cross_entropy - entropy, axis=-1)


def squared_difference(student: tf.Tensor, teacher: tf.Tensor, temperature: float) -> tf.Tensor:
    """(s - t)², the mean over the last axis: float32 [...] of scores [..., 1], which have no temperature."""
    return tf.reduce_mean(tf.math.squared_difference(student, teacher), axis=-1)


def cosine_distance(student: tf.Tensor, teacher: tf.Tensor) -> tf.Tensor:
    """1 - cos(student, teacher): float32 [...] of hidden states [..., H].

    Source: Sanh et al. 2019, DistilBERT, §3.
    """
    directions = (tf.math.l2_normalize(tf.cast(x, tf.float32), axis=-1) for x in (student, teacher))
    return 1.0 - tf.reduce_sum(tf.multiply(*directions), axis=-1)


# A function from a batch to the outputs of a teacher.
Teacher = Callable[[Tensors], dict[str, tf.Tensor]]


class TeacherLoss(NamedTuple):
    """One term against a teacher."""

    output: str  # of both networks that is compared
    losses: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]  # [...] of that of student and teacher
    weights: Callable[[Tensors], tf.Tensor]  # float32 [...] of a batch


# The loss against soft labels by kind of task: of the logits of student and teacher, and a temperature.
SOFT_LABELS: dict[type[FinetuningTask], Callable[..., tf.Tensor]] = {
    Classification: softmax_divergence,
    MultiLabel: sigmoid_divergence,
    Regression: squared_difference,
}


def pretraining_loss_sums(own: LossFn, teacher: Teacher, targets: SoftTargets) -> LossFn:
    """The objective of pre-training, and the terms `soft` and `cosine`; those without weight are left out.

    Source: Sanh et al. 2019, DistilBERT, §3.
    Note: `soft` is the mean over the masked tokens, whose logits alone are computed (their code's
      `restrict_ce_to_mask`, which is off there by default).
    """
    added = {}
    if targets.soft_weight:
        soft = functools.partial(softmax_divergence, temperature=targets.temperature)
        added["soft"] = TeacherLoss("mlm_logits", soft, lambda batch: batch[MLM_WEIGHTS])
    if targets.cosine_weight:
        added["cosine"] = TeacherLoss(
            "sequence_output", cosine_distance, lambda batch: tf.cast(batch[INPUT_MASK], tf.float32)
        )
    factors = {"mlm": targets.mlm_weight, "soft": targets.soft_weight, "cosine": targets.cosine_weight}
    return _with_terms(own, teacher, added, factors)


def task_loss_sums(kind: FinetuningTask, teacher: Teacher, targets: SoftLabels) -> LossFn:
    """The objective of fine-tuning for a kind in SOFT_LABELS, and the term `soft`."""
    own, (labels,) = kind.objective(), kind.losses.values()
    soft = functools.partial(SOFT_LABELS[type(kind)], temperature=targets.temperature)
    factors = {"soft": targets.soft_weight, **dict.fromkeys(own.names, targets.label_weight)}

    def weights(batch: Tensors) -> tf.Tensor:
        return labels.weights({**batch, WEIGHTS: batch[SOFT_WEIGHTS]} if SOFT_WEIGHTS in batch else batch)

    return _with_terms(own, teacher, {"soft": TeacherLoss("logits", soft, weights)}, factors)


def _with_terms(
    own: LossFn, teacher: Teacher, added: Mapping[str, TeacherLoss], factors: Mapping[str, float]
) -> LossFn:
    """An objective without the terms whose factor is 0, and further ones; one call of the teacher a batch."""
    kept = [name for name in own.names if factors.get(name, 1)]

    def terms(outputs: Tensors, batch: Tensors) -> dict[str, LossSum]:
        taught, own_terms = teacher(batch), own.terms(outputs, batch)
        found = {name: own_terms[name] for name in kept}
        for name, loss in added.items():
            weights = loss.weights(batch)
            total = tf.reduce_sum(weights * loss.losses(outputs[loss.output], taught[loss.output]))
            found[name] = LossSum(total, tf.constant(np.nan), tf.reduce_sum(weights))
        return found

    def weights(batch: Tensors) -> dict[str, tf.Tensor]:
        own_weights = own.weights(batch)
        found = {name: own_weights[name] for name in kept}
        return found | {name: tf.reduce_sum(x.weights(batch)) for name, x in added.items()}

    return LossFn((*kept, *added), terms, weights, factors)


def read_teacher(
    run: RunDirectory, execution: ComputeConfig, labels: Sequence[str] = (), *, states_alone: bool = False
) -> Teacher:
    """The network of a run as a function from a batch to its outputs, which no gradient goes through.

    Neither trainer nor checkpoint knows its variables: the losses alone call it.

    Args:
      run: the run directory.
      execution: of the student's training, whose precision is the teacher's, too; it is made under the
        strategy that is current.
      labels: of the student, in whose order the `logits` are returned; none: in the teacher's own.
      states_alone: True for the outputs of its encoder, without a head, which may want inputs of its own.
    Raises:
      InputError: the teacher has other labels, or its weights are non-finite.
    """
    known = run.task.get("labels", []) if labels else []
    if sorted(known) != sorted(labels):
        raise InputError(f"the labels {list(labels)} are not those of {run}, {known}: name another teacher")
    order = [known.index(label) for label in labels]
    model = load(run, dtype=execution.policy, fused=is_fused(execution))
    check_finite(model, run)

    network = getattr(model, "encoder", model) if states_alone else model

    def teacher(batch: Tensors) -> dict[str, tf.Tensor]:
        outputs = network(batch, training=False)
        if order:
            outputs = {**outputs, "logits": tf.gather(outputs["logits"], order, axis=-1)}
        return {name: tf.stop_gradient(x) for name, x in outputs.items() if isinstance(x, tf.Tensor)}

    return teacher


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distillation(Pretraining):
    """Settings of pre-training with a teacher, besides those of pre-training.

    Args:
      teacher: a pre-trained run, or a published name, whose vocabulary is that of the student.
      targets: the weights of the losses; None: `targets_of` the teacher.
    """

    teacher: PathLike
    targets: SoftTargets | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskDistillation(Finetuning):
    """Settings of fine-tuning with a teacher, besides those of fine-tuning.

    Args:
      teacher: a run that is fine-tuned for the same task.
      unlabelled: files or globs of texts that the teacher alone labels, besides those of `train`: tables as
        `predict` reads them, or text files with blank lines between the texts.
      targets: the weights of the losses.
    """

    CHANGEABLE: ClassVar[Collection[str]] = (*Finetuning.CHANGEABLE, "unlabelled")

    learns_exits: ClassVar[bool] = False

    teacher: PathLike
    unlabelled: Paths | None = None
    targets: SoftLabels = dataclasses.field(default_factory=SoftLabels)

    def unlabelled_records(self) -> Records:
        """The records of `unlabelled`."""
        if self.unlabelled is None:
            return ()
        return read_unlabelled(self.entry, self.unlabelled, self.columns)

    def _check_start(self) -> None:
        if self.init_from is None and self.config is None and self.num_hidden_layers is None:
            raise InputError("the student's network is missing: name it by `config`, or a run by `init_from`")


Settings = TypeVar("Settings", Distillation, TaskDistillation)


def targets_of(teacher: RunDirectory, **changes: float) -> SoftTargets:
    """DistilBERT's weights of the losses; of a teacher without a head for masked tokens its states alone."""
    states_alone = {} if _has_masked_head(teacher) else {"soft_weight": 0.0, "mlm_weight": 0.0}
    return SoftTargets(**{**states_alone, **changes})


def _has_masked_head(teacher: RunDirectory) -> bool:
    return teacher.task["model"] == "pretrainer"


def distill(settings: Distillation, report: LogLine = logging.info) -> None:
    """Pre-trains a student with a teacher, or goes on where a former call stopped.

    The student begins with layers of the teacher, spread evenly over its depth; with the teacher's own layers
    where these are shared; at random where the widths differ, which is reported. Where `init_from` names a
    run, it begins with that.

    Args and Raises: as `pretrain`, and an InputError if the teacher has another vocabulary, or fewer
    positions, or if a loss is not possible: soft targets without a head for masked tokens, the cosine of
    states of other sizes, masked tokens where none is masked.
    """
    lowercase, strip_accents = settings.lowercase, settings.strip_accents
    tokenizer = {"lowercase": lowercase, "strip_accents": strip_accents}
    teacher, vocabulary = _open_teacher(settings.teacher, settings.vocabulary, tokenizer)
    targets = settings.targets or targets_of(teacher)
    if targets.soft_weight and not _has_masked_head(teacher):
        raise InputError(f"{teacher} has no head for masked tokens: set soft_weight=0, or name a `task`")
    if targets.needs_masks and not settings.recipe.examples.masked_lm_prob:
        needed = "soft_weight" if targets.soft_weight else "mlm_weight"
        raise InputError(
            f"masked_lm_prob=0: no token is masked, and {needed}={getattr(targets, needed)} needs them: set "
            "one of the two"
        )
    pieces = len(open_tokenizer(vocabulary).vocabulary)
    if teacher.config.vocab_size != pieces:
        raise InputError(
            f"vocab_size={teacher.config.vocab_size} of {teacher} is not the {pieces} pieces of its "
            "vocabulary: name another `teacher`"
        )
    config = settings.config.replace(vocab_size=pieces)
    if targets.cosine_weight and config.hidden_size != teacher.config.hidden_size:
        raise InputError(
            f"hidden_size={config.hidden_size} and {teacher.config.hidden_size} of {teacher} differ, so "
            "that their states have no cosine: set cosine_weight=0"
        )
    settings = dataclasses.replace(settings, targets=targets)
    settings = _with_teacher(settings, teacher, config, settings.recipe.examples.seq_length, report)
    headless = not _has_masked_head(teacher)
    taught_by = functools.cache(lambda: read_teacher(teacher, settings.execution, states_alone=headless))
    pretrain(settings, report, lambda own: pretraining_loss_sums(own, taught_by(), targets))


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
    teacher, vocabulary = _open_teacher(settings.teacher, asked, tokenizer)
    if (there := run_task(teacher.task, teacher)) != settings.task:
        raise InputError(f"{teacher} is fine-tuned for {there} and not for {settings.task}")
    seq_length = settings.hyper_parameters(config).seq_length
    config = config.replace(vocab_size=teacher.config.vocab_size)
    settings = _with_teacher(settings, teacher, config, seq_length, report)
    settings = dataclasses.replace(settings, vocabulary=vocabulary, tokenizer=teacher.tokenizer)
    if settings.unlabelled is not None:
        paths = path_list(settings.unlabelled)
        settings = dataclasses.replace(settings, entries={**settings.entries, "unlabelled": paths})

    def objective(kind: FinetuningTask) -> LossFn:
        return task_loss_sums(kind, read_teacher(teacher, settings.execution, kind.labels), settings.targets)

    finetune(settings, report, objective)


def _open_teacher(
    teacher: PathLike, vocabulary: PathLike | None, tokenizer: Mapping[str, bool]
) -> tuple[RunDirectory, Path]:
    """The teacher's run and its vocabulary; an InputError if the student is to have another one."""
    run = resolve_run(teacher)
    return run, run.vocabulary_for(vocabulary, tokenizer)


def _with_teacher(
    settings: Settings, teacher: RunDirectory, config: AlbertConfig, seq_length: int, report: LogLine
) -> Settings:
    """The settings of a student, which begins with the teacher's layers if its widths are the same.

    recipe.json names the teacher, whose weights a resumed run must find again.

    Raises:
      InputError: the student has longer sequences than the teacher can read.
    """
    remedy, most = f"{teacher} has no more positions", teacher.config.max_position_embeddings
    teacher.config.check_length(seq_length, remedy)
    check_range("max_position_embeddings", config.max_position_embeddings, at_most=most, remedy=remedy)
    digest = provenance_record({}, teacher.path)["init_from_sha256"]
    entries = {"teacher": teacher.path, "teacher_sha256": digest}
    assert settings.targets is not None
    entries |= flatten_record(settings.targets)
    init_from = settings.init_from
    if init_from is None:
        differing = config_differences(teacher.config, config)
        init_from = None if differing else settings.teacher
        if differing and not RunDirectory(settings.output).steps():
            report(f"weights at random, since {teacher} is of another network: {'; '.join(differing)}")
    return dataclasses.replace(settings, init_from=init_from, entries=entries)
