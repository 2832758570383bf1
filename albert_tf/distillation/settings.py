"""Settings of distillation: those of pre-training or fine-tuning, the teacher, and what is learnt from it."""

from __future__ import annotations

import dataclasses

from albert_tf.distillation.targets import SoftLabels, SoftTargets
from albert_tf.finetuning.settings import Finetuning
from albert_tf.pretraining.settings import Pretraining
from albert_tf.training.run_settings import PathLike
from albert_tf.utils.errors import InputError


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
