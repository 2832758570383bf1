"""Distillation: trains a student on a teacher's soft targets and hidden states, on text or on a task."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import tensorflow as tf
from absl import logging

from albert_tf.config import AlbertConfig
from albert_tf.constants import INPUT_MASK, MLM_WEIGHTS, SOFT_WEIGHTS, WEIGHTS, Tensors
from albert_tf.conversion.init_from import resolve_run
from albert_tf.errors import InputError, check_range
from albert_tf.finetuning.data import read_unlabelled
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.finetuned_model import finetuned_entries
from albert_tf.finetuning.finetuning_recipes import SoftLabels, SoftTargets
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.io import PathLike
from albert_tf.models.loss_sums import TEACHER, Loss, LossFn, LossSum, sum_losses
from albert_tf.pretraining.pretrain import pretrain
from albert_tf.pretraining.pretraining_settings import Pretraining
from albert_tf.runs.load_save import load_checked
from albert_tf.runs.run_directory import RunDirectory, provenance_record
from albert_tf.runs.warm_start import config_differences
from albert_tf.settings import flatten_record
from albert_tf.tasks.classification import Classification, takes_pairs
from albert_tf.tasks.examples import normalize_label
from albert_tf.tasks.formats import Records
from albert_tf.tasks.multi_label import MultiLabel
from albert_tf.tasks.regression import Regression
from albert_tf.tasks.task import FinetuningTask
from albert_tf.text.files import Paths, path_list
from albert_tf.text.tokenizer import open_tokenizer
from albert_tf.text.tokenizer_config import resolve_settings
from albert_tf.training.compute_settings import ComputeConfig
from albert_tf.training.stages import is_fused
from albert_tf.training.trainer import LogFunction


def softmax_divergence(student: tf.Tensor, teacher: tf.Tensor, temperature: float) -> tf.Tensor:
    """T² · KL(softmax(t / T) ‖ softmax(s / T)): float32 [...] from logits [..., C].

    The gradient falls as 1 / T², and the factor T² restores its size. The divergence has the same gradient as
    the cross-entropy with soft targets, and is 0 if student and teacher agree.
    """
    log_student, log_teacher = (tf.nn.log_softmax(logits / temperature) for logits in (student, teacher))
    divergence = tf.reduce_sum(tf.exp(log_teacher) * (log_teacher - log_student), axis=-1)
    return temperature**2 * divergence


def sigmoid_divergence(student: tf.Tensor, teacher: tf.Tensor, temperature: float) -> tf.Tensor:
    """T² · KL(σ(t / T) ‖ σ(s / T)), the mean over the labels: float32 [...] from logits [..., K]."""
    soft, student = teacher / temperature, student / temperature
    targets = tf.sigmoid(soft)
    cross_entropy, entropy = (
        tf.nn.sigmoid_cross_entropy_with_logits(targets, logits) for logits in (student, soft)
    )
    return temperature**2 * tf.reduce_mean(cross_entropy - entropy, axis=-1)


def squared_difference(student: tf.Tensor, teacher: tf.Tensor, temperature: float) -> tf.Tensor:
    """(s - t)², the mean over the last axis: float32 [...] from scores [..., 1]; they have no temperature."""
    return tf.reduce_mean(tf.math.squared_difference(student, teacher), axis=-1)


def cosine_distance(student: tf.Tensor, teacher: tf.Tensor) -> tf.Tensor:
    """1 - cos(student, teacher): float32 [...] from hidden states [..., H].

    Source: Sanh et al. 2019, DistilBERT, §3.
    """
    directions = (tf.math.l2_normalize(tf.cast(x, tf.float32), axis=-1) for x in (student, teacher))
    return 1.0 - tf.reduce_sum(tf.multiply(*directions), axis=-1)


# A function from a batch to the outputs of a teacher.
Teacher = Callable[[Tensors], dict[str, tf.Tensor]]


# The loss against soft labels by task class, from the student's logits, the teacher's, and the temperature.
SOFT_LABEL_LOSSES: dict[type[FinetuningTask], Callable[..., tf.Tensor]] = {
    Classification: softmax_divergence,
    MultiLabel: sigmoid_divergence,
    Regression: squared_difference,
}


def pretraining_distillation_loss(loss_fn: LossFn, teacher: Teacher, targets: SoftTargets) -> LossFn:
    """The losses of pre-training with a teacher: `loss_fn`, `soft` and `cosine`, without losses of weight 0.

    Source: Sanh et al. 2019, DistilBERT, §3.
    Note: `soft` is the mean over the masked tokens, since only their logits are computed; the authors' code
      does so only with `restrict_ce_to_mask`, which is off by default.
    """
    loss_weights = {"mlm": targets.mlm_weight, "soft": targets.soft_weight, "cosine": targets.cosine_weight}
    soft = functools.partial(softmax_divergence, temperature=targets.temperature)
    losses = {
        **loss_fn.losses,
        "soft": _teacher_loss("mlm_logits", soft, lambda batch: batch[MLM_WEIGHTS]),
        "cosine": _teacher_loss(
            "sequence_output", cosine_distance, lambda batch: tf.cast(batch[INPUT_MASK], tf.float32)
        ),
    }
    return _drop_unused_losses(LossFn(losses, loss_weights, teacher))


def task_distillation_loss(
    loss_fn: LossFn, task: FinetuningTask, teacher: Teacher, targets: SoftLabels
) -> LossFn:
    """The losses of fine-tuning with a teacher: `loss_fn` and `soft`, for a task of SOFT_LABEL_LOSSES."""
    (label_loss,) = loss_fn.losses.values()
    soft = functools.partial(SOFT_LABEL_LOSSES[type(task)], temperature=targets.temperature)
    loss_weights = {"soft": targets.soft_weight, **dict.fromkeys(loss_fn.losses, targets.label_weight)}

    def weights(batch: Tensors) -> tf.Tensor:
        return label_loss.weights({**batch, WEIGHTS: batch[SOFT_WEIGHTS]} if SOFT_WEIGHTS in batch else batch)

    losses = {**loss_fn.losses, "soft": _teacher_loss("logits", soft, weights)}
    return _drop_unused_losses(LossFn(losses, loss_weights, teacher))


def _teacher_loss(
    output: str, compare: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], weights: Callable[[Tensors], tf.Tensor]
) -> Loss:
    """A loss that compares one output of the student with the same output of the teacher.

    Args:
      output: name of the output.
      compare: function from the outputs of student and teacher to losses [...].
      weights: function from a batch to the weights of the losses, float32 [...].
    """

    def loss_sum(outputs: Mapping[str, Any], batch: Tensors, weights: tf.Tensor) -> LossSum:
        return sum_losses(compare(outputs[output], outputs[TEACHER][output]), None, weights)

    return Loss(loss_sum, weights)


def _drop_unused_losses(loss_fn: LossFn) -> LossFn:
    """Drops the losses of weight 0."""
    weights = loss_fn.loss_weights
    return loss_fn._replace(losses={name: x for name, x in loss_fn.losses.items() if weights.get(name, 1)})


def load_teacher(
    run: RunDirectory, compute: ComputeConfig, labels: Sequence[str] = (), *, encoder_only: bool = False
) -> Teacher:
    """A function from a batch to the outputs of a run's network; no gradient goes through them.

    Only the losses call the teacher, so that neither trainer nor checkpoint knows its variables. Call this
    under the strategy of the training.

    Args:
      run: the run directory of the teacher.
      compute: how the student computes; the teacher has the same precision.
      labels: labels of the student, in the order of its logits; the teacher's `logits` get this order. Empty:
        the teacher's own order.
      encoder_only: return the encoder's outputs, without the head, which may need inputs of its own.
    Raises:
      InputError: the teacher has other labels, or its weights are non-finite.
    """
    names = run.task.get("labels") or map(str, range(run.task.get("num_labels", 0)))
    known = list(map(normalize_label, names if labels else []))
    if sorted(known) != sorted(labels):
        raise InputError(f"the labels {list(labels)} are not those of {run}, {known}: name another teacher")
    order = [known.index(label) for label in labels]
    model = load_checked(run, dtype=compute.policy, fused=is_fused(compute))
    network = model.encoder if encoder_only else model

    def teacher(batch: Tensors) -> dict[str, tf.Tensor]:
        outputs = network(batch, training=False)
        if order:
            outputs = {**outputs, "logits": tf.gather(outputs["logits"], order, axis=-1)}
        return {name: tf.stop_gradient(x) for name, x in outputs.items() if isinstance(x, tf.Tensor)}

    return teacher


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distillation(Pretraining):
    """Settings of pre-training with a teacher; `Pretraining` has the other settings.

    Args:
      teacher: a pre-trained run or a published name; teacher and student have the same vocabulary.
      targets: the weights of the losses; None: `default_soft_targets` of the teacher.
    """

    teacher: PathLike
    targets: SoftTargets | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskDistillation(Finetuning):
    """Settings of fine-tuning with a teacher; `Finetuning` has the other settings.

    Args:
      teacher: a run that is fine-tuned for the same task.
      unlabelled: files or globs of further texts, which only the teacher labels: tables as `predict` reads
        them, or text files with blank lines between the texts.
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
        return read_unlabelled(self.task_spec, self.unlabelled, self.columns)

    def _check_start(self) -> None:
        if self.init_from is None and self.config is None and self.num_hidden_layers is None:
            raise InputError("the student's network is missing: name it by `config`, or a run by `init_from`")


def default_soft_targets(teacher: RunDirectory, **changes: float) -> SoftTargets:
    """DistilBERT's weights of the losses; only `cosine_weight` if the teacher has no masked-token head."""
    defaults = {} if _has_mlm_head(teacher) else {"soft_weight": 0.0, "mlm_weight": 0.0}
    return SoftTargets(**{**defaults, **changes})


def _has_mlm_head(teacher: RunDirectory) -> bool:
    return teacher.task["model"] == "pretrainer"


def distill(settings: Distillation, report: LogFunction = logging.info) -> None:
    """Pre-trains a student with a teacher, or resumes where an earlier call stopped.

    If `init_from` names a run, the student starts from its weights. Otherwise it starts from layers of the
    teacher, spread evenly over its depth (all layers if the teacher shares them). If the widths differ, it
    starts from random weights, which is reported.

    Args:
      settings: the settings of the run.
      report: called with each log line.
    Raises:
      InputError: the teacher has another vocabulary or fewer positions, or a loss is not possible: soft
        targets without a head for masked tokens, the cosine of states of different sizes, or a loss of
        masked tokens if none is masked. The other errors are the errors of `pretrain`.
    """
    tokenizer = {"lowercase": settings.lowercase, "strip_accents": settings.strip_accents}
    teacher = resolve_run(settings.teacher)
    made_with = resolve_settings(settings.vocabulary, tokenizer)
    vocabulary = teacher.resolve_vocabulary(settings.vocabulary, made_with)
    targets, has_mlm_head = settings.targets or default_soft_targets(teacher), _has_mlm_head(teacher)
    if targets.soft_weight and not has_mlm_head:
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
    _check_positions(teacher, config, settings.recipe.examples.seq_length)
    settings = dataclasses.replace(
        settings,
        targets=targets,
        init_from=_student_start(settings, teacher, config, report),
        entries=_teacher_entries(settings.teacher, teacher, targets),
    )
    # `pretrain` creates losses under its strategy, to train and to evaluate; it loads the teacher once.
    create_teacher = functools.cache(
        lambda: load_teacher(teacher, settings.compute, encoder_only=not has_mlm_head)
    )
    pretrain(
        settings, report, lambda loss_fn: pretraining_distillation_loss(loss_fn, create_teacher(), targets)
    )


def distill_task(settings: TaskDistillation, report: LogFunction = logging.info) -> None:
    """Fine-tunes a student with a teacher for the same task, or resumes where an earlier call stopped.

    The student starts as in `distill`, and also copies the teacher's head.

    Args:
      settings: the settings of the run.
      report: called with each log line.
    Raises:
      InputError: the teacher has another vocabulary, another task, other labels or fewer positions, or the
        task is not a classification or regression of whole texts. The other errors are the errors of
        `finetune`.
    """
    if settings.task_spec.task_class not in SOFT_LABEL_LOSSES:
        kinds = ", ".join(task_class.name for task_class in SOFT_LABEL_LOSSES)
        raise InputError(f"task={settings.task!r} has no soft labels: choose one of the kinds {kinds}")
    teacher = resolve_run(settings.teacher)
    config, vocabulary = _task_student(settings, teacher)
    if (teacher_task := finetuned_entries(teacher)["task"]) != settings.task:
        raise InputError(f"{teacher} is fine-tuned for {teacher_task} and not for {settings.task}")
    pairs = settings.columns is not None and settings.columns.text_pair is not None
    if settings.columns is not None and takes_pairs(teacher.task) not in (None, pairs):
        form = "single texts" if pairs else "pairs of texts"
        raise InputError(f"{teacher} is fine-tuned on {form}, and the student is not: name another teacher")
    _check_positions(teacher, config, settings.hyper_parameters(config).seq_length)
    texts = {} if settings.unlabelled is None else {"unlabelled": path_list(settings.unlabelled)}
    settings = dataclasses.replace(
        settings,
        init_from=_student_start(settings, teacher, config, report),
        vocabulary=vocabulary,
        tokenizer=teacher.tokenizer_of(vocabulary),
        entries={**_teacher_entries(settings.teacher, teacher, settings.targets), **texts},
    )

    def extend(loss_fn: LossFn, task: FinetuningTask) -> LossFn:
        teacher_fn = load_teacher(teacher, settings.compute, task.labels)
        return task_distillation_loss(loss_fn, task, teacher_fn, settings.targets)

    finetune(settings, report, extend)


def _task_student(settings: TaskDistillation, teacher: RunDirectory) -> tuple[AlbertConfig, Path]:
    """The network and the vocabulary of a student of a task.

    What the settings do not name is that of `init_from`, or of the teacher if they name neither `init_from`
    nor `config`.
    """
    config, vocabulary, tokenizer = settings.config, settings.vocabulary, settings.tokenizer
    if settings.init_from is not None or config is None:
        origin = settings.output_run()  # if it has begun, `init_from` is not needed and may no longer exist
        if not (origin.has_recipe and origin.steps()):
            origin = (
                teacher
                if settings.init_from is None
                else resolve_run(settings.init_from, settings.vocabulary)
            )
        if origin.vocabulary is not None:
            vocabulary, tokenizer = vocabulary or origin.vocabulary, {**origin.tokenizer, **tokenizer}
        config = config or origin.config
    vocabulary = teacher.resolve_vocabulary(vocabulary, tokenizer)
    return config.replace(vocab_size=teacher.config.vocab_size), vocabulary


def _student_start(
    settings: Distillation | TaskDistillation,
    teacher: RunDirectory,
    config: AlbertConfig,
    report: LogFunction,
) -> PathLike | None:
    """The run whose weights a student starts from; None for random weights, which is reported.

    In this order: the run that the settings name; the teacher, if they name no network or one of the same
    widths; none.
    """
    if settings.init_from is not None:
        return settings.init_from
    differences = [] if settings.config is None else config_differences(teacher.config, config)
    if not differences:
        return settings.teacher
    if not RunDirectory(settings.output).steps():
        report(f"weights at random, since {teacher} is of another network: {'; '.join(differences)}")
    return None


def _check_positions(teacher: RunDirectory, config: AlbertConfig, seq_length: int) -> None:
    """Raises InputError if a student has longer sequences or more positions than the teacher."""
    remedy, positions = f"{teacher} has no more positions", teacher.config.max_position_embeddings
    teacher.config.check_length(seq_length, remedy)
    check_range("max_position_embeddings", config.max_position_embeddings, at_most=positions, remedy=remedy)


def _teacher_entries(
    name: PathLike, teacher: RunDirectory, targets: SoftTargets | SoftLabels
) -> dict[str, Any]:
    """Entries of recipe.json: the teacher and its weights, which must be the same when the run resumes."""
    digest = provenance_record({}, teacher.path)["init_from_sha256"]
    return {"teacher": os.fspath(name), "teacher_sha256": digest, **flatten_record(targets)}
