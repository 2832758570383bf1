"""Temperature of a teacher's soft targets, and weights of the losses."""

from __future__ import annotations

import dataclasses

from albert_tf.errors import check_range


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Softened:
    """Temperature and weight of a teacher's answers; an InputError names a number that is impossible."""

    temperature: float = 2.0
    soft_weight: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            above, at_least = (0, None) if name in ("temperature", "soft_weight") else (None, 0)
            check_range(name, value, above=above, at_least=at_least, below=float("inf"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SoftTargets(_Softened):
    """Weights of the losses of pre-training with a teacher.

    Args:
      temperature: what both networks' logits are divided by for the soft targets, T.
      soft_weight: of the divergence from the teacher's soft targets.
      mlm_weight: of the masked tokens' own loss.
      cosine_weight: of the cosine distance of the last hidden states; 0 where their widths differ.

    Source: Sanh et al. 2019, DistilBERT; the values from the code of its authors.
    """

    soft_weight: float = 5.0
    mlm_weight: float = 2.0
    cosine_weight: float = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class SoftLabels(_Softened):
    """Weights of the losses of fine-tuning with a teacher.

    Args:
      temperature: what both networks' logits are divided by for the soft labels, T.
      soft_weight: of the divergence from the teacher's soft labels.
      label_weight: of the labels' own loss.

    Source: Sanh et al. 2019, DistilBERT, §4; the values from the code of its authors.
    """

    soft_weight: float = 0.5
    label_weight: float = 0.5
